"""Makes the checkpoint with which a query continues at the standby.

A computed set of files is copied, the few that name the old cluster's offsets are written again, and everything is read
back. The old checkpoint stays as it is. Editing it in place would be quicker with a large state; a copy leaves the way
back open, and fails with nothing changed.

A rewind that goes back to a retained batch makes it the last one: entries and state of later batches are left behind.
"""

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from posixpath import dirname

from state.messages import Offsets, PrepareReport, PrepareRequest, UncommittedBatch
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_fence import MARK, Mark, Still, claim, discard, require_held
from streaming.spark.checkpoint.log_text import (
    CommitEntry,
    Declared,
    OffsetEntry,
    bind_sources,
    format_commit_entry,
    format_offset_entry,
    format_query_id,
    parse_commit_entry,
    parse_offset_entry,
    parse_query_id,
    source_offsets,
)
from streaming.spark.checkpoint.mapping import Left, Move, Placed, SourceOffsets, places_of, read_moves, write_move
from streaming.spark.checkpoint.read import LogEnd, read_log_at, read_log_end
from streaming.spark.checkpoint.retained import state_version
from streaming.spark.checkpoint.state_files import StateIds, next_state_ids, select_sources
from streaming.spark.errors import (
    AlreadyRun,
    CheckpointError,
    EmptyCheckpoint,
    FileVanished,
    HalfWritten,
    MalformedEntry,
    MovedOn,
    NoSpace,
    TargetTaken,
)


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
    treatment: UncommittedBatch,
    target: SourceOffsets,
    planned_target: SourceOffsets,
    next_ids: StateIds,
) -> Logs:
    """Write the logs for the standby.

    ``target`` are the standby's offsets for the end of N (of N + 1 when promoted), ``planned_target`` those for the end
    of a replanned N + 1. A source in neither stays where it was. ``next_ids`` are the unique state ids of a promoted
    batch (checkpoint format 2); of others they are not needed. Raises ``EmptyCheckpoint`` without a committed batch,
    ``MovedOn`` when N + 1 is planned and the treatment says it is not, or the other way round.

    The standby's offsets stand for the end of batch N, so N and N - 1 get them. What becomes of batch N + 1:

    none     never planned: the next batch is N + 1, from the new offsets.
    replan   planned, and found again record by record: its range is rewritten, and it runs a second time under its id.
    promote  planned, and the sink has it: it counts as committed, and the offsets stand for the end of N + 1.
    bridge   planned, else: an empty batch N + 1 from and to the same offsets: its id never stands for other data.
    """
    if end.batch is None or end.last is None or end.commit is None:
        raise EmptyCheckpoint(hint="there is nothing to carry: move the query with resume: fresh")
    _check_planned(end, treatment)
    batch, commit = end.batch, end.commit
    last = end.last.moved_to(target)
    offsets = {} if batch == 0 else {batch - 1: (end.previous or end.last).moved_to(target)}
    offsets[batch] = last
    commits = {batch: commit}
    promoted = treatment is UncommittedBatch.PROMOTE
    if promoted and end.planned is not None:
        offsets[batch + 1] = end.planned.moved_to(target)
        commits[batch + 1] = _promoted(commit, end.planned, next_ids)
    elif treatment is UncommittedBatch.REPLAN and end.planned is not None:
        offsets[batch + 1] = end.planned.moved_to(planned_target)
    elif treatment is UncommittedBatch.BRIDGE:
        planned_watermark = 0 if end.planned is None else end.planned.watermark_ms
        offsets[batch + 1] = last.at_watermark(max(last.watermark_ms, commit.next_watermark_ms, planned_watermark))
    return Logs(
        offsets=offsets,
        commits=commits,
        data_batch=batch + (2 if treatment in {UncommittedBatch.PROMOTE, UncommittedBatch.BRIDGE} else 1),
        state_version=batch + (2 if promoted else 1),
    )


def _check_planned(end: LogEnd, treatment: UncommittedBatch) -> None:
    needs_planned = treatment in {UncommittedBatch.REPLAN, UncommittedBatch.PROMOTE}
    if end.planned is None and needs_planned:
        raise MovedOn(f"batch {(end.batch or 0) + 1} is not planned, so there is nothing to {treatment.value}")
    if end.planned is not None and treatment is UncommittedBatch.NONE:
        raise MovedOn(f"batch {(end.batch or 0) + 1} has been planned in the meantime")


