"""Writers that race for the entries of a log, through checkpoint file managers by their names."""

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.jvm import JavaObject, java_context, java_view
from tests.jars import spark_line
from tests.java import compile_race
from tests.waiting import PROCESS_SECONDS


@dataclass(frozen=True)
class Race:
    """The races of ``tests/java``, inside the JVM of a session."""

    java: JavaObject
    session: SparkSession
    ours: str
    sparks: tuple[str, str]
    """Spark's managers on the newer and on the older interface of Hadoop."""

    def __call__(
        self, manager: str, folder: str, rounds: int, writers: int, conf: Mapping[str, str] | None = None
    ) -> tuple[int, ...]:
        """Rounds with two winners or more, with none, and with another's content."""
        settings = [f"{key}={value}" for key, value in (conf or {}).items()]
        words = [manager, join(folder, uuid.uuid4().hex), str(rounds), str(writers), *settings]
        return tuple(map(int, str(self.java.apply(" ".join(words))).split()))


_loaded: dict[Any, JavaObject] = {}
"""By JVM: py4j keeps methods by the name of their class, and calls them on another class of that name without effect
(``MethodDescriptor`` and ``ReflectionEngine`` of py4j 0.10.9)."""


def load_race(session: SparkSession, scratch: Path) -> Race:
    """Compile the race for the Spark that runs, and load it, unless its JVM has it."""
    line = spark_line()
    jvm = java_view(session)
    if jvm not in _loaded:
        _loaded[jvm] = _load(jvm, scratch, compile_race(scratch, line))
    sparks = [f"{line.sparks_package}.{kind}BasedCheckpointFileManager" for kind in ("FileContext", "FileSystem")]
    return Race(_loaded[jvm], session, line.manager, (sparks[0], sparks[1]))


def _load(jvm: Any, scratch: Path, name: str) -> JavaObject:
    folder = jvm.java.io.File(str(scratch / "classes")).toURI().toURL()
    folders = jvm.java.lang.reflect.Array.newInstance(folder.getClass(), 1)
    folders[0] = folder
    loader = jvm.java.net.URLClassLoader(folders, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    return loader.loadClass(name).newInstance()


@dataclass(frozen=True)
class Outcome:
    """Of rounds in which a run wrote an entry while a fence planted it."""

    entries: int
    """Rounds that the run won."""
    plants: int
    wrong: int
    """Rounds with two winners, with none, or with the loser's content."""


def entries_against_plants(race: Race, files: CheckpointFiles, folder: str, rounds: int) -> Outcome:
    """A run publishes ``offsets/N`` through the companion's manager while ``offsets/N`` is planted."""
    jvm, conf = java_view(race.session), java_context(race.session).hadoopConfiguration()
    package, _, name = race.ours.rpartition(".")
    log = jvm.org.apache.hadoop.fs.Path(join(folder, "offsets"))
    manager = getattr(getattr(jvm, package), name)(log, conf)
    manager.mkdirs(log)  # as Spark's own logs do: HDFS makes no folder for a file
    together = Barrier(2, timeout=PROCESS_SECONDS)

    def publish(path: str) -> bool:
        stream = manager.createAtomic(jvm.org.apache.hadoop.fs.Path(path), False)
        stream.write(b"entry")
        together.wait()
        try:
            stream.close()
        except Py4JJavaError:
            return False
        return True

    def plant(path: str) -> bool:
        together.wait()
        return files.create_atomically(path, b"plant")

    entries = plants = wrong = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(rounds):
            path = join(folder, "offsets", str(number))
            published, planted = pool.submit(publish, path), pool.submit(plant, path)
            entries += published.result()
            plants += planted.result()
            content = b"entry" if published.result() else b"plant"
            wrong += published.result() == planted.result() or files.read_bytes(path) != content
    return Outcome(entries, plants, wrong)
