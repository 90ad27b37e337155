"""What is judged per topic: is it there, and do its partitions match the old ones one to one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from state.model.fingerprints import timestamps_of
from streaming.cluster_log import OffsetAnswer, PartitionError, TopicFacts
from streaming.resume import notes
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.model import Want

UNKNOWN = PartitionError(
    name="UNKNOWN_TOPIC_OR_PARTITION", text="the standby does not have this topic", retriable=False
)


BEHIND = frozenset({Cause.LAGS, Cause.EMPTY})
"""The standby ends before the position."""

_UNACCOUNTED = frozenset({Cause.UNACCOUNTED, Cause.CONTRADICTED})
"""The last record read may be on the standby, or have been there."""

_STRAYED = frozenset({Cause.MISMATCH, Cause.COMPACTED})
"""Nothing that was read is where it was read: another partitioner may have put it elsewhere."""

PARTNERED = 16
"""Remembered records that distinguish a partition's copy from another partitioner's work (16: no false match in
trials).
"""


def is_missing(topic: TopicFacts | None) -> bool:
    """Whether the standby does not have the topic, as opposed to not answering."""
    return error_of(topic).name == UNKNOWN.name


def error_of(topic: TopicFacts | None) -> PartitionError:
    """Why a topic cannot be looked at."""
    return UNKNOWN if topic is None or topic.error is None else topic.error


def spread(members: Sequence[Want], count: int) -> Iterator[Want]:
    """One want for each of the standby's ``count`` partitions; a partition that is new there was read up to 0."""
    old = {want.partition: want for want in members}
    for partition in range(count):
        yield old.get(partition) or replace(
            members[0], partition=partition, offset=0, ring=(), ring_offset=None, dense=None, begin_known=None,
            read_to=None, lost=None,
        )  # fmt: skip


def mismatch(outcomes: Iterable[tuple[int, Found | NoPlace | None, bool]]) -> int | None:
    """The lowest partition whose last record should be on the standby and is not; lagging or empty is no mismatch.

    Too little around it is one as well, unless retention may have deleted the rest (third of each: whether it may).
    """
    return min((number for number, outcome, is_cut in outcomes if _has_strayed(outcome, is_cut=is_cut)), default=None)


def _has_strayed(outcome: Found | NoPlace | None, *, is_cut: bool) -> bool:
    cause = outcome.cause if isinstance(outcome, NoPlace) else None
    return cause in _STRAYED or (cause is Cause.THIN and not is_cut)


def is_partner(want: Want, outcome: Found | NoPlace | None) -> bool:
    """Whether a partition holds what the old one of its number held, although the counts differ.

    Nothing was read, or enough records agree, at one place only, that no other partitioner can have left them so.
    """
    if want.offset == 0:
        return True
    known = isinstance(outcome, Found) and outcome.repeats == 0 and outcome.missing is not None
    return known and len(want.ring) >= PARTNERED


def behind(outcome: Found | NoPlace | None, end: int) -> Found | NoPlace | None:
    """A standby without any record as new as the last one read ends before the position: resume at that end.

    Holds for a replicator that keeps partitions and their order, and no partition of the topic spoke against it. Not
    exact: which of the remembered records are missing is not known, only that the last one is.
    """
    if not isinstance(outcome, NoPlace) or outcome.cause not in BEHIND:
        return outcome
    return Found(
        end,
        exact=False,
        missing=None,
        expired=outcome.expired,
        note=f"{notes.CAUSES[outcome.cause]}: resumed at its end",
    )


def expired(
    outcome: Found | NoPlace | None, want: Want, first: OffsetAnswer | None, *, is_cut: bool, is_older: bool
) -> Found | NoPlace:
    """What retention has to do with a place that was not found.

    A mismatch is its work where the standby's first record is younger than all that is remembered. Unread records may
    be among those deleted (``is_cut``: there are such) unless what is left begins with records that were copied before
    any unread one (``is_older``). Where the last record read is not accounted for, times show nothing.
    """
    if outcome is None:
        return NoPlace(Cause.DEADLINE, expired=is_cut)
    if isinstance(outcome, Found):
        return outcome
    newest = max(timestamps_of(want.ring), default=0)
    first_ms = None if first is None else first.timestamp_ms
    if outcome.cause in (Cause.MISMATCH, Cause.THIN) and first_ms is not None and newest < first_ms:
        return NoPlace(Cause.RETENTION, notes.retention(first_ms, newest), expired=True)
    is_reported = is_older and not outcome.expired and outcome.cause not in _UNACCOUNTED
    return replace(outcome, expired=outcome.cause is Cause.RETENTION or (is_cut and not is_reported))
