"""What can go wrong around a running query; ``kind`` is what facts, logs and a ``Failure`` carry.

TideoverError
└── RunError                  a query cannot be run here
    ├── PipelineError         the pipeline function is at fault
    │   ├── PipelineMissing   its module does not import, or has no such function
    │   ├── PipelineRaised    it raised
    │   └── PipelineMisfit    what it returned cannot be started as it is
    ├── AssignmentMoved       the assignment no longer asks for this run
    ├── FormerRunGoesOn       what this process ran from the same checkpoint before is not quiet yet
    ├── RunFenced             the run was told to stop before this could happen
    ├── SparkMissing          no Spark session can be had
    └── NameTaken             another live process runs under this runner's name
"""

from state.errors import TideoverError


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


class AssignmentMoved(RunError):
    """The assignment no longer asks for this run."""

    kind = "moved-on"


class FormerRunGoesOn(RunError):
    """What this process ran from the same checkpoint before is not quiet yet."""


class RunFenced(RunError):
    """This run has been fenced and may write nothing more."""

    kind = "fenced"


class SparkMissing(RunError):
    """Spark cannot be started."""

    kind = "spark"


class NameTaken(RunError):
    """Another live process runs under this name."""

    kind = "name-taken"
