"""Cleans a checkpoint that its query has left: state and old log entries go, and what tells of the move stays.

A few small files stay: ``metadata``, the last committed batch of both logs, the entries that a fence planted behind it,
and our marks. A store that is put back to an older copy may send a runner here once more. The fence makes any start
fail then, and names its operation to whoever asks; in an empty folder Spark would begin the query anew, at its starting
offsets. Checkpoints of later moves may lie inside the folder; nothing is touched but Spark's own names.

A mark comes first, by which everybody knows from then on that the checkpoint is not whole. Killed at any moment and
asked again, it goes on; asked once more when all is done, it answers the same.
"""

from pydantic import BaseModel, ConfigDict

from state.model.maintenance import CleanedFiles
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_fence import holder
from streaming.spark.checkpoint.read import CLEANED, is_cleaned, newest_commit
from streaming.spark.errors import LinkedElsewhere, NotFenced

_TREES = ("state", "sources")
_LOGS = ("offsets", "commits")


class _Mark(BaseModel):
    """What there was to clean when it began."""

    model_config = ConfigDict(frozen=True)

    files: int
    bytes: int


def clean(files: CheckpointFiles, checkpoint: str) -> CleanedFiles:
    """Delete what nobody needs of it; what went, since the first try.

    Raises ``NotFenced`` where a start would not fail, for then the query may run from it; ``LinkedElsewhere`` where the
    folder, or one in it, is a link; and other ``CheckpointError``.
    """
    names = files.list_names(checkpoint)
    if not names:
        return CleanedFiles(0, 0)
    _refuse_links(files, checkpoint)
    if holder(files, checkpoint) is None:
        raise NotFenced(f"{checkpoint} has no fence: a query may be using it")
    entries = _old_entries(files, checkpoint)
    mark = _mark(files, checkpoint, entries)
    for tree in _TREES:
        files.delete(join(checkpoint, tree), recursive=True)
    for entry in entries:
        files.delete(entry)
    return CleanedFiles(mark.files, mark.bytes)


def _refuse_links(files: CheckpointFiles, checkpoint: str) -> None:
    for path in (checkpoint.rstrip("/"), *(join(checkpoint, name) for name in (*_TREES, *_LOGS))):
        if files.is_link(path):
            raise LinkedElsewhere(f"{path} is a link: Tideover does not delete what it points to")


def _old_entries(files: CheckpointFiles, checkpoint: str) -> list[str]:
    """Entries of both logs before the last committed batch, and what a writer left unfinished."""
    committed = newest_commit(files, checkpoint)
    first = 0 if committed is None else committed
    return [
        join(checkpoint, log, name)
        for log in _LOGS
        for name in files.list_names(join(checkpoint, log))
        if not name.isdigit() or int(name) < first
    ]


def _mark(files: CheckpointFiles, checkpoint: str, entries: list[str]) -> _Mark:
    """The mark that stands, or a new one with what is there."""
    path = join(checkpoint, CLEANED)
    if not is_cleaned(files, checkpoint):
        sizes = [size for tree in _TREES for size in files.walk(join(checkpoint, tree)).values()]
        sizes += [files.size(entry) for entry in entries]
        files.create_atomically(path, _Mark(files=len(sizes), bytes=sum(sizes)).model_dump_json().encode())
    return _Mark.model_validate_json(files.read_bytes(path))
