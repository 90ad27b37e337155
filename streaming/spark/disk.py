"""Checkpoints on a local disk: without the processes that Hadoop would start for them.

Where Hadoop's native library is missing, as in every pyspark from a package registry, Hadoop's local file system starts
a process for each ``chmod`` and ``readlink``: 95 a second with four queries, and most of a small batch's time. A local
file system that asks Java instead, and Spark's checkpoint manager on Hadoop's older ``FileSystem`` interface, start
none. That manager looks before it renames, where the usual one renames without overwriting; so a planted entry could be
overwritten in the microsecond between, and a fence reads the log again after the run is proven quiet.
"""

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlparse

from pyspark.sql import SparkSession

from state.settings import Tideover
from streaming.spark.filesystem import CheckpointFiles
from streaming.spark.hadoop import HadoopFiles
from streaming.spark.jvm import java_context
from streaming.spark.local import LocalFiles

_STREAMING = "org.apache.spark.sql.execution.streaming"


def is_local(checkpoints: Iterable[str]) -> bool:
    """Whether all of these lie on this host's disk, as far as their names tell."""
    return all(urlparse(checkpoint).scheme in {"", "file"} for checkpoint in checkpoints)


def keeps_local_checkpoints(settings: Tideover, runner: str) -> bool:
    """Whether a runner has its driver, its tasks and all checkpoints of its queries on one host."""
    checkpoints = [query.checkpoint for query in settings.queries.values() if runner in query.runners]
    return settings.spark.master.startswith("local") and is_local(checkpoints)


def local_disk_conf(version: str, jars: Iterable[Path]) -> dict[str, str]:
    """Session settings for local checkpoints; none where the jar is not among ``jars``.

    The launcher looks for the file system before it adds ``spark.jars``, hence the class path. The manager's package
    changed with Spark 4.1.
    """
    jar = next((jar for jar in jars if jar.name.startswith("hadoop-bare-naked-local-fs")), None)
    if jar is None:
        return {}
    package = _STREAMING if version.startswith(("3.", "4.0.")) else f"{_STREAMING}.checkpointing"
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": f"{package}.FileSystemBasedCheckpointFileManager",
    }


def checkpoint_files(session: SparkSession, *, local: bool) -> CheckpointFiles:
    """The runner's way to its checkpoints: plain files where they are local, else Spark's Hadoop file system."""
    default = java_context(session).hadoopConfiguration().get("fs.defaultFS", "file:///")
    return LocalFiles() if local and str(default).startswith("file:") else HadoopFiles(session)
