"""Reads a checkpoint: how far the query is, what it planned beyond, and what state it keeps.

Nothing is changed. A checkpoint of a running query may be read; what it purges during that is looked for again.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from state.messages import CheckpointReport, Planned, SinkMemory, SinkState, StateOperator
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import (
    CommitEntry,
    Declared,
    OffsetEntry,
    bind_sources,
    parse_commit_entry,
    parse_fence,
    parse_offset_entry,
    parse_query_id,
    source_offsets,
)
from streaming.spark.checkpoint.mapping import Moves, Placed, read_moves
from streaming.spark.checkpoint.operators import deduplicates_ahead, read_operators
from streaming.spark.errors import CleanedAway, EmptyCheckpoint, FileVanished, HalfWritten, NoMapping, NotACheckpoint

CLEANED = "_tideover_cleaned"
"""The file by which a checkpoint is known that was left, and whose state was deleted since; Spark passes over it."""
EPOCHS = "_tideover_epochs"
"""The folder in which the epochs of fences lie, a file each; Spark passes over it, the companion reads it."""
_ATTEMPTS = 3
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class LogEnd:
    """The newest entries of a checkpoint's two logs, in the offsets of the cluster on which its query is placed."""

    batch: int | None
    """N, the newest committed batch."""
    previous: OffsetEntry | None
    """``offsets/N-1``; None when purged, or of a cluster that was left before."""
    last: OffsetEntry | None
    """``offsets/N``; None only when nothing was committed."""
    commit: CommitEntry | None
    """``commits/N``; None only when nothing was committed."""
    planned: OffsetEntry | None
    """``offsets/N+1`` as Spark wrote it; None when there is none, or a planted one."""


def batch_ids(files: CheckpointFiles, checkpoint: str, log: str) -> list[int]:
    """The batch ids of ``offsets`` or ``commits``, ascending."""
    return sorted(int(name) for name in files.list_names(join(checkpoint, log)) if name.isdigit())


def newest_commit(files: CheckpointFiles, checkpoint: str) -> int | None:
    """N, the newest committed batch; None when there is none."""
    return max(batch_ids(files, checkpoint, "commits"), default=None)


def is_cleaned(files: CheckpointFiles, checkpoint: str) -> bool:
    """Whether the query left it, and its state was deleted since."""
    return files.exists(join(checkpoint, CLEANED))


def cleaned_text(checkpoint: str) -> str:
    """The same as a sentence."""
    return f"the query moved away from {checkpoint} long ago, and its state has been deleted"


def read_log_end(files: CheckpointFiles, checkpoint: str, placed: Placed | None = None) -> LogEnd:
    """Read both logs where they end. ``placed`` is where the row of the query says that it is; None: not known.

    Raises ``EmptyCheckpoint``, ``NotACheckpoint``, ``HalfWritten``, ``MalformedEntry``, ``NoMapping``,
    ``WrongCluster``.
    """
    return persistently(lambda: _read_log_end(files, checkpoint, placed))


def require_whole(files: CheckpointFiles, checkpoint: str, placed: Placed | None) -> None:
    """Refuse a start from a checkpoint of which files are missing; one that never ran has none.

    Spark takes a missing ``metadata`` for a new query, and missing entries for batches that never were. It would give
    its sink the same batches again, under a new query id. Raises what ``read_log_end`` raises.
    """
    with contextlib.suppress(EmptyCheckpoint, NotACheckpoint):
        read_log_end(files, checkpoint, placed)


def read_log_at(files: CheckpointFiles, checkpoint: str, batch: int, placed: Placed | None = None) -> LogEnd:
    """Read both logs at a committed batch, as if nothing came after it.

    Raises ``FileVanished`` where it was purged, ``NoMapping`` where it was read on another cluster.
    """
    moves = read_moves(files, checkpoint, placed)
    last = _read_offsets(files, checkpoint, batch, moves)
    if last is None:
        raise HalfWritten(f"{checkpoint}: offsets/{batch} is a fence, but batch {batch} is committed")
    path, before = join(checkpoint, "commits", str(batch)), join(checkpoint, "offsets", str(batch - 1))
    return LogEnd(
        batch=batch,
        previous=_read_previous(files, checkpoint, batch - 1, moves) if files.exists(before) else None,
        last=last,
        commit=parse_commit_entry(files.read_bytes(path), path),
        planned=None,
    )


