"""What an application that Tideover is attached to pays all the time: of each batch, of the processor, and of memory.

An application with Tideover and one without read the same topics at the same time, each with its own folders. The
length of a batch and its phases are those that Spark reports.

It is measured twice. Where Hadoop's native library is missing, as in each pyspark from a package registry, Hadoop's
local file system starts a process for each ``chmod`` of a file. Spark writes each entry of its logs so, and the
companion writes it by a link. On a local disk that saves more than Tideover costs. Elsewhere it saves nothing, so the
limit holds for the other pair: both applications have a local file system that starts no process.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyspark

from bench.environment import spent_seconds
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, paired_percent
from bench.spark_progress import BATCH, logged_in, newest, phase_ms, read_batches
from bench.switchover import await_more, await_until
from lab.own_job import APPLICATION, ATTENDANT, QUERIES, Shop, can_move
from lab.processes import children
from lab.stage import Stage
from streaming.jars import jar_paths
from streaming.spark.checkpoint.hadoop_files import local_disk_conf

MEMORY_LIMIT_MB = 100.0
BATCH_LIMIT_PERCENT = 1.0
WARM_SECONDS = 20.0
READY_SECONDS = 400.0
_BATCHES = 40
"""Of each query, in one sample."""
_PAIRS = 6
ALIKE, AS_IT_COMES = "files without a process for each chmod", "Hadoop's own local file system"
_FILES = (ALIKE, AS_IT_COMES)
_PHASES = {
    "latestOffset": "the source's newest offsets",
    "walCommit": "the entry in offsets",
    "addBatch": "reading, computing, state and sink",
    "commitOffsets": "the entry in commits",
}
"""The phases that run through the companion. The others are Spark's alone."""


@dataclass
class Pairs:
    """By phase, milliseconds with Tideover and without, one pair for each sample."""

    attached: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in (BATCH, *_PHASES)})
    plain: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in (BATCH, *_PHASES)})


@dataclass
class Attendance:
    """What was measured: by local file system the batches; of the attendant megabytes and percent of a core."""

    batches: dict[str, Pairs] = field(default_factory=lambda: {files: Pairs() for files in _FILES})
    memory: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def measure_batches(on: Stage, job: Path, bootstrap: str, taken: Attendance) -> None:
    """Both applications, with each of the local file systems; load is under way. Raises BenchError."""
    on.query("list")  # makes the store: no process of an application does but the first one of all
    for number, files in enumerate(_FILES):
        logs = {name: on.directory / f"{name}-{number}" for name in ("attached", "plain")}
        shop = Shop(on, job, bootstrap, on.world / APPLICATION, settings=_settings(files, logs["attached"]))
        plain = Shop(
            on, job, bootstrap, on.world / "plain", is_attached=False,
            settings=_settings(files, logs["plain"], is_plain=True),
        )  # fmt: skip
        with _running(on, shop), _running(on, plain):
            await_until(on, partial(can_move, on), "the application could not be moved", READY_SECONDS)
            time.sleep(WARM_SECONDS)
            for _ in range(_PAIRS):
                _take_pair(on, (shop, plain), logs, taken.batches[files], taken)


@contextmanager
def _running(on: Stage, shop: Shop) -> Iterator[None]:
    shop.start()
    try:
        yield
    finally:
        on.stop(shop.process)


def _settings(files: str, log: Path, *, is_plain: bool = False) -> dict[str, str]:
    """Of Spark. The companion chooses the checkpoint manager for a file system; without it that is a setting."""
    found = logged_in(log)
    if files == ALIKE:
        found |= local_disk_conf(jar_paths(f"spark-{pyspark.__version__}"))
        if is_plain:
            found["spark.sql.streaming.checkpointFileManagerClass"] = _older_manager(pyspark.__version__)
    return found


def _older_manager(spark: str) -> str:
    """Spark's manager on the interface that such a file system has; its package is another since 4.1."""
    major, minor = map(int, spark.split(".")[:2])
    package = "checkpointing." if (major, minor) >= (4, 1) else ""
    return f"org.apache.spark.sql.execution.streaming.{package}FileSystemBasedCheckpointFileManager"


