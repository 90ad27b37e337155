"""Which classes serve the Spark that was launched: found out by what it has, not by its version.

A vendor's build has a version of its own (``3.5.6-amzn-2``), and may have other classes than the Apache release whose
number it carries. So the companion looks for each class, method and field that it uses (``SparkBuild.java``).
"""

from dataclasses import dataclass

from py4j.protocol import Py4JError

from streaming.spark.jvm import JavaObject, has_class

_STREAMING = "org.apache.spark.sql.execution.streaming"
_PROBE = "tideover.SparkBuild"


@dataclass(frozen=True, slots=True)
class SparkBuild:
    """What was found; one of the two is empty."""

    manager: str
    """The companion's class for ``spark.sql.streaming.checkpointFileManagerClass``."""
    misfit: str
    """Why the companion does not fit, in one sentence."""


def probe_build(view: JavaObject) -> SparkBuild:
    """Look whether the companion fits the Spark of a JVM that was launched with its jar."""
    try:
        if not has_class(view, _PROBE):
            return SparkBuild("", "its jar was not loaded into the JVM of this Spark")
        probe = view.tideover.SparkBuild
        return SparkBuild(str(probe.manager()), str(probe.misfit()))
    except Py4JError as error:
        return SparkBuild("", str(getattr(error, "java_exception", error)).partition("\n")[0])


def older_manager(view: JavaObject) -> str:
    """Spark's own manager of checkpoint files on the older interface of Hadoop, whose package changed with 4.1."""
    newer = f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    return newer if has_class(view, newer) else f"{_STREAMING}.FileSystemBasedCheckpointFileManager"