def read_checkpoint(
    files: CheckpointFiles,
    checkpoint: str,
    sources: Declared,
    *,
    file_sink: str | None = None,
    placed: Placed | None = None,
) -> CheckpointReport:
    """Report what a checkpoint holds.

    ``sources`` maps each declared source to its topics on the active cluster. ``file_sink`` is the output folder of a
    query that writes through Spark's file sink, which keeps batch ids of its own. ``placed`` is where the row of the
    query says that it is. Raises what ``read_log_end`` and ``bind_sources`` raise.
    """
    return persistently(lambda: _report(files, checkpoint, sources, file_sink, placed))


def sink_state(files: CheckpointFiles, output: str, batch: int) -> SinkState:
    """Whether Spark's file sink has a batch, or a later one: then it would drop that batch in silence."""
    newest = newest_in_files(files, output)
    return SinkState.HAS if newest is not None and newest >= batch else SinkState.HAS_NOT


def newest_in_files(files: CheckpointFiles, output: str) -> int | None:
    """The newest batch id that Spark's file sink has; None where it has none."""
    names = files.list_names(join(output, "_spark_metadata"))
    ids = [int(name.removesuffix(".compact")) for name in names if name.removesuffix(".compact").isdigit()]
    return max(ids, default=None)


def persistently(read: Callable[[], _T]) -> _T:
    """Read again when a file was purged under the reader. Raises ``FileVanished`` when that never ends."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return read()
        except FileVanished:
            continue
    return read()


def _report(
    files: CheckpointFiles, checkpoint: str, sources: Declared, file_sink: str | None, placed: Placed | None
) -> CheckpointReport:
    end = _read_log_end(files, checkpoint, placed)
    entries = [entry for entry in (end.previous, end.last, end.planned) if entry is not None]
    bound = bind_sources(entries, sources) if entries else {}
    operators = read_operators(files, checkpoint)
    planned = None
    if end.planned is not None:
        batch = 0 if end.batch is None else end.batch + 1
        planned = Planned(
            batch=batch,
            offsets=source_offsets(end.planned, bound),
            sink=SinkState.UNKNOWN if file_sink is None else sink_state(files, file_sink, batch),
            planned_at_ms=end.planned.planned_at_ms,
            others_read=_others(end.planned, bound) != ({} if end.last is None else _others(end.last, bound)),
        )
    newest = end.last or end.planned
    return CheckpointReport(
        checkpoint=checkpoint,
        batch=end.batch,
        offsets={} if end.last is None else source_offsets(end.last, bound),
        planned=planned,
        operators=tuple(StateOperator(id=one.id, name=one.name, partitions=one.partitions) for one in operators),
        deduplicates_ahead=deduplicates_ahead(operators, max([len(sources), *(len(each.sources) for each in entries)])),
        state_provider=newest.state_provider if newest is not None and operators else None,
        log_version=1 if newest is None else newest.version,
        sink_memory=SinkMemory.UNKNOWN if file_sink is None else SinkMemory.BATCH,
        other_sources=0 if newest is None else len(_others(newest, bound)),
    )


def _others(entry: OffsetEntry, bound: Mapping[str, str]) -> dict[str, str | None]:
    """The offsets of an entry that are no Kafka source's."""
    return {key: text for key, text in entry.sources.items() if key not in bound}


def read_query_id(files: CheckpointFiles, checkpoint: str) -> str | None:
    """Spark's id of the query, by the file ``metadata``; None before there is one. Raises ``MalformedEntry``."""
    if "metadata" not in files.list_names(checkpoint):
        return None
    path = join(checkpoint, "metadata")
    return parse_query_id(files.read_bytes(path), path)


