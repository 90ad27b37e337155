"""Entries in a checkpoint's log that no run can pass, and the mark of a prepared checkpoint.

A query that meets the number of its next batch taken ends before it reads a record. A start meets an entry that it
cannot parse, and fails with the sentence in it. Copying the newest offsets there instead would be parsed: the next
start would skip a batch in silence. A batch that is already running is not held back: stopping the run is the other
half.

Beside the checkpoint goes the epoch that the move took, a file named ``<epoch>-<operation>.<attempt>``. The companion
reads it (``PlantedEpoch.java``): a run of an older epoch does not start, and writes no entry of either log. So the
commit of a batch in flight is refused as well.
"""

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, ValidationError

from state.checkpoint_folders import mapping_name, read_folder, read_mapping_name
from state.messages import ReleaseRequest
from state.settings.canonical import are_one_folder
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import Fence, fence_sentence, parse_fence
from streaming.spark.checkpoint.mapping import all_moves, chain_to, withdraw
from streaming.spark.checkpoint.read import EPOCHS, batch_ids, cleaned_text, is_cleaned, newest_commit
from streaming.spark.errors import AlreadyRun, CleanedAway, FileVanished, HeldByStranger, MovedOn, Outrun, TargetTaken

MARK = "_tideover"


class Mark(BaseModel):
    """Who made a checkpoint, and how far its logs went then.

    A small file beside Spark's own, which Spark passes over. It is written first, so that a half-made folder is known
    for what it is, and it lets an operation take away its own left-overs and nothing else.
    """

    model_config = ConfigDict(frozen=True)

    operation: str
    epoch: int
    cluster: str | None = None
    """On which the query continues from it; None in one of an earlier version."""
    newest_offsets: int = -1
    newest_commit: int = -1
    """Newest ids in ``offsets`` and ``commits`` as prepared; anything above was written by a run."""


def claim(files: CheckpointFiles, target: str, mark: Mark) -> None:
    """Take a folder for a new checkpoint; left-overs of the same operation go first.

    Raises ``TargetTaken`` when it belongs to another operation, ``AlreadyRun`` when its checkpoint has been run.
    """
    discard(files, target, mark.operation)
    if not files.create_atomically(join(target, MARK), mark.model_dump_json().encode()):
        raise TargetTaken(f"another process is making {target}")


def discard(files: CheckpointFiles, target: str, operation: str) -> bool:
    """Remove a prepared checkpoint of this operation; False when there is none.

    Raises ``TargetTaken`` when it belongs to another operation, ``AlreadyRun`` when its checkpoint has been run.
    """
    names = files.list_names(target)
    if not names:
        return files.delete(target, recursive=True)
    mark = read_mark(files, target)
    if mark is None or mark.operation != operation:
        raise TargetTaken(f"{target} already exists, and operation {operation} did not make it")
    if has_been_run(files, target):
        raise AlreadyRun(f"a query has used {target} since operation {operation} made it")
    return files.delete(target, recursive=True)


def has_been_run(files: CheckpointFiles, target: str) -> bool:
    """Whether a run wrote there: beyond what was prepared, or, where nothing was prepared, anything."""
    mark = read_mark(files, target)
    if mark is None:
        return bool(files.list_names(target))
    offsets, commits = batch_ids(files, target, "offsets"), batch_ids(files, target, "commits")
    return max(offsets, default=-1) > mark.newest_offsets or max(commits, default=-1) > mark.newest_commit


def read_mark(files: CheckpointFiles, target: str) -> Mark | None:
    """The mark of a checkpoint; None when Tideover did not make it."""
    if MARK not in files.list_names(target):
        return None
    try:
        return Mark.model_validate_json(files.read_bytes(join(target, MARK)))
    except ValidationError:
        return None


_ENTRIES = 2
_LOST_AT_MOST = 50
"""To so many entries in a row a run may be the first. It does as many steps for one, and the work of a batch."""
_RUN = "run-"
"""What begins the name of the file by which the companion knows the run that counts."""

Knows = Callable[[str], bool]
"""Whether the store knows an operation."""
Still = Callable[[], None]
"""Raises ``Overtaken`` once the request for which is written counts no longer, ``StoreError`` where that is unknown."""