def _promoted(commit: CommitEntry, planned: OffsetEntry, next_ids: StateIds) -> CommitEntry:
    """A commit that Spark did not write: it moves the watermark no further than is known to be right."""
    entry = commit.with_state_ids(next_ids) if next_ids else commit
    return entry.at_watermark(max(commit.next_watermark_ms, planned.watermark_ms))


_ATTEMPTS = 3
_SPARE_BYTES = 1 << 16
"""Room for the log entries and for what a file system rounds up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyPlan:
    """What the new checkpoint consists of."""

    logs: Logs
    written: Mapping[str, bytes]
    """Files written for the standby, by path relative to the checkpoint."""
    copied: Mapping[str, int]
    """Files taken over, relative likewise, with their sizes in bytes."""

    @property
    def bytes(self) -> int:
        return sum(self.copied.values()) + sum(len(content) for content in self.written.values())


Between = Callable[[], None]
"""Called between a few files and the next; what it raises ends the copy."""
_FEW = 8


def prepare(
    files: CheckpointFiles,
    request: PrepareRequest,
    sources: Declared,
    *,
    aside: Between | None = None,
    placed: Placed | None = None,
    still: Still | None = None,
) -> PrepareReport:
    """Make the new checkpoint and read it back.

    ``sources`` maps each declared source to its topics on the *old* cluster. For ``fresh`` nothing is made: the folder
    must not be there. For ``switch`` it is the old checkpoint, beside which a mapping is written. In the end the old
    checkpoint is looked at once more. A run that could not be stopped may have committed the batch that it had in
    flight while a large state was copied. Raises ``MovedOn``, ``NoSpace``, ``TargetTaken`` or another
    ``CheckpointError``; then nothing is left of what was made, and the old checkpoint is untouched in any case.

    ``aside``: the query runs on, and what is copied is its checkpoint as it was at the batch of the request.
    ``still`` raises ``Overtaken`` once the request counts no longer; None for a copy aside, of which no query runs.
    """
    started = time.monotonic()
    if still is not None:
        still()
    if request.resume == "fresh":
        _clear_for_fresh(files, request)
        if aside is None:
            _check_again(files, request, sources, placed)
        return PrepareReport(checkpoint=request.target, data_batch=0, files=0, bytes=0, seconds=0.0)
    if request.resume == "switch":
        return _map(files, request, sources, placed, started, still or _nothing)
    plan = _carry_persistently(files, request, sources, aside, placed, still or _nothing)
    return PrepareReport(
        checkpoint=request.target,
        data_batch=plan.logs.data_batch,
        files=len(plan.written) + len(plan.copied),
        bytes=plan.bytes,
        seconds=time.monotonic() - started,
    )


def _nothing() -> None:
    """No other process makes the copy of a drill."""


def _map(
    files: CheckpointFiles,
    request: PrepareRequest,
    sources: Declared,
    placed: Placed | None,
    started: float,
    still: Still,
) -> PrepareReport:
    """Write where each source continues, beside the checkpoint that stays in use; of its content nothing is touched."""
    if placed is None:
        raise MovedOn(f"the store has no row of the query, so the cluster of {request.checkpoint} is unknown")
    require_held(files, request.checkpoint, request.operation, request.epoch)
    end = read_log_end(files, request.checkpoint, placed)
    bound = _check_place(end, request, sources)
    _check_planned(end, request.treatment)
    if end.batch is None or end.last is None:
        raise EmptyCheckpoint(hint="there is no batch after which the query could continue")
    skips = request.treatment in {UncommittedBatch.PROMOTE, UncommittedBatch.BRIDGE}
    if skips and end.planned is None:
        raise MovedOn(f"batch {end.batch + 1} is not planned, so there is nothing to {request.treatment.value}")
    move = Move(
        epoch=request.epoch,
        operation=request.operation,
        attempt=request.attempt,
        left=Left(cluster=placed.cluster, epoch=read_moves(files, request.checkpoint, placed).epoch),
        to=request.cluster,
        places=places_of(
            request.treatment,
            _by_key(source_offsets(end.last, bound), bound),
            {} if end.planned is None else _by_key(source_offsets(end.planned, bound), bound),
            _by_key(request.target_offsets, bound),
            _by_key(request.planned_target_offsets or {}, bound),
        ),
    )

    def confirm() -> None:
        still()
        require_held(files, request.checkpoint, request.operation, request.epoch)
        _check_again(files, request, sources, placed)

    size = write_move(files, request.checkpoint, move, confirm)
    return PrepareReport(
        checkpoint=request.checkpoint,
        data_batch=end.batch + (2 if skips else 1),
        files=1,
        bytes=size,
        seconds=time.monotonic() - started,
    )


def plan_copy(
    files: CheckpointFiles,
    request: PrepareRequest,
    sources: Declared,
    *,
    end: LogEnd | None = None,
    placed: Placed | None = None,
) -> CopyPlan:
    """Compute the new checkpoint's files. Changes nothing; raises ``FileVanished`` when the old one was purged in
    between, and ``MovedOn`` when it is not where the request says. With an ``end`` it is copied up to there only.
    """
    end = read_log_end(files, request.checkpoint, placed) if end is None else end
    bound = _check_place(end, request, sources)
    if request.back_to is not None:
        end = read_log_at(files, request.checkpoint, request.back_to, placed)
    state = files.walk(join(request.checkpoint, "state"))
    state_ids = end.commit.state_ids if end.commit else {}
    version = (end.batch or 0) + 1
    ids = state_ids
    if request.treatment is UncommittedBatch.PROMOTE and state:
        version += 1
        ids = next_state_ids(state, version, state_ids) if state_ids else {}
    logs = rewrite(
        end,
        request.treatment,
        _by_key(request.target_offsets, bound),
        _by_key(request.planned_target_offsets or {}, bound),
        ids,
    )
    kept = state_version(files, request.checkpoint, state, version, ids, target=request.target)
    mark = _mark(request, logs)
    written = {MARK: mark.model_dump_json().encode(), "metadata": format_query_id(str(uuid.uuid4()))} | logs.contents()
    written |= {f"state/{path}": content for path, content in kept.metadata.items()}
    copied = {f"state/{path}": state[path] for path in sorted(kept.copied)}
    copied |= select_sources(files, request.checkpoint, logs.offsets.values())
    return CopyPlan(logs=logs, written=written, copied=copied)


def _carry_persistently(
    files: CheckpointFiles,
    request: PrepareRequest,
    sources: Declared,
    aside: Between | None,
    placed: Placed | None,
    still: Still,
) -> CopyPlan:
    for attempt in range(1, _ATTEMPTS + 1):
        plan = None
        try:
            end = None
            if aside is not None and request.batch is not None:
                end = read_log_at(files, request.checkpoint, request.batch, placed)
            plan = plan_copy(files, request, sources, end=end, placed=placed)
            _check_space(files, request, plan)
            claim(files, request.target, _mark(request, plan.logs))
            _write(files, request, plan, aside)
            read_back(files, request.target, plan)
            if aside is None:
                _check_again(files, request, sources, placed)
            still()
            return plan
        except FileVanished:
            _clean_up(files, request, plan)
            if attempt == _ATTEMPTS:
                raise
        except CheckpointError as error:
            if not isinstance(error, TargetTaken):
                _clean_up(files, request, plan)
            raise
    raise AssertionError("the last attempt either returns or raises")


def _check_place(end: LogEnd, request: PrepareRequest, sources: Declared) -> Mapping[str, str]:
    """Compare the checkpoint with what was resolved; return its sources' names."""
    if end.batch != request.batch:
        raise MovedOn(
            f"resume offsets were found for batch {request.batch}, but the checkpoint is at batch {end.batch}"
        )
    entries = [entry for entry in (end.previous, end.last, end.planned) if entry is not None]
    bound = bind_sources(entries, sources) if entries else {}
    now = source_offsets(end.last, bound) if end.last else {}
    for name, offsets in request.offsets.items():
        if now.get(name) != offsets:
            raise MovedOn(f"the offsets of source {name} are not those that were resolved for batch {request.batch}")
    unknown = (request.target_offsets.keys() | (request.planned_target_offsets or {}).keys()) - set(bound.values())
    if unknown:
        raise MovedOn(f"the checkpoint has no source {', '.join(sorted(unknown))}")
    return bound


