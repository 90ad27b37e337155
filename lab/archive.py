"""A trial run that leaves the archives of classes behind: everything that starts later starts sooner.

It is a small world with a runner, as in every test run; its programs write what they loaded when they end.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark

from lab import java, lifecycle
from lab.errors import Refused
from lab.java import Say
from lab.ports import free_base_port
from lab.stage import await_running, stage
from lab.world import Options
from state.settings.keys import Spark
from streaming import class_archive
from streaming.jars import held
from streaming.spark.checkpoint.hadoop_files import local_disk_conf
from streaming.spark.query.session import connector_jars, driver_archive

_TRAFFIC_SECONDS = 300.0
_END_SECONDS = 120.0


def make(say: Say) -> list[Path]:
    """Make the archives of this machine, unless they are there; those that are there now.

    Of two that are started at once, the second waits and finds them. Raises ``Refused`` where a program left none.
    """
    folder = class_archive.archives()
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / ".lock", lambda: say("waiting for another process that archives classes")):
        if not _complete(say):
            say("archiving the classes of Kafka, MirrorMaker and Spark (once, a minute or two)")
            with tempfile.TemporaryDirectory(prefix="tideover-archive-") as scratch:
                _play(Path(scratch), say)
            class_archive.keep_trials()
        if not _complete(say):
            raise Refused("not every program wrote its class archive", hint="everything runs without it, only slower")
    return sorted(folder.glob("*.jsa"))


def _complete(say: Say) -> bool:
    """Whether all that a world starts has its archive here."""
    kafka = java.classpath(Options().kafka, say)
    wanted = [java.archive(program, kafka) for program in java.ARCHIVED]
    conf = local_disk_conf(connector_jars(Spark(), pyspark.__version__))
    return all(path.is_file() for path in [*wanted, driver_archive(conf)])


def _play(scratch: Path, say: Say) -> None:
    """A world comes up, its queries commit some batches, and everything ends without a kill."""
    with stage(scratch, say) as on:
        on.environment[class_archive.SETTING] = "write"
        on.lab("up", "--base-port", str(free_base_port()))
        runner = on.start_runner()
        traffic = on.start_traffic("east", 200, _TRAFFIC_SECONDS)
        await_running(on, runner, batches=3, warm=True)
        on.stop(traffic)
        on.stop(runner)
        _await_end()
        lifecycle.down(on.world, say, grace_seconds=_END_SECONDS)


def _await_end() -> None:
    """Wait until everything that writes has ended: a driver's JVM does so behind the back of its runner."""
    deadline = time.monotonic() + _END_SECONDS
    while any(f"{class_archive.archives()}/driver" in words for words in _command_lines()):
        if time.monotonic() > deadline:
            raise Refused(f"the driver did not end within {_END_SECONDS:g} s", hint="run it again")
        time.sleep(0.2)


def _command_lines() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since, or is another user's
            yield process.read_bytes().decode(errors="replace")
