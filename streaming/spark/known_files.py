"""A checkpoint beside what the store knows of it: a missing or an old file never means that nothing happened.

Spark takes a folder without logs for a new query, and reads it from its starting offsets. It takes a batch without its
commit for one that never ended, and gives it to the sink a second time. It gives a folder without ``metadata`` a new
query id, by which no sink knows the batches that it has. So a start compares the files with what a run was seen to
write there, and with the batch behind which a move left the query. Where files are missing that were there, nothing is
started: an operator restores them, or accepts in writing that the sink gets batches a second time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from state.checkpoint_folders import is_copy
from state.model.entities import (
    Assignment,
    Operation,
    OperationKind,
    QueryFact,
    SeenCheckpoint,
    are_accepted,
)
from state.settings.canonical import are_one_folder
from state.settings.keys import Resume
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import parse_fence, parse_kafka_offsets, parse_offset_entry, parse_query_id
from streaming.spark.checkpoint.mapping import MAPPINGS, Placed
from streaming.spark.checkpoint.read import (
    EPOCHS,
    batch_ids,
    newest_commit,
    persistently,
    read_log_end,
    require_whole,
)
from streaming.spark.checkpoint.retained import newest_whole, state_version
from streaming.spark.errors import Contradicted, EmptyCheckpoint, HalfWritten, NoMapping, NotACheckpoint, WrongCluster


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFiles:
    """What lies in the folder of a checkpoint."""

    query_id: str | None = None
    """By the file ``metadata``; None without it."""
    planned: int | None = None
    """The newest batch id in the offset log; entries of fences do not count."""
    committed: int | None = None
    """The newest batch id in the commit log."""
    has_state: bool = False
    moved: bool = False
    """Mappings lie beside it: a query that had read something moved here."""
    unbegun: tuple[str, ...] = ()
    """Files that say where batch 0 begins, which is planned and not committed, and that are missing."""

    @property
    def is_empty(self) -> bool:
        """Whether no query ever ran there, as far as the files show."""
        return self.query_id is None and self.planned is None and self.committed is None


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFiles:
    """What must be there at least, and how the store knows it."""

    by: str
    """Who saw it: the beginning of a sentence."""
    planned: int
    committed: int | None
    query_id: str | None = None
    stateful: bool = False


def known_files(row: Assignment, seen: SeenCheckpoint | None, operation: Operation | None) -> tuple[KnownFiles, ...]:
    """What the store knows of the checkpoint of a row: by what a run was seen to write, and by the move to it.

    ``operation`` is that of the row, if it has one. A row without an operation and of a later epoch than the first was
    written by ``reconcile``: a person looked at the files then. Only what was seen since counts. A copy of the folder
    in another place must hold what was seen of the folder.
    """
    known: list[KnownFiles] = []
    of_row = seen is not None and (
        are_one_folder(seen.checkpoint, row.checkpoint) or is_copy(seen.checkpoint, row.checkpoint)
    )
    if seen is not None and of_row and not are_accepted(row, seen):
        known.append(_as_seen(seen))
    batch = None if operation is None else _left_behind(operation)
    if operation is not None and batch is not None:
        known.append(KnownFiles(by=f"operation {operation.id} found that", planned=batch, committed=batch))
    return tuple(known)


def _as_seen(seen: SeenCheckpoint) -> KnownFiles:
    return KnownFiles(
        by=f"its run of epoch {seen.epoch} reported that",
        planned=seen.planned,
        committed=seen.committed,
        query_id=seen.query_id,
        stateful=bool(seen.stateful),
    )


def _left_behind(operation: Operation) -> int | None:
    """The batch behind which a move left its query, in the checkpoint that it kept, copied, or gave back.

    None where it began without one. A rewind may copy an earlier batch, so of it only the first one is sure.
    """
    plan = operation.plan
    if plan is None or plan.batch is None or plan.resume not in {Resume.SWITCH, Resume.CARRY}:
        return None
    return 0 if operation.kind is OperationKind.REWIND else plan.batch


def contradiction(
    checkpoint: str, found: FoundFiles, known: tuple[KnownFiles, ...], *, accepted: bool = False
) -> str | None:
    """Why the files cannot be what the query wrote, in one sentence; None where they can.

    ``accepted``: a person has looked at them since, so that they need not be whole in themselves.
    """
    alone = None if accepted else _contradicts_itself(checkpoint, found)
    return alone or next((said for each in known if (said := _contradicts(checkpoint, found, each)) is not None), None)


def _contradicts_itself(checkpoint: str, found: FoundFiles) -> str | None:
    if found.is_empty and (found.has_state or found.moved):
        what = "state" if found.has_state else MAPPINGS
        return f"{checkpoint} holds {what}, but no metadata and no batch: its query ran, and its logs are missing"
    if found.unbegun:
        return (
            f"{checkpoint}: batch 0 is planned and not committed, and {found.unbegun[0]}, which says where it begins, "
            "is missing"
        )
    return None


def _contradicts(checkpoint: str, found: FoundFiles, known: KnownFiles) -> str | None:
    if known.committed is not None and (found.committed is None or found.committed < known.committed):
        newest = "no batch is committed" if found.committed is None else f"the newest is commits/{found.committed}"
        return f"{checkpoint}: {known.by} batch {known.committed} is committed, but {newest}"
    if found.planned is None or found.planned < known.planned:
        newest = "there is no entry" if found.planned is None else f"the newest is offsets/{found.planned}"
        return f"{checkpoint}: {known.by} batch {known.planned} is planned, but {newest}"
    if known.query_id is not None and found.query_id != known.query_id:
        named = "metadata is missing" if found.query_id is None else f"metadata names {found.query_id}"
        return f"{checkpoint}: {known.by} it is of query {known.query_id}, but {named}"
    if known.stateful and not found.has_state:
        return f"{checkpoint}: {known.by} the query keeps state, but the folder state is missing"
    return None


def missing_since(
    files: CheckpointFiles, checkpoint: str, placed: Placed | None, seen: SeenCheckpoint | None
) -> str | None:
    """Why a query that runs could not be started again: what was there before is missing; None where all is there.

    Raises ``CheckpointError`` where the files cannot be read.
    """
    try:
        require_whole(files, checkpoint, placed)
    except (HalfWritten, NoMapping, WrongCluster) as error:
        return str(error)
    return contradiction(checkpoint, find_files(files, checkpoint), () if seen is None else (_as_seen(seen),))


class Remembers(Protocol):
    """The part of a store that knows what was seen of a checkpoint."""

    def query_facts(self, *, query: str | None = None) -> Sequence[QueryFact]: ...
    def operation(self, operation_id: str) -> Operation | None: ...


def require_known(files: CheckpointFiles, row: Assignment, store: Remembers) -> None:
    """Raises ``Contradicted`` where the files of a row's checkpoint are not what the store knows, ``StoreError``.

    Where a query that has run has reported nothing of this very folder, its state is looked at, too: it is a copy.
    """
    seen = next((fact.seen for fact in store.query_facts(query=row.query)), None)
    operation = None if row.operation is None else store.operation(row.operation)
    found, known = find_files(files, row.checkpoint), known_files(row, seen, operation)
    said = contradiction(row.checkpoint, found, known, accepted=are_accepted(row, seen))
    if said is not None:
        raise Contradicted(
            said,
            hint=f"restore the files, or accept what lies there: tideover reconcile {row.query} --consent repeats",
        )
    if row.epoch > 1 and (seen is None or is_copy(seen.checkpoint, row.checkpoint)):
        require_state(files, row)


_OF_SPARK = frozenset({"hdfs", "rocksdb"})
"""Providers of state whose files are known; where a query has another one, nothing is said of them."""
_INCOMPLETE = "restore the file, or go back to an older batch: docs/operation.md, Checkpoints in a copied bucket"


def require_state(files: CheckpointFiles, row: Assignment) -> None:
    """Raises ``Contradicted`` where a file is missing of the state with which the next run of a row would continue.

    The objects of a copied bucket arrive in any order, so a log entry may be there without its state. Spark notices
    that in the first batch; here a move is refused before its commit. One listing of the folder ``state``.
    """
    placed = Placed.of(row)
    try:
        end = read_log_end(files, row.checkpoint, placed)
    except (EmptyCheckpoint, NotACheckpoint):
        return
    known = end.last is not None and end.last.state_provider in _OF_SPARK
    state = files.walk(join(row.checkpoint, "state")) if known else {}
    if not state or end.batch is None or end.commit is None:
        return
    try:
        state_version(files, row.checkpoint, state, end.batch + 1, end.commit.state_ids, target=row.checkpoint)
    except HalfWritten as error:
        whole = newest_whole(files, row.checkpoint, placed)
        older = "no older one has all of its state" if whole is None else f"the newest with all of its state is {whole}"
        raise Contradicted(
            f"{row.checkpoint}: batch {end.batch} is committed, but {error}; {older}", hint=_INCOMPLETE
        ) from error


def find_files(files: CheckpointFiles, checkpoint: str) -> FoundFiles:
    """Look at a folder. Raises ``MalformedEntry``, ``FileSystemError``."""
    return persistently(lambda: _find(files, checkpoint))


def _find(files: CheckpointFiles, checkpoint: str) -> FoundFiles:
    names = set(files.list_names(checkpoint)) - {EPOCHS}
    path = join(checkpoint, "metadata")
    committed = newest_commit(files, checkpoint)
    planned = None
    for batch in reversed(batch_ids(files, checkpoint, "offsets")):
        entry = join(checkpoint, "offsets", str(batch))
        if (committed is not None and batch <= committed) or parse_fence(files.read_bytes(entry)) is None:
            planned = batch
            break
    begins = planned == 0 and committed is None
    return FoundFiles(
        query_id=parse_query_id(files.read_bytes(path), path) if "metadata" in names else None,
        planned=planned,
        committed=committed,
        has_state=bool(files.list_names(join(checkpoint, "state"))) if "state" in names else False,
        moved=bool(files.list_names(join(checkpoint, MAPPINGS))) if MAPPINGS in names else False,
        unbegun=_unbegun(files, checkpoint) if begins else (),
    )


def _unbegun(files: CheckpointFiles, checkpoint: str) -> tuple[str, ...]:
    """The files by which Spark's Kafka source remembers where its first batch begins, where one is missing.

    Without it the source looks at the cluster again, and ``latest`` is later by then: records would be passed over.
    """
    path = join(checkpoint, "offsets", "0")
    entry = parse_offset_entry(files.read_bytes(path), path)
    wanted = [
        f"sources/{key}/0"
        for key, text in entry.sources.items()
        if key.isdigit() and text is not None and parse_kafka_offsets(text) is not None
    ]
    return tuple(each for each in wanted if not files.exists(join(checkpoint, each)))