def _check_again(files: CheckpointFiles, request: PrepareRequest, sources: Declared, placed: Placed | None) -> None:
    """Raises ``MovedOn`` when a batch was committed since the place was resolved."""
    end = read_log_end(files, request.checkpoint, placed)
    if end.batch is not None or request.batch is not None:  # nothing committed: it is where it was ordered to start
        _check_place(end, request, sources)


def _by_key(offsets: Offsets, bound: Mapping[str, str]) -> SourceOffsets:
    return {key: offsets[name] for key, name in bound.items() if name in offsets}


def _mark(request: PrepareRequest, logs: Logs) -> Mark:
    return Mark(
        operation=request.operation,
        epoch=request.epoch,
        cluster=request.cluster or None,
        newest_offsets=max(logs.offsets),
        newest_commit=max(logs.commits),
    )


def _check_space(files: CheckpointFiles, request: PrepareRequest, plan: CopyPlan) -> None:
    target = request.target
    free = files.free_space(dirname(target.rstrip("/")))
    by_name = files.copies_by_name(request.checkpoint, target)
    needed = plan.bytes + _SPARE_BYTES - (sum(plan.copied.values()) if by_name else 0)
    if free is not None and free < needed:
        raise NoSpace(
            f"the new checkpoint needs {needed} bytes, but only {free} are free at {target}",
            hint="free space there, or move the query's checkpoint folder to a larger file system",
        )


