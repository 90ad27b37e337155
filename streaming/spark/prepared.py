"""The mark on a checkpoint that Tideover made: whose it is, and whether it has been run since.

A small file beside Spark's own, which Spark passes over. It is written first, so that a half-made folder is known for
what it is, and it lets an operation take away its own left-overs and nothing else.
"""

from pydantic import BaseModel, ConfigDict, ValidationError

from streaming.spark.checkpoint import batch_ids
from streaming.spark.errors import AlreadyRun, TargetTaken
from streaming.spark.filesystem import CheckpointFiles, join

MARK = "_tideover"


class Mark(BaseModel):
    """Who made a checkpoint, and how far its logs went then."""

    model_config = ConfigDict(frozen=True)

    operation: str
    epoch: int
    newest_offsets: int = -1
    newest_commit: int = -1
    """Newest ids in ``offsets`` and ``commits`` as prepared; anything above was written by a run."""


def claim(files: CheckpointFiles, target: str, mark: Mark) -> None:
    """Take a folder for a new checkpoint; left-overs of the same operation go first.

    Raises ``TargetTaken`` when it is somebody else's, ``AlreadyRun`` when its checkpoint has been run.
    """
    discard(files, target, mark.operation)
    if not files.create_atomically(join(target, MARK), mark.model_dump_json().encode()):
        raise TargetTaken(f"{target} is being made by somebody else")


def discard(files: CheckpointFiles, target: str, operation: str) -> bool:
    """Remove a prepared checkpoint of this operation; False when there is none.

    Raises ``TargetTaken`` when it is somebody else's, ``AlreadyRun`` when its checkpoint has been run.
    """
    names = files.list_names(target)
    if not names:
        return files.delete(target, recursive=True)
    mark = read_mark(files, target)
    if mark is None or mark.operation != operation:
        raise TargetTaken(f"{target} is there already, and operation {operation} did not make it")
    if has_been_run(files, target):
        raise AlreadyRun(f"{target} has been run since operation {operation} made it")
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
