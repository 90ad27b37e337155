"""Plants entries into a checkpoint's offset log, so that nobody can run it, and takes them away again.

A query that meets the number of its next batch taken ends before it reads a record; a start meets an entry that it
cannot parse, and fails with the sentence in it. Copying the newest offsets there instead would be parsed: the next
start would skip a batch in silence. A batch that is already running is not held back: stopping the run is the other
half.
"""

from collections.abc import Callable

from state.folders import read_folder
from state.protocol import ReleaseRequest
from streaming.spark.checkpoint import batch_ids, newest_commit
from streaming.spark.checkpoint_text import Fence, fence_sentence, parse_fence
from streaming.spark.errors import AlreadyRun, FileVanished, HeldByStranger, MovedOn
from streaming.spark.filesystem import CheckpointFiles, join
from streaming.spark.prepared import discard, has_been_run, read_mark

_ENTRIES = 2

Knows = Callable[[str], bool]
"""Whether the store knows an operation."""


def plant(files: CheckpointFiles, checkpoint: str, *, operation: str, epoch: int, knows: Knows) -> tuple[int, ...]:
    """Hold the next two free entries of the offset log, and return every batch id held for this operation.

    N+1 and N+2, or N+2 and N+3 when N+1 is planned already. Planting again changes nothing. Batches that are committed
    meanwhile do no harm: entries are tried in turn until two in a row are held, and no run can get past the first.
    An older operation's entries are taken over. Raises ``MovedOn`` when a newer epoch holds the checkpoint, and
    ``HeldByStranger`` when another operation does that the store does not know: the store was put back to a copy of
    before that one. Epochs alone would not tell, for the old copy counts them anew.
    """
    committed = newest_commit(files, checkpoint)
    _hold(files, checkpoint, 0 if committed is None else committed + 1, Fence(epoch, operation), knows)
    return planted_by(files, checkpoint, operation)


def holder(files: CheckpointFiles, checkpoint: str) -> Fence | None:
    """The operation whose entries keep the checkpoint from being started, and its epoch; None when there are none."""
    committed = newest_commit(files, checkpoint)
    held = (
        _planted(files, _entry(checkpoint, batch))
        for batch in reversed(batch_ids(files, checkpoint, "offsets"))
        if committed is None or batch > committed
    )
    return next((fence for fence in held if fence is not None), None)


def planted_by(files: CheckpointFiles, checkpoint: str, operation: str) -> tuple[int, ...]:
    """Batch ids whose entry an operation planted, ascending."""
    committed = newest_commit(files, checkpoint)
    candidates = [batch for batch in batch_ids(files, checkpoint, "offsets") if committed is None or batch > committed]
    return tuple(
        batch
        for batch in candidates
        if (fence := _planted(files, _entry(checkpoint, batch))) is not None and fence.operation == operation
    )


def release(files: CheckpointFiles, request: ReleaseRequest) -> tuple[int, ...]:
    """Take away what this very operation planted, and the checkpoint that it prepared; return the batch ids freed.

    Highest first, so that a start between two removals still fails. What others planted or prepared stays. Raises
    ``AlreadyRun`` when the prepared checkpoint has been run: then the old one is not to be run again.
    """
    if request.below is not None:
        _discard_lost(files, request, request.below)
    if request.prepared is not None and request.fresh and files.list_names(request.prepared):
        raise AlreadyRun(f"{request.prepared} has been run since operation {request.operation} chose it")
    if request.prepared is not None and _is_prepared_by(files, request.prepared, request.operation):
        discard(files, request.prepared, request.operation)
    ours = planted_by(files, request.checkpoint, request.operation)
    for batch in reversed(ours):
        files.delete(_entry(request.checkpoint, batch))
    return ours


def _discard_lost(files: CheckpointFiles, request: ReleaseRequest, below: str) -> None:
    """Take away what an operation prepared of which nobody knows any more how far it came.

    Raises ``AlreadyRun`` when one of its checkpoints was run, or one of a later move: the query went on from there.
    """
    held = holder(files, request.checkpoint)
    for name in files.list_names(below):
        made, target = read_folder(name), join(below, name)
        if made is None:
            continue
        own = made.is_of(request.operation)
        if not own and (held is None or made.epoch <= held.epoch):
            continue
        if has_been_run(files, target):
            raise AlreadyRun(f"{target} has been run since it was made: the query went on from there")
        if own and _is_prepared_by(files, target, request.operation):
            discard(files, target, request.operation)


def _is_prepared_by(files: CheckpointFiles, target: str, operation: str) -> bool:
    mark = read_mark(files, target)
    return mark is not None and mark.operation == operation


def _hold(files: CheckpointFiles, checkpoint: str, batch: int, fence: Fence, knows: Knows) -> None:
    """Plant from a batch on until two entries in a row are ours."""
    sentence = fence_sentence(fence)
    held = 0
    while held < _ENTRIES:
        path = _entry(checkpoint, batch)
        if files.create_atomically(path, sentence):
            held += 1
        elif (standing := _planted(files, path)) is None:
            held = 0
        elif standing.operation != fence.operation and not knows(standing.operation):
            raise HeldByStranger(
                f"{checkpoint} is held by operation {standing.operation} of epoch {standing.epoch}, "
                "which this store does not know"
            )
        elif standing.epoch > fence.epoch:
            raise MovedOn(f"operation {standing.operation} of epoch {standing.epoch} holds {checkpoint}")
        else:
            if standing != fence:
                files.replace(path, sentence)
            held += 1
        batch += 1


def _planted(files: CheckpointFiles, path: str) -> Fence | None:
    try:
        return parse_fence(files.read_bytes(path))
    except FileVanished:
        return None


def _entry(checkpoint: str, batch: int) -> str:
    return join(checkpoint, "offsets", str(batch))