def _write(files: CheckpointFiles, request: PrepareRequest, plan: CopyPlan, between: Between | None) -> None:
    """State first and the logs last: a folder without its logs cannot be taken for a checkpoint."""
    pairs = [(join(request.checkpoint, path), join(request.target, path)) for path in plan.copied]
    few = len(pairs) if between is None else _FEW
    for first in range(0, len(pairs), max(few, 1)):
        if between is not None:
            between()
        files.copy(pairs[first : first + few])
    for path, content in plan.written.items():
        if path != MARK:
            files.replace(join(request.target, path), content)


def read_back(files: CheckpointFiles, target: str, plan: CopyPlan) -> None:
    """Compare what the file system holds with what was meant. Raises ``HalfWritten`` or ``MalformedEntry``."""
    expected = dict(plan.copied) | {path: len(content) for path, content in plan.written.items()}
    found = files.walk(target)
    wrong = sorted(path for path in expected.keys() | found.keys() if expected.get(path) != found.get(path))
    if wrong:
        raise HalfWritten(f"{join(target, wrong[0])} does not read back as it was written ({len(wrong)} such files)")
    for path, content in plan.written.items():
        where = join(target, path)
        if files.read_bytes(where) != content:
            raise HalfWritten(f"{where} does not read back as it was written")
    for batch, entry in plan.logs.offsets.items():
        if parse_offset_entry(plan.written[f"offsets/{batch}"], f"offsets/{batch}") != entry:
            raise MalformedEntry(f"offsets/{batch} does not read back as it was written")
    for batch, commit in plan.logs.commits.items():
        if parse_commit_entry(plan.written[f"commits/{batch}"], f"commits/{batch}") != commit:
            raise MalformedEntry(f"commits/{batch} does not read back as it was written")
    parse_query_id(plan.written["metadata"], "metadata")


def _clean_up(files: CheckpointFiles, request: PrepareRequest, plan: CopyPlan | None) -> None:
    """Remove what this attempt left. On a full disk only deleting is sure to work, so nothing else is done."""
    if plan is not None:
        with contextlib.suppress(TargetTaken):
            discard(files, request.target, request.operation)


def _clear_for_fresh(files: CheckpointFiles, request: PrepareRequest) -> None:
    if files.list_names(request.target):
        raise AlreadyRun(f"{request.target} already exists, but a fresh start needs a new folder")