def plant(
    files: CheckpointFiles, checkpoint: str, *, operation: str, epoch: int, knows: Knows, attempt: int = 1
) -> tuple[int, ...]:
    """Hold the next two free entries of the offset log, and return every batch id held for this operation.

    N+1 and N+2, or N+2 and N+3 when N+1 is planned already. Planting again changes nothing. Batches that are committed
    at the same time do no harm. Entries are tried in turn until two in a row are held, and no run can get past the
    first. Entries of an older operation, or of an earlier attempt, are taken over. Raises ``MovedOn`` when a newer
    epoch or a later attempt holds the checkpoint, and ``HeldByStranger`` when another operation does that the store
    does not know. The store was restored from before that one. Epochs alone would not show it, for the old copy counts
    them again. Raises ``CleanedAway`` where the query left long ago: the fence of then stays, for an abort would take
    away a newer one.
    """
    committed = newest_commit(files, checkpoint)
    if is_cleaned(files, checkpoint):
        standing = holder(files, checkpoint)
        if standing is not None and not knows(standing.operation):
            raise _held_by_stranger(checkpoint, standing)
        raise CleanedAway(cleaned_text(checkpoint))
    following = 0 if committed is None else committed + 1
    _hold(files, checkpoint, following, Fence(epoch, operation, attempt), knows)
    return planted_by(files, checkpoint, operation)


def plant_epoch(files: CheckpointFiles, checkpoint: str, fence: Fence) -> None:
    """End every run of an older epoch that the companion watches; planting again changes nothing.

    Only when nothing is waited for any more: a run that is to finish its batch could not commit it.
    """
    files.create_atomically(_epoch_file(checkpoint, fence), fence_sentence(fence))


def end_runs(files: CheckpointFiles, checkpoint: str) -> None:
    """End every run, whatever its epoch: each needs its own file beside the checkpoint (``Fence.java``).

    So a run is over even where the planted epoch is deleted afterwards.
    """
    folder = join(checkpoint, EPOCHS)
    for name in files.list_names(folder):
        if name.startswith(_RUN):
            files.delete(join(folder, name))


def planted_epochs(files: CheckpointFiles, checkpoint: str) -> tuple[Fence, ...]:
    """The epochs that lie beside a checkpoint, in ascending order."""
    read = (read_mapping_name(name) for name in files.list_names(join(checkpoint, EPOCHS)))
    return tuple(sorted((Fence(*made) for made in read if made is not None), key=lambda fence: fence.order))


def take_back(files: CheckpointFiles, checkpoint: str, fence: Fence) -> tuple[int, ...]:
    """Take away the entries and the epoch of this very attempt, whatever others planted for its operation.

    Highest entry first, as in ``release``.
    """
    held = [batch for batch, planted in _planted_entries(files, checkpoint) if planted == fence]
    for batch in reversed(held):
        files.delete(_entry(checkpoint, batch))
    files.delete(_epoch_file(checkpoint, fence))
    return tuple(held)


def unplant(files: CheckpointFiles, checkpoint: str, operation: str, until: int | None = None) -> tuple[int, ...]:
    """Take away the entries by which an operation held a checkpoint from which its query continues; the epoch stays.

    ``until``: only those of this epoch or an older one; a later one is a new fence of the same operation. Highest
    first, as in ``release``.
    """
    ours = [
        batch
        for batch, fence in _planted_entries(files, checkpoint)
        if fence.operation == operation and (until is None or fence.epoch <= until)
    ]
    for batch in reversed(ours):
        files.delete(_entry(checkpoint, batch))
    return tuple(ours)


def kept_by(files: CheckpointFiles, checkpoint: str, placed: int) -> Fence | None:
    """What keeps a query that came here under epoch ``placed`` from continuing: entries that hold the checkpoint, or a
    later mapping."""
    return holder(files, checkpoint) or _moved_on_by(files, checkpoint, placed)


def _moved_on_by(files: CheckpointFiles, checkpoint: str, placed: int) -> Fence | None:
    """The newest operation that mapped the query to another cluster since it came, as a row says, to where it is.

    It was given up, or it was committed, and the store is an older copy.
    """
    later = [move for move in all_moves(files, checkpoint) if move.epoch > placed]
    newest = max(later, key=lambda move: move.epoch, default=None)
    return None if newest is None else Fence(newest.epoch, newest.operation)


