"""The checkpoints that Spark publishes in its tests jar: where they are taken from, and how a test carries one."""

import zipfile
from pathlib import Path

import pyspark

from state.messages import CheckpointReport, PrepareRequest, UncommittedBatch
from streaming.jars import jar_paths
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.read import read_checkpoint

FILES = LocalFiles()
_ROOT = "structured-streaming"


def unpack(folder: Path) -> Path:
    """Take the checkpoints out of the jar; return the folder that has them."""
    with zipfile.ZipFile(_tests_jar()) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name.startswith(f"{_ROOT}/")])
    return folder / _ROOT


def class_file(path: str) -> bytes:
    """A class of Spark's suites, by its path in the jar."""
    with zipfile.ZipFile(_tests_jar()) as archive:
        return archive.read(path)


def carry(old: str, new: str) -> CheckpointReport:
    """Carry a checkpoint whose sources stay where they are; return what the old one said."""
    report = read_checkpoint(FILES, old, {})
    request = PrepareRequest(
        checkpoint=old, target=new, operation="move", epoch=2, resume="carry", batch=report.batch, offsets={},
        target_offsets={}, treatment=UncommittedBatch.NONE if report.planned is None else UncommittedBatch.BRIDGE,
    )  # fmt: skip
    prepare(FILES, request, {})
    return report


def _tests_jar() -> Path:
    (jar,) = jar_paths(f"golden-{pyspark.__version__}")
    return jar
