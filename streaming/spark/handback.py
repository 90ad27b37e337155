"""Hands a checkpoint back to plain Spark: offsets that carry Tideover's mark become those that Spark itself writes.

A query that was moved on its checkpoint has offsets with the mark of a cluster, which Spark's own Kafka source refuses.
Here each entry of the offset log is rewritten in place, in the offsets of the cluster that the query reads now. State,
query id and batch ids stay. The old text of each entry is kept below ``_tideover_released`` before the first entry
changes, and the mappings and epochs go there last. So it can be broken off anywhere and done again.

Once it has begun, no runner starts the query under the same row: without marks, offsets of one cluster would be taken
for those of another.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from state.checkpoint_folders import read_mapping_name
from state.model.entities import Assignment
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import OffsetEntry, format_offset_entry, parse_fence, parse_offset_entry
from streaming.spark.checkpoint.mapping import MAPPINGS, Moves, Placed, read_moves
from streaming.spark.checkpoint.read import EPOCHS, batch_ids
from streaming.spark.errors import Contradicted, HalfWritten, NoMapping

RELEASED = "_tideover_released"
"""The folder with what was there before; Spark passes over it."""
_DONE = "done"
_OFFSETS = "offsets-"
_NEEDED = 2
"""Entries that a start reads: the newest, and the one before it (``MicroBatchExecution.populateStartOffsets``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Handback:
    """What is to be done to a checkpoint."""

    checkpoint: str
    name: str | None
    """Of the mapping by which the query came to its cluster; None where there is nothing to do."""
    cluster: str
    old: Mapping[int, bytes]
    """By batch, the entries that change, as they were."""
    new: Mapping[int, bytes]
    kept: tuple[int, ...] = ()
    """Entries of clusters that were left long ago, which no start reads: they stay as they are."""
    is_done: bool = False


def plan_handback(files: CheckpointFiles, row: Assignment) -> Handback:
    """What would be done; nothing is changed.

    Raises ``HalfWritten`` where an operation holds the checkpoint, and ``NoMapping`` where an entry that a start reads
    has no offsets on the cluster of the row. Raises also what reading a checkpoint raises.
    """
    if row.mapping is None:
        return Handback(checkpoint=row.checkpoint, name=None, cluster=row.cluster, old={}, new={}, is_done=True)
    folder = join(row.checkpoint, RELEASED, row.mapping)
    nothing = Handback(checkpoint=row.checkpoint, name=row.mapping, cluster=row.cluster, old={}, new={})
    if _DONE in files.list_names(folder):
        return replace(nothing, is_done=True)
    journalled = {int(n.removeprefix(_OFFSETS)) for n in files.list_names(folder) if n.startswith(_OFFSETS)}
    moves = read_moves(files, row.checkpoint, Placed.of(row))
    old: dict[int, bytes] = {}
    new: dict[int, bytes] = {}
    kept: list[int] = []
    batches = batch_ids(files, row.checkpoint, "offsets")
    for batch in batches:
        path = join(row.checkpoint, "offsets", str(batch))
        content = files.read_bytes(join(folder, f"{_OFFSETS}{batch}") if batch in journalled else path)
        if parse_fence(content) is not None:
            raise HalfWritten(f"{path} is an entry by which an operation holds the checkpoint")
        try:
            changed = _plain(parse_offset_entry(content, path), moves, path)
        except NoMapping:
            if batch in batches[-_NEEDED:]:
                raise
            kept.append(batch)
            continue
        if changed != content:
            old[batch], new[batch] = content, changed
    return replace(nothing, old=old, new=new, kept=tuple(kept))


def hand_back(files: CheckpointFiles, plan: Handback) -> None:
    """Do it; doing it again changes nothing. Raises ``FileSystemError``."""
    if plan.name is None:
        return
    folder = join(plan.checkpoint, RELEASED, plan.name)
    if not plan.is_done:
        for batch, content in plan.old.items():
            files.create_atomically(join(folder, f"{_OFFSETS}{batch}"), content)
        for below in (MAPPINGS, EPOCHS):
            for name in files.list_names(join(plan.checkpoint, below)):
                content = files.read_bytes(join(plan.checkpoint, below, name))
                files.create_atomically(join(folder, f"{below}-{name}"), content)
        for batch, content in plan.new.items():
            path = join(plan.checkpoint, "offsets", str(batch))
            if files.read_bytes(path) != content:
                files.replace(path, content)
        done = {"cluster": plan.cluster, "entries": sorted(plan.new)}
        files.create_atomically(join(folder, _DONE), json.dumps(done).encode())
    for below in (MAPPINGS, EPOCHS):
        files.delete(join(plan.checkpoint, below), recursive=True)


def require_not_released(files: CheckpointFiles, row: Assignment) -> None:
    """No runner starts a query whose marks are gone. Raises ``Contradicted``."""
    found = files.list_names(join(row.checkpoint, RELEASED))
    if row.mapping is not None and row.mapping in found:
        raise Contradicted(
            f"{row.query} was handed back to plain Spark by tideover release: remove it from the configuration, then "
            f"tideover forget {row.query}"
        )
    if row.mapping is None and found:
        cluster = _cluster_of(files, row.checkpoint, found)
        if cluster not in {None, row.cluster}:
            raise Contradicted(
                f"{row.checkpoint} was released on {cluster}, so its offsets are not of {row.cluster}: "
                f"name {cluster} first among the clusters of {row.query}"
            )


def _cluster_of(files: CheckpointFiles, checkpoint: str, names: Sequence[str]) -> str | None:
    """The cluster of the newest release, by its epoch."""
    newest = max(names, key=lambda name: read_mapping_name(name) or (0,))
    path = join(checkpoint, RELEASED, newest, _DONE)
    if not files.exists(path):
        return None
    return str(json.loads(files.read_bytes(path))["cluster"])


def _plain(entry: OffsetEntry, moves: Moves, where: str) -> bytes:
    return format_offset_entry(moves.on_active(entry, where))