def require_unmoved(
    files: CheckpointFiles, checkpoint: str, *, placed: int, operation: str | None, knows: Knows
) -> None:
    """Refuse a checkpoint from which its query has continued elsewhere, as a mapping says and the store does not know.

    Raises ``HeldByStranger`` for an operation that the store does not know, ``AlreadyRun`` where it was this very
    ``operation``: it mapped the query, and holds the checkpoint no longer.
    """
    for move in all_moves(files, checkpoint):
        if move.epoch <= placed:
            continue
        if move.operation != operation and not knows(move.operation):
            raise HeldByStranger(
                f"{checkpoint} was moved to {move.to} by operation {move.operation} of epoch {move.epoch}, "
                "which this store does not know"
            )
        if move.operation == operation and not planted_by(files, checkpoint, move.operation):
            raise AlreadyRun(f"the query continues from {checkpoint} on {move.to} since operation {operation} moved it")


def require_held(files: CheckpointFiles, checkpoint: str, operation: str, epoch: int) -> None:
    """Only what an operation holds may it map. Raises ``MovedOn``, and ``AlreadyRun`` where it has mapped it before."""
    if planted_by(files, checkpoint, operation):
        return
    if any((move.operation, move.epoch) == (operation, epoch) for move in all_moves(files, checkpoint)):
        raise AlreadyRun(f"operation {operation} has moved {checkpoint} before, and holds it no longer")
    raise MovedOn(f"operation {operation} does not hold {checkpoint} any more")


def holder(files: CheckpointFiles, checkpoint: str) -> Fence | None:
    """The operation whose entries keep the checkpoint from being started, and its epoch; None when there are none."""
    held = (_planted(files, _entry(checkpoint, batch)) for batch in reversed(_uncommitted(files, checkpoint)))
    return next((fence for fence in held if fence is not None), None)


def is_under_way(files: CheckpointFiles, checkpoint: str) -> bool:
    """Whether a batch is planned and not committed; planted entries are no batches."""
    entries = (_entry(checkpoint, batch) for batch in _uncommitted(files, checkpoint))
    return any(_planted(files, path) is None for path in entries)


def planted_by(files: CheckpointFiles, checkpoint: str, operation: str) -> tuple[int, ...]:
    """Batch ids whose entry an operation planted, ascending."""
    return tuple(batch for batch, fence in _planted_entries(files, checkpoint) if fence.operation == operation)


def planters(files: CheckpointFiles, checkpoint: str) -> frozenset[str]:
    """The operations whose entries lie in the offset log beyond the newest commit."""
    return frozenset(fence.operation for _, fence in _planted_entries(files, checkpoint))


def _planted_entries(files: CheckpointFiles, checkpoint: str) -> list[tuple[int, Fence]]:
    """Planted entries beyond the newest commit by batch id, ascending."""
    found = ((batch, _planted(files, _entry(checkpoint, batch))) for batch in _uncommitted(files, checkpoint))
    return [(batch, fence) for batch, fence in found if fence is not None]


def release(files: CheckpointFiles, request: ReleaseRequest) -> tuple[int, ...]:
    """Take away what this very operation planted, and the checkpoint that it prepared; return the batch ids freed.

    Highest first, so that a start between two removals still fails, and the epochs last. The epochs of a ``committed``
    operation stay, for they hold the run that was lost. What was planted under a later epoch than the request's stays,
    and so does what others planted or prepared. Raises ``AlreadyRun`` when the prepared checkpoint has been run, or the
    old one was left long ago and cleaned since: then the old one is not to be run again.
    """
    if is_cleaned(files, request.checkpoint):
        raise AlreadyRun(f"{cleaned_text(request.checkpoint)}: the query continued from another checkpoint")
    if request.below is not None:
        _discard_lost(files, request, request.below)
    if request.prepared is not None and request.fresh and files.list_names(request.prepared):
        raise AlreadyRun(f"a query has used {request.prepared} since operation {request.operation} chose it")
    if request.prepared is not None and _is_prepared_by(files, request.prepared, request.operation):
        discard(files, request.prepared, request.operation)
    if request.mapped:
        _withdraw(files, request)
    ours = unplant(files, request.checkpoint, request.operation, request.epoch)
    if request.committed:
        return ours
    # Where this operation's own move keeps the checkpoint in use, its epoch still holds the runs of before.
    came = {move.epoch for move in all_moves(files, request.checkpoint) if move.operation == request.operation}
    for fence in planted_epochs(files, request.checkpoint):
        is_later = request.epoch is not None and fence.epoch > request.epoch
        if fence.operation == request.operation and fence.epoch not in came and not is_later:
            files.delete(_epoch_file(request.checkpoint, fence))
    return ours


