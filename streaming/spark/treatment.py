"""What the logs of a carried checkpoint say, treatment by treatment; pure.

The standby's offsets stand for the end of batch N, so N and N - 1 get them. What becomes of batch N + 1:

none     never planned: the next batch is N + 1, from the new offsets.
replan   planned, and found again record by record: its range is rewritten, and it runs a second time under its id.
promote  planned, and the sink has it: it counts as committed, and the offsets stand for the end of N + 1.
bridge   planned, else: an empty batch N + 1 from and to the same offsets, so that its id never stands for other data.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from state.protocol import Treatment
from streaming.spark.checkpoint import LogEnd
from streaming.spark.checkpoint_text import (
    CommitEntry,
    OffsetEntry,
    TopicOffsets,
    format_commit_entry,
    format_offset_entry,
)
from streaming.spark.errors import EmptyCheckpoint, MovedOn
from streaming.spark.state_files import StateIds

SourceOffsets = Mapping[str, TopicOffsets]
"""Offsets by the source's key in the entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logs:
    """The two logs of a new checkpoint."""

    offsets: Mapping[int, OffsetEntry]
    commits: Mapping[int, CommitEntry]
    data_batch: int
    """The first batch id that can hold new data."""
    state_version: int

    def contents(self) -> dict[str, bytes]:
        """The files to write, by path relative to the checkpoint."""
        offsets = {f"offsets/{batch}": format_offset_entry(entry) for batch, entry in self.offsets.items()}
        commits = {f"commits/{batch}": format_commit_entry(entry) for batch, entry in self.commits.items()}
        return offsets | commits


def rewrite(
    end: LogEnd,
    treatment: Treatment,
    target: SourceOffsets,
    planned_target: SourceOffsets,
    next_ids: StateIds,
) -> Logs:
    """Write the logs anew for the standby.

    ``target`` are the standby's offsets for the end of N (of N + 1 when promoted), ``planned_target`` those for the
    end of a replanned N + 1; a source in neither stays where it was. ``next_ids`` are the unique state ids of a
    promoted batch (checkpoint format 2). Raises ``EmptyCheckpoint`` without a committed batch, ``MovedOn`` when N + 1
    is planned and the treatment says it is not, or the other way round.
    """
    if end.batch is None or end.last is None or end.commit is None:
        raise EmptyCheckpoint(hint="there is nothing to carry: move the query with resume: fresh")
    _check_planned(end, treatment)
    batch, commit = end.batch, end.commit
    last = end.last.moved_to(target)
    offsets = {} if batch == 0 else {batch - 1: (end.previous or end.last).moved_to(target)}
    offsets[batch] = last
    commits = {batch: commit}
    promoted = treatment is Treatment.PROMOTE
    if promoted and end.planned is not None:
        offsets[batch + 1] = end.planned.moved_to(target)
        commits[batch + 1] = _promoted(commit, end.planned, next_ids)
    elif treatment is Treatment.REPLAN and end.planned is not None:
        offsets[batch + 1] = end.planned.moved_to(planned_target)
    elif treatment is Treatment.BRIDGE:
        planned_watermark = 0 if end.planned is None else end.planned.watermark_ms
        offsets[batch + 1] = last.at_watermark(max(last.watermark_ms, commit.next_watermark_ms, planned_watermark))
    return Logs(
        offsets=offsets,
        commits=commits,
        data_batch=batch + (2 if treatment in {Treatment.PROMOTE, Treatment.BRIDGE} else 1),
        state_version=batch + (2 if promoted else 1),
    )


def _check_planned(end: LogEnd, treatment: Treatment) -> None:
    needs_planned = treatment in {Treatment.REPLAN, Treatment.PROMOTE}
    if end.planned is None and needs_planned:
        raise MovedOn(f"batch {(end.batch or 0) + 1} is not planned, so there is nothing to {treatment.value}")
    if end.planned is not None and treatment is Treatment.NONE:
        raise MovedOn(f"batch {(end.batch or 0) + 1} is planned by now, and must be treated")


def _promoted(commit: CommitEntry, planned: OffsetEntry, next_ids: StateIds) -> CommitEntry:
    """A commit that Spark did not write: it moves the watermark no further than is known to be right."""
    entry = commit.with_state_ids(next_ids) if next_ids else commit
    return entry.at_watermark(max(commit.next_watermark_ms, planned.watermark_ms))
