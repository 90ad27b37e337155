"""The batches to which a checkpoint can still go back: both logs hold them, and the state of each is whole.

Spark keeps the last ``spark.sql.streaming.minBatchesToRetain`` (100) batches in ``offsets`` and ``commits``, and the
versions of the state that belong to them. ``offsets/N`` holds when batch N was planned: what it read was in the cluster
by then. So the newest batch that was planned at or before a time holds nothing that came after it.

Which files a version of the state consists of is answered here, too: a carry copies just these.
"""

import io
import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import dirname

from state.messages import CheckpointReport, Retained, RetainedBatch
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import Declared, bind_sources, parse_offset_entry, source_offsets
from streaming.spark.checkpoint.mapping import Placed, read_moves
from streaming.spark.checkpoint.operators import is_versioned_metadata, move_metadata, newest_entries, read_operators
from streaming.spark.checkpoint.read import LogEnd, batch_ids, read_log_at
from streaming.spark.checkpoint.state_files import StateIds, select_state, shared_files
from streaming.spark.errors import FileVanished, HalfWritten, MalformedEntry, NoMapping


@dataclass(frozen=True, slots=True)
class StateVersion:
    """One version of the state, by paths below ``state/``."""

    copied: frozenset[str]
    """Files that are taken over as they are."""
    metadata: Mapping[str, bytes]
    """Metadata of operators that names its schemas by path, for the folder of the new checkpoint."""


def state_version(
    files: CheckpointFiles, checkpoint: str, state: Mapping[str, int], version: int, ids: StateIds, *, target: str
) -> StateVersion:
    """What a version of the state consists of; ``state`` are all files below ``state/``, ``ids`` as in the commit log.

    Raises ``HalfWritten`` when a file of it is missing, ``FileVanished`` when one was purged in between.
    """
    expected = frozenset[str]().union(*(one.directories for one in read_operators(files, checkpoint)))
    chosen = select_state(state, version, ids, expected) if state else frozenset()
    chosen |= _shared(files, join(checkpoint, "state"), chosen)
    entries = {path: join(checkpoint, "state", path) for path in newest_entries(state, version - 1).values()}
    named = {path: move_metadata(files.read_bytes(where), where, target) for path, where in entries.items()}
    chosen = frozenset(path for path in chosen if not is_versioned_metadata(path)).union(
        *(each.schemas for each in named.values())
    )
    gone = sorted(chosen - state.keys())
    if gone:
        raise HalfWritten(f"{checkpoint}: state/{gone[0]} is missing, although the checkpoint refers to it")
    return StateVersion(chosen, {path: each.content for path, each in named.items()})


def _shared(files: CheckpointFiles, state: str, chosen: frozenset[str]) -> frozenset[str]:
    """What the chosen RocksDB archives refer to."""
    found: set[str] = set()
    for path in chosen:
        if path.endswith(".zip"):
            where = join(state, path)
            found |= {f"{dirname(path)}/{name}" for name in shared_files(_archive_metadata(files, where), where)}
    return frozenset(found)


def _archive_metadata(files: CheckpointFiles, path: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(files.read_bytes(path))) as archive:
            return archive.read("metadata")
    except (zipfile.BadZipFile, KeyError) as error:
        raise MalformedEntry(f"{path} is not an archive of RocksDB state") from error


def with_retained(
    files: CheckpointFiles,
    report: CheckpointReport,
    declared: Declared,
    to_time_ms: int | None,
    placed: Placed | None = None,
) -> CheckpointReport:
    """The report, with how far back the checkpoint reaches where a time is requested and the query keeps state."""
    if to_time_ms is None or not report.stateful:
        return report
    return report.model_copy(update={"retained": read_retained(files, report.checkpoint, declared, to_time_ms, placed)})


def read_retained(
    files: CheckpointFiles, checkpoint: str, declared: Declared, to_time_ms: int, placed: Placed | None = None
) -> Retained:
    """The newest committed batch that was planned at or before a time, and the time of the oldest one with whole state.

    Batches that were read on a cluster which the query has left do not count. Raises ``CheckpointError`` where the
    checkpoint cannot be read.
    """
    batches = _in_both_logs(files, checkpoint)
    state = files.walk(join(checkpoint, "state"))
    # Older batches lose their state first, so the first whole one is found by halving.
    first = bisect_left(batches, True, key=lambda batch: _is_whole(files, checkpoint, batch, state, placed))
    whole = batches[first:]
    if not whole:
        return Retained()
    until = bisect_right(whole, to_time_ms, key=lambda batch: _planned_at(files, checkpoint, batch))
    oldest_ms = _planned_at(files, checkpoint, whole[0])
    if until == 0:
        return Retained(oldest_ms=oldest_ms)
    end = read_log_at(files, checkpoint, whole[until - 1], placed)
    assert end.last is not None
    bound = bind_sources([entry for entry in (end.previous, end.last) if entry is not None], declared)
    chosen = RetainedBatch(
        batch=whole[until - 1],
        planned_at_ms=end.last.planned_at_ms,
        offsets=source_offsets(end.last, bound),
        watermark_ms=end.last.watermark_ms,
    )
    return Retained(oldest_ms=oldest_ms, batch=chosen)


_LOOKS = 10
"""How many batches are looked at for whole state, newest first."""


def newest_whole(files: CheckpointFiles, checkpoint: str, placed: Placed | None = None) -> int | None:
    """The newest committed batch whose state is whole; None where none of the newest ten is such."""
    state = files.walk(join(checkpoint, "state"))
    newest = reversed(_in_both_logs(files, checkpoint)[-_LOOKS:])
    return next((batch for batch in newest if _is_whole(files, checkpoint, batch, state, placed)), None)


def retained_since(files: CheckpointFiles, checkpoint: str, placed: Placed | None = None) -> int | None:
    """When the oldest batch was planned that both logs hold, in milliseconds; None when there is none.

    Cheap enough for a running query: a few listings and small files. Its state is not looked at.
    """
    batches = _in_both_logs(files, checkpoint)
    try:
        first = bisect_left(batches, True, key=lambda batch: _was_read_here(files, checkpoint, batch, placed))
        return _planned_at(files, checkpoint, batches[first]) if first < len(batches) else None
    except FileVanished:
        return None  # purged in between: the next look shows it


def _was_read_here(files: CheckpointFiles, checkpoint: str, batch: int, placed: Placed | None) -> bool:
    """Whether a batch ended on the cluster on which the query is placed, or where it came there."""
    path = join(checkpoint, "offsets", str(batch))
    try:
        read_moves(files, checkpoint, placed).on_active(parse_offset_entry(files.read_bytes(path), path), path, batch)
    except NoMapping:
        return False
    return True


def _in_both_logs(files: CheckpointFiles, checkpoint: str) -> list[int]:
    """Batches that are committed and whose offsets are kept, ascending."""
    return sorted(set(batch_ids(files, checkpoint, "commits")) & set(batch_ids(files, checkpoint, "offsets")))


def _planned_at(files: CheckpointFiles, checkpoint: str, batch: int) -> int:
    path = join(checkpoint, "offsets", str(batch))
    return parse_offset_entry(files.read_bytes(path), path).planned_at_ms


def _is_whole(
    files: CheckpointFiles, checkpoint: str, batch: int, state: Mapping[str, int], placed: Placed | None
) -> bool:
    try:
        end: LogEnd = read_log_at(files, checkpoint, batch, placed)
        ids = end.commit.state_ids if end.commit is not None else {}
        state_version(files, checkpoint, state, batch + 1, ids, target=checkpoint)
    except (FileVanished, HalfWritten, MalformedEntry, NoMapping):
        return False
    return True
