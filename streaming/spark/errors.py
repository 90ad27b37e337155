"""What can go wrong with a checkpoint; ``kind`` is what a runner reports as the kind of a ``Failure``.

TideoverError
└── CheckpointError        a checkpoint cannot be read or written
    ├── EmptyCheckpoint    there is nothing yet: the query never started, or never committed a batch
    ├── NotACheckpoint     the folder holds something else
    ├── HalfWritten        it is a checkpoint, but a file that must be there is not
    ├── MalformedEntry     a log entry is not what Spark writes
    ├── AmbiguousSources   nobody can tell which line of the offset log belongs to which source
    ├── MovedOn            it is not in the place that the request names any more
    ├── HeldByStranger     an operation that the store does not know holds it
    ├── TargetTaken        the folder of the new checkpoint is somebody else's
    │   └── AlreadyRun     it was made, and run, by this very operation before
    ├── NoSpace            the file system is full
    ├── AccessDenied       our user may not
    └── FileSystemError    the file system refused for a reason of its own; trying again can help
        └── FileVanished   a file was purged between listing and reading
"""

from state.errors import TideoverError
from state.protocol import ALREADY_RUN, HELD, MOVED_ON


class CheckpointError(TideoverError):
    """The checkpoint cannot be used."""

    kind = "unreadable"


class EmptyCheckpoint(CheckpointError):
    """The checkpoint holds no committed batch."""

    kind = "empty"


class NotACheckpoint(CheckpointError):
    """The folder is not a checkpoint of a streaming query."""

    kind = "not-a-checkpoint"


class HalfWritten(CheckpointError):
    """A file that a checkpoint needs is not there."""


class MalformedEntry(CheckpointError):
    """A log entry cannot be parsed."""


class AmbiguousSources(CheckpointError):
    """The lines of the offset log cannot be told apart."""


class MovedOn(CheckpointError):
    """The checkpoint is at another batch than the one that was resolved."""

    kind = MOVED_ON


class HeldByStranger(CheckpointError):
    """An operation that the store does not know has moved the query away from this checkpoint, or began to."""

    kind = HELD


class TargetTaken(CheckpointError):
    """The folder for the new checkpoint is taken."""

    kind = "target-taken"


class AlreadyRun(TargetTaken):
    """The new checkpoint has been run since it was made: the operation was committed once, and the store lost that."""

    kind = ALREADY_RUN


class NoSpace(CheckpointError):
    """The file system is full."""

    kind = "no-space"


class AccessDenied(CheckpointError):
    """The file system does not let our user do that."""

    kind = "access-denied"


class FileSystemError(CheckpointError):
    """The file system refused."""

    kind = "file-system"


class FileVanished(FileSystemError):
    """A file is gone."""
