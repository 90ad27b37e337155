"""What can go wrong with a checkpoint or around a running query; ``kind`` is what facts, logs and a ``Failure`` carry.

TideoverError
├── CheckpointError           a checkpoint cannot be read or written
│   ├── EmptyCheckpoint       there is nothing yet: the query never started, or never committed a batch
│   ├── NotACheckpoint        the folder holds something else
│   ├── HalfWritten           it is a checkpoint, but a file that must be there is not
│   ├── Contradicted          files are missing, or older than what the store knows of them
│   ├── MalformedEntry        a log entry is not what Spark writes
│   ├── NoMapping             an offset is of a cluster that was left, and nothing says what stands for it here
│   ├── WrongCluster          the moves beside it lead to another cluster than the one that the query is to read
│   ├── AmbiguousSources      it is unknown which line of the offset log belongs to which source
│   ├── CleanedAway           it was left long ago, and its state was deleted since
│   ├── NotFenced             no fence holds it: it may be in use
│   ├── LinkedElsewhere       it, or a folder in it, is a link
│   ├── MovedOn               it is not in the place that the request names any more
│   ├── HeldByStranger        an operation that the store does not know holds it
│   ├── Overtaken             the request for which something was to be written beside it is over
│   ├── TargetTaken           the folder of the new checkpoint belongs to another operation
│   │   └── AlreadyRun        it was made, and run, by this very operation before
│   ├── NoSpace               the file system is full
│   ├── AccessDenied          our user may not
│   ├── UnsafeFileSystem      two drivers could both create one file there
│   └── FileSystemError       the file system refused for a reason of its own; trying again can help
│       ├── FileVanished      a file was purged between listing and reading
│       └── Outrun            a run plans batches faster than they can be held there
└── RunError                  a query cannot be run here
    ├── PipelineError         the pipeline function is at fault
    │   ├── PipelineMissing   its module does not import, or has no such function
    │   ├── PipelineRaised    it raised
    │   ├── PipelineMisfit    what it returned cannot be started as it is
    │   └── PlanMisfit        what it returned keeps other state than the checkpoint in use
    ├── AssignmentMoved       the assignment no longer wants this run
    ├── FormerRunGoesOn       what this process ran from the same checkpoint before is not quiet yet
    ├── OtherCluster          another cluster has the name of the one that the query reads
    ├── RunFenced             the run was ordered to stop before this could happen
    ├── CommandFailed         a command of the query's application failed
    ├── DrillFailed           a rehearsal did not get to its end
    ├── SparkMissing          no Spark session can be had
    ├── CompanionMissing      the query reads through the companion's source, and Spark has no companion
    ├── UnsafeCheckpoint      its checkpoint is on a file system that lets two drivers run it
    └── NameTaken             another live process runs under this runner's name
"""

from state.errors import TideoverError
from state.messages import ALREADY_RUN, CLEANED_AWAY, CONTRADICTED, HELD, MOVED_ON, NO_COMPANION


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


class Contradicted(CheckpointError):
    """The files are not what the query wrote there, by what the store knows: some are missing, or from a backup."""

    kind = CONTRADICTED


class MalformedEntry(CheckpointError):
    """A log entry cannot be parsed."""


class NoMapping(CheckpointError):
    """An offset is of a cluster that the query has left, and nothing says what stands for it on the present one."""


class WrongCluster(CheckpointError):
    """The mappings lead to another cluster than the one that the query is to read."""

    kind = "wrong-cluster"


class AmbiguousSources(CheckpointError):
    """The lines of the offset log cannot be distinguished."""


class CleanedAway(CheckpointError):
    """The query left the checkpoint long ago, and its state was deleted since."""

    kind = CLEANED_AWAY


class NotFenced(CheckpointError):
    """Nothing keeps the checkpoint from being run."""

    kind = "not-fenced"


class LinkedElsewhere(CheckpointError):
    """The checkpoint, or a folder in it, is a symbolic link."""

    kind = "link"


class MovedOn(CheckpointError):
    """The checkpoint is at another batch than the one that was resolved."""

    kind = MOVED_ON


class HeldByStranger(CheckpointError):
    """An operation that the store does not know has moved the query away from this checkpoint, or began to."""

    kind = HELD


class Overtaken(CheckpointError):
    """What was to be written beside the checkpoint was requested for an operation, or an attempt, that is over."""

    kind = "overtaken"


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


class UnsafeFileSystem(CheckpointError):
    """The file system is not known to create a file for one of two drivers only."""

    kind = "unsafe-file-system"


class FileSystemError(CheckpointError):
    """The file system refused."""

    kind = "file-system"


class FileVanished(FileSystemError):
    """A file is gone."""


class Outrun(FileSystemError):
    """A run plans its batches faster than they can be held."""


class RunError(TideoverError):
    """The query cannot be run."""

    kind = "run"


class PipelineError(RunError):
    """The pipeline cannot be used."""

    kind = "pipeline"


class PipelineMissing(PipelineError):
    """The pipeline function is not there."""


class PipelineRaised(PipelineError):
    """The pipeline function raised."""


class PipelineMisfit(PipelineError):
    """The pipeline function did not return a writer that can be started."""


class PlanMisfit(PipelineError):
    """The plan of the pipeline cannot continue from the checkpoint in use."""


class AssignmentMoved(RunError):
    """The assignment no longer wants this run."""

    kind = "moved-on"


class FormerRunGoesOn(RunError):
    """What this process ran from the same checkpoint before is not quiet yet."""


class OtherCluster(RunError):
    """Another cluster has the name of the one that the query reads."""

    kind = "wrong-cluster"


class RunFenced(RunError):
    """This run has been fenced and may write nothing more."""

    kind = "fenced"


class DrillFailed(RunError):
    """The rehearsal on the standby did not get to its end."""

    kind = "drill"


class CommandFailed(RunError):
    """A command by which an application is started, stopped or looked at did not do so."""

    kind = "command"


class CommandCutOff(CommandFailed):
    """It took too long and was killed, so what it did is unknown."""


class SparkMissing(RunError):
    """Spark cannot be started."""

    kind = "spark"


class CompanionMissing(RunError):
    """The query reads through the companion's source, and this Spark has no companion."""

    kind = NO_COMPANION


class UnsafeCheckpoint(RunError):
    """The checkpoint is on a file system where two drivers could both run the query."""

    kind = "unsafe-checkpoint"


class NameTaken(RunError):
    """Another live process runs under this name."""

    kind = "name-taken"
