"""The files of a checkpoint of which nothing runs, for a command that is typed.

A runner reaches its checkpoints by its own Spark, and a command has none. Where a checkpoint is on a local or mounted
disk, plain files are enough. Elsewhere a Spark of one slot is started for as long as the command works. It gets
``spark.conf`` of the configuration, so it reaches what a runner reaches, and creates files as safely. What it prints
goes to a file, which is kept where it could not be started: a terminal shows the lines of the command alone.
"""

import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from state.settings.checkpoint_schemes import HINT, LAKES, scheme_of, scheme_refusal
from state.settings.keys import Tideover
from streaming.companion.jar import companion_jar
from streaming.spark.checkpoint.files import CheckpointFiles, LocalFiles
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.errors import SparkMissing, UnsafeCheckpoint
from streaming.spark.query.session import open_session
from streaming.spark.runner.service import IN_STEPS, require_exclusive_create

_DEFAULT_FS = "spark.hadoop.fs.defaultFS"
_HADOOP_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Variables that name folders of Hadoop's own settings, in which another default file system may be named."""
_OUTPUTS = (1, 2)
"""The file descriptors of stdout and stderr, which a launched process has from this one."""


class OfflineFiles(NamedTuple):
    """A way to the files, and a check before something is written."""

    files: CheckpointFiles
    require_safe: Callable[[], None] = lambda: None
    """Raises ``UnsafeCheckpoint`` where two processes could both create one file, and ``FileSystemError``."""


@contextmanager
def opened_files(settings: Tideover, query: str, checkpoints: Sequence[str], base: Path) -> Iterator[OfflineFiles]:
    """A way to these checkpoints, of which the first is the query's; ``base`` is the configuration's folder.

    Raises ``UnsafeCheckpoint`` where no file can be replaced in one step, ``SparkMissing``, ``JarError`` and
    ``CompanionError``.
    """
    if is_on_disk(settings, checkpoints):
        yield OfflineFiles(LocalFiles())
        return
    _require_replacement(settings, checkpoints)
    runner = settings.queries[query].runners[0]
    alone = settings.model_copy(update={"queries": {query: settings.queries[query]}})
    with _printing_to_file():
        session = open_session(
            settings.spark.model_copy(update={"master": "local[1]"}),
            name=f"files of {query}", instance=uuid.uuid4().hex, partitions=1, checkpoints=checkpoints,
            companion=companion_jar(),
        )  # fmt: skip
    try:
        yield OfflineFiles(HadoopFiles(session), partial(require_exclusive_create, session, alone, runner, base))
    finally:
        session.stop()


@contextmanager
def _printing_to_file() -> Iterator[None]:
    """A process that is launched here keeps a file for its two outputs. Raises ``SparkMissing`` with that file's name.

    The file has no name any more once Spark was started: what it prints later is for no person.
    """
    descriptor, name = tempfile.mkstemp(prefix="tideover-spark-", suffix=".log")
    path, is_kept = Path(name), False
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(each, os.dup(each)) for each in _OUTPUTS]
    try:
        for each in _OUTPUTS:
            os.dup2(descriptor, each)
        os.close(descriptor)
        yield
    except SparkMissing as error:
        is_kept = True
        printed = f"what Spark printed is in {path}"
        raise SparkMissing(str(error), hint=f"{error.hint}; {printed}" if error.hint else printed) from error
    finally:
        for each, before in kept:
            os.dup2(before, each)
            os.close(before)
        if not is_kept:
            path.unlink()


def is_on_disk(settings: Tideover, checkpoints: Sequence[str], environment: Mapping[str, str] = os.environ) -> bool:
    """Whether all of them are on a local or mounted disk, by their schemes and by what is known without Spark.

    Of a path without a scheme Hadoop's default file system decides.
    """
    default = str(settings.spark.conf.get(_DEFAULT_FS, "file:///"))
    is_plain = scheme_of(default) == "file" and not any(environment.get(name) for name in _HADOOP_FOLDERS)
    return all(scheme_of(each) == "file" or (is_plain and not scheme_of(each)) for each in checkpoints)


def _require_replacement(settings: Tideover, checkpoints: Sequence[str]) -> None:
    default = str(settings.spark.conf.get(_DEFAULT_FS, "file:///"))
    for each in checkpoints:
        scheme = scheme_of(each) or scheme_of(default)
        refused = f"{each} is on {scheme}, where {IN_STEPS}" if scheme in LAKES else scheme_refusal(each, default)
        if refused is not None:
            raise UnsafeCheckpoint(refused, hint=HINT)