def _read_log_end(files: CheckpointFiles, checkpoint: str, placed: Placed | None) -> LogEnd:
    names = files.list_names(checkpoint)
    if not set(names) - {EPOCHS}:  # a start that failed leaves no more
        raise EmptyCheckpoint(f"{checkpoint} is empty or does not exist")
    if CLEANED in names:
        raise CleanedAway(cleaned_text(checkpoint))
    if "metadata" not in names:
        if _is_only_planted(files, checkpoint, names):
            return LogEnd(batch=None, previous=None, last=None, commit=None, planned=None)
        if {"offsets", "commits"} & set(names):
            raise HalfWritten(f"{checkpoint}: it has batch logs, but no file metadata")
        raise NotACheckpoint(f"{checkpoint} contains something other than a checkpoint")
    path = join(checkpoint, "metadata")
    parse_query_id(files.read_bytes(path), path)
    batch = newest_commit(files, checkpoint)
    present = set(batch_ids(files, checkpoint, "offsets"))
    following = 0 if batch is None else batch + 1
    moves = read_moves(files, checkpoint, placed)
    planned = _read_offsets(files, checkpoint, following, moves) if following in present else None
    _check_nothing_beyond(files, checkpoint, batch, [each for each in sorted(present) if each > following])
    if batch is None:
        return LogEnd(batch=None, previous=None, last=None, commit=None, planned=planned)
    if batch not in present:
        raise HalfWritten(f"{checkpoint}: batch {batch} is committed, but offsets/{batch} is missing")
    last = _read_offsets(files, checkpoint, batch, moves)
    if last is None:
        raise HalfWritten(f"{checkpoint}: offsets/{batch} is a fence, but batch {batch} is committed")
    path = join(checkpoint, "commits", str(batch))
    return LogEnd(
        batch=batch,
        previous=_read_previous(files, checkpoint, batch - 1, moves) if batch - 1 in present else None,
        last=last,
        commit=parse_commit_entry(files.read_bytes(path), path),
        planned=planned,
    )


def _check_nothing_beyond(files: CheckpointFiles, checkpoint: str, batch: int | None, beyond: Sequence[int]) -> None:
    """An entry after the next batch is a planted one, or the log was cut about: what was read in between is not known.

    Raises ``HalfWritten``; ``FileVanished``, so that it is read again, when batches were committed in between.
    """
    for each in beyond:
        if not _is_planted(files, checkpoint, each):
            if newest_commit(files, checkpoint) != batch:
                raise FileVanished(f"{checkpoint} changed while it was read")
            committed = "none" if batch is None else batch
            raise HalfWritten(f"{checkpoint}: offsets/{each} exists, but the newest committed batch is {committed}")


def _is_only_planted(files: CheckpointFiles, checkpoint: str, names: Collection[str]) -> bool:
    """Whether a fence came before any run: then the folder holds planted entries and nothing else."""
    planted = set(names) - {EPOCHS} == {"offsets"} and batch_ids(files, checkpoint, "offsets")
    return bool(planted) and all(_is_planted(files, checkpoint, batch) for batch in planted or ())


def _is_planted(files: CheckpointFiles, checkpoint: str, batch: int) -> bool:
    return parse_fence(files.read_bytes(join(checkpoint, "offsets", str(batch)))) is not None


def _read_offsets(files: CheckpointFiles, checkpoint: str, batch: int, moves: Moves) -> OffsetEntry | None:
    path = join(checkpoint, "offsets", str(batch))
    content = files.read_bytes(path)
    return None if parse_fence(content) else moves.on_active(parse_offset_entry(content, path), path, batch)


def _read_previous(files: CheckpointFiles, checkpoint: str, batch: int, moves: Moves) -> OffsetEntry | None:
    try:
        return _read_offsets(files, checkpoint, batch, moves)
    except NoMapping:
        return None  # only the ends of a batch behind which the query moved are named