def _take_pair(on: Stage, shops: tuple[Shop, Shop], logs: Mapping[str, Path], pairs: Pairs, taken: Attendance) -> None:
    pid = attendant_of(shops[0].process.pid)
    began, spent = time.monotonic(), spent_seconds(pid)
    both = {f"{shop.out.name} {name}": place for shop in shops for name, place in places(shop).items()}
    await_more(on, both, _BATCHES, READY_SECONDS)
    taken.processor.append((spent_seconds(pid) - spent) / (time.monotonic() - began) * 100)
    taken.memory.append(memory_mb(pid))
    for name, found in (("attached", pairs.attached), ("plain", pairs.plain)):
        batches = newest(read_batches(logs[name]), _BATCHES)
        for phase, samples in found.items():
            samples.append(phase_ms(batches, phase))
    attached, plain = ([f"{each[phase][-1]:.1f}" for phase in each] for each in (pairs.attached, pairs.plain))
    on.say(f"a batch and {', '.join(_PHASES)}: {' '.join(attached)} ms with, {' '.join(plain)} ms without")
    on.say(f"attendant: {taken.memory[-1]:.1f} MB, {taken.processor[-1]:.1f} % of a core")


def places(shop: Shop) -> dict[str, Path]:
    """By query its checkpoint."""
    return {name: shop.out / "checkpoints" / name for name in QUERIES}


def attendant_of(driver: int) -> int:
    """The pid of the attendant that a driver started. Raises BenchError."""
    found = children(driver, argument=ATTENDANT)
    if not found:
        raise BenchError(f"the driver with pid {driver} has no attendant")
    return found[0]


def memory_mb(pid: int) -> float:
    """Megabytes of a process; a page that several processes share counts by its share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("Pss:"))
    return int(kilobytes) * 1024 / 1e6


def attendance_rows(measurement: str, taken: Attendance) -> list[Row]:
    """The lines of the report."""
    lines = []
    for files, pairs in taken.batches.items():
        ours, theirs = pairs.attached[BATCH], pairs.plain[BATCH]
        lines.append(Row(
            measurement=measurement, what=f"a batch with Tideover attached takes longer by, {files}", unit="%",
            ours=Spread.of(paired_percent(theirs, ours)), limit=BATCH_LIMIT_PERCENT if files == ALIKE else None,
            others=(
                Other(name="a batch with Tideover", spread=Spread.of(ours), unit="ms"),
                Other(name="a batch without it", spread=Spread.of(theirs), unit="ms"),
            ),
            note=(
                "Batches of both queries as Spark reports them (`triggerExecution`), of two applications that read the"
                " same topics at the same time. Each writes an event log. A figure below 0 is a batch that is shorter"
                " with Tideover, which gives an entry of a log its name by a link. Spark writes a file and its"
                " checksum, sets their rights and renames them. With Hadoop's own local file system each `chmod`"
                " and `readlink` is a process. On an object store or HDFS there is no such gain."
            ),
        ))  # fmt: skip
        lines += [
            Row(
                measurement=measurement, what=f"phase {phase}, {words}, {files}", unit="ms",
                ours=Spread.of(pairs.attached[phase]),
                others=(Other(name="without Tideover", spread=Spread.of(pairs.plain[phase])),),
                note="The phases are those that run through Tideover's code; the others of a batch are Spark's alone.",
            )
            for phase, words in _PHASES.items()
        ]  # fmt: skip
    return [
        *lines,
        Row(
            measurement=measurement, what="processor time of the attendant", unit="% of a core",
            ours=Spread.of(taken.processor),
            note="Another process, which reads the last records of each batch: no part of the batch.",
        ),
        Row(
            measurement=measurement, what="memory of the attendant", unit="MB", ours=Spread.of(taken.memory),
            limit=MEMORY_LIMIT_MB, note="Its proportional set size, while two queries run; the store was there before.",
        ),
    ]  # fmt: skip