def _withdraw(files: CheckpointFiles, request: ReleaseRequest) -> None:
    """Before the entries: a mapping that is there without them was committed. Raises ``AlreadyRun`` then."""
    found = all_moves(files, request.checkpoint)
    kept = chain_to(found, request.keeps)
    made = [move for move in found if move.operation == request.operation and move.name not in kept]
    if made and not request.reconciled and not planted_by(files, request.checkpoint, request.operation):
        raise AlreadyRun(f"the query continued from {request.checkpoint} on {made[-1].to}")
    withdraw(files, request.checkpoint, made)


def _discard_lost(files: CheckpointFiles, request: ReleaseRequest, below: str) -> None:
    """Take away what an operation prepared of which it is no longer known how far it came.

    Raises ``AlreadyRun`` when one of its checkpoints was run, or one of a later move: the query continued from there.
    """
    held = holder(files, request.checkpoint)
    for name in files.list_names(below):
        made, target = read_folder(name), join(below, name)
        in_use = request.reconciled and are_one_folder(target, request.checkpoint)
        if made is None or in_use:
            continue
        own = made.is_of(request.operation)
        if not own and (held is None or made.epoch <= held.epoch):
            continue
        if has_been_run(files, target):
            raise AlreadyRun(f"the query has used {target} since it was made and continued from there")
        if own and _is_prepared_by(files, target, request.operation):
            discard(files, target, request.operation)


def _is_prepared_by(files: CheckpointFiles, target: str, operation: str) -> bool:
    mark = read_mark(files, target)
    return mark is not None and mark.operation == operation


def _hold(files: CheckpointFiles, checkpoint: str, batch: int, fence: Fence, knows: Knows) -> None:
    """Plant from a batch on until two entries in a row are ours. Raises ``Outrun``."""
    sentence = fence_sentence(fence)
    held = lost = 0
    first = batch
    while held < _ENTRIES:
        path = _entry(checkpoint, batch)
        if files.create_atomically(path, sentence):
            held += 1
        elif (standing := _planted(files, path)) is None:
            held, lost = 0, lost + 1
            if lost > 1:  # one is the batch in flight
                batch = max(batch, _run_to(files, checkpoint, first, batch, lost))
        elif standing.operation != fence.operation and not knows(standing.operation):
            raise _held_by_stranger(checkpoint, standing)
        elif _is_later(standing, fence):
            raise MovedOn(
                f"operation {standing.operation} of epoch {standing.epoch}, attempt {standing.attempt}, "
                f"holds {checkpoint}"
            )
        else:
            if standing != fence:
                files.replace(path, sentence)
            held += 1
        batch += 1


def _run_to(files: CheckpointFiles, checkpoint: str, first: int, batch: int, lost: int) -> int:
    """How far a run has come that was the first to so many entries: none that was planted is below its commit."""
    committed = newest_commit(files, checkpoint) or 0
    if lost >= _LOST_AT_MOST and committed >= first:
        raise Outrun(f"{checkpoint}: from {first} to {batch} a run planned each batch before it could be held")
    return committed


def _is_later(standing: Fence, fence: Fence) -> bool:
    same = standing.operation == fence.operation
    return standing.order > fence.order if same else standing.epoch > fence.epoch


def _uncommitted(files: CheckpointFiles, checkpoint: str) -> list[int]:
    """Batch ids in the offset log above the newest committed one, ascending: planned, or planted."""
    committed = newest_commit(files, checkpoint)
    return [batch for batch in batch_ids(files, checkpoint, "offsets") if committed is None or batch > committed]


def _held_by_stranger(checkpoint: str, standing: Fence) -> HeldByStranger:
    return HeldByStranger(
        f"{checkpoint} is held by operation {standing.operation} of epoch {standing.epoch}, "
        "which this store does not know"
    )


def _planted(files: CheckpointFiles, path: str) -> Fence | None:
    try:
        return parse_fence(files.read_bytes(path))
    except FileVanished:
        return None


def _epoch_file(checkpoint: str, fence: Fence) -> str:
    return join(checkpoint, EPOCHS, mapping_name(fence.epoch, fence.operation, fence.attempt))


def _entry(checkpoint: str, batch: int) -> str:
    return join(checkpoint, "offsets", str(batch))
