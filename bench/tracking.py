"""What tracking costs a query: batch time with and without it, at 4, 100 and 1,000 partitions.

One broker, one Spark session, one query per partition count: stateless, collects in foreachBatch, trigger 1 s. All
partitions are written to all the time, and read with the options that the runner sets. The query never stops. Tracking
is switched on and off by turns, a few batches each, and the batch that runs at a switch is left out. A pair is two
blocks next to each other; every second pair runs the other way round, so that a slow drift of the machine falls on
both. Batch time is Spark's own ``triggerExecution``.

Spark keeps 64 Kafka consumers in each process by default. Here it may keep one per partition, so that no batch has to
make any again. A partition count ends after ``_COUNT_SECONDS`` with the pairs that were taken, or says that none was.

With tracking: what the runner does, by the runner's own classes. The checkpoint is followed, every batch goes to the
``Tracker``, which reads the records before each end, samples the ends of the cluster and writes positions to SQLite.
Without: none of it, so that the cost of following is in the figure. The processor time is that of the Python threads
that tracking started, over the batches of a block. Their calls to the JVM (what a batch read) is not in it.

The difference is a difference of two noisy numbers: where its range crosses zero it says "less than the noise" only.
The share is the tighter figure: the processor time of a batch's tracking in percent of the batch's time without it.
"""

import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.broker import broker, make_topics
from bench.errors import BenchError
from bench.report import Other, Row
from bench.samples import Spread, paired_percent
from bench.setting import Setting
from state.messages import Offsets
from state.model.entities import Assignment, Desired
from state.settings.keys import Cluster, Spark, Timeline
from state.store.runner_store import RunnerStore
from state.store.sql.migrate import open_store
from streaming.kafka.link import Link
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.hosting import Subject
from streaming.spark.jvm import JavaObject, java_query
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.kafka_options import PROMPT, SHORT_WAIT
from streaming.spark.query.query_report import rows_by_source
from streaming.spark.query.query_run import Run
from streaming.spark.query.session import open_session
from streaming.spark.tracking.tracker import Tracker

NAME = "tracking"
LIMIT_PERCENT = 2.0
RATE = 2000
BATCHES = {4: 6, 100: 5, 1000: 1}
"""Partitions to the batches of one block."""
PAIRS = 4
_LOOK_SECONDS = 0.1
_COUNT_SECONDS = {4: 65.0, 100: 65.0, 1000: 240.0}
"""How long each partition count may take; a batch of 1,000 is half a minute on two slow cores."""


class TimeIsUp(BenchError):
    """No more blocks: what was taken counts."""


@dataclass
class Taken:
    """What was measured at one partition count."""

    without: list[float] = field(default_factory=list)
    with_it: list[float] = field(default_factory=list)
    """Median batch of each block, in milliseconds."""
    cpu_per_batch: list[float] = field(default_factory=list)
    """Of each block with tracking, in milliseconds."""


def measure(setting: Setting) -> list[Row]:
    """Measure every partition count in one session on one broker."""
    rows: list[Row] = []
    with broker(setting) as bootstrap:
        cluster = Cluster(bootstrap=(bootstrap,))
        make_topics(bootstrap, {_topic(count): count for count in BATCHES})
        spark = Spark(master="local[4]", conf={"spark.kafka.consumer.cache.capacity": sum(BATCHES)})
        session = open_session(spark, name=NAME, instance="bench", partitions=4)
        try:
            for count in BATCHES:
                setting.say(f"{count} partitions")
                directory = setting.directory / str(count)
                with (
                    _load(bootstrap, count),
                    _query(session, bootstrap, count, directory) as query,
                    _tracking(session, query, cluster, count, directory) as tracking,
                ):
                    rows += _rows(count, _alternate(query, tracking, BATCHES[count], _COUNT_SECONDS[count]))
        finally:
            session.stop()
    return rows


def _alternate(query: StreamingQuery, tracking: "_Tracking", batches: int, seconds: float) -> Taken:
    """Blocks without and with tracking by turns, until all pairs are taken or time is up."""
    taken = Taken()
    deadline = time.monotonic() + seconds
    with suppress(TimeIsUp):
        _block(query, 1, deadline)
        for pair in range(PAIRS):
            for with_it in (False, True) if pair % 2 == 0 else (True, False):
                tracking.switch(on=with_it)
                durations, cpu_seconds = _block(query, batches, deadline, tracking.cpu_seconds)
                (taken.with_it if with_it else taken.without).append(statistics.median(durations))
                if with_it:
                    taken.cpu_per_batch.append(cpu_seconds * 1000 / batches)
    return taken


def adopt(store: RunnerStore, checkpoint: str, *, query: str = "bench", cluster: str = "bench") -> None:
    """The row without which no position of the query is stored."""
    row = Assignment(
        query=query,
        epoch=1,
        placed_epoch=1,
        desired=Desired.RUNNING,
        cluster=cluster,
        runner="bench",
        checkpoint=checkpoint,
        starting_offsets=None,
        operation=None,
        changed_at=datetime.now(UTC),
    )
    store.adopt(row)


def _block(
    query: StreamingQuery, batches: int, deadline: float, clock: Callable[[], float] = time.monotonic
) -> tuple[list[float], float]:
    """Await this many batches with data, after the one that is running: their durations in milliseconds.

    And by how much the clock advanced from the end of that one to the end of the last. Raises ``TimeIsUp`` at the
    deadline.
    """
    reports, seen = java_query(query), dict[int, float]()
    first, began = _newest(reports), None
    while len(seen) < batches:
        if not query.isActive:
            raise BenchError(f"the query ended: {query.exception() or 'without saying why'}")
        if time.monotonic() > deadline:
            raise TimeIsUp("the partition count has had its time")
        time.sleep(_LOOK_SECONDS)
        newest = _newest(reports)
        if newest <= first or newest in seen:
            continue
        if began is None:
            began = clock()
        if newest == first + 1:
            continue
        progress = json.loads(reports.lastProgress().json())
        if "addBatch" in progress["durationMs"] and progress["numInputRows"] > 0:
            seen[progress["batchId"]] = float(progress["durationMs"]["triggerExecution"])
    return list(seen.values()), clock() - (began or 0.0)


def _newest(reports: JavaObject) -> int:
    """The batch of the newest report, by one number: a whole report of 1,000 partitions is a page of text."""
    report = reports.lastProgress()
    return -1 if report is None else int(report.batchId())


@contextmanager
def _tracking(
    session: SparkSession, query: StreamingQuery, cluster: Cluster, count: int, directory: Path
) -> Iterator["_Tracking"]:
    """Tracking of one query, switched off."""
    before = {thread.ident for thread in threading.enumerate()}
    subject = Subject("bench", 1, "bench", str(directory / "checkpoint"))
    store = open_store(f"sqlite:///{directory / 'positions.db'}")
    adopt(store, subject.checkpoint)
    with Link(cluster, name="bench") as link:
        tracker = Tracker(lambda _: link, store, directory / "spool", lambda: datetime.now(UTC), lambda _: Timeline())
        run = Run(session, query, CallbackGate())
        files, declared = HadoopFiles(session), {"orders": (_topic(count),)}
        tracking = _Tracking(
            run, tracker, subject, lambda: Follower(files, subject.checkpoint, declared), ThreadClock(before)
        )
        try:
            yield tracking
        finally:
            tracking.switch(on=False)
            tracker.close(5.0)
            store.close()


class _Tracking:
    """What the runner's watch does on its way, while it is switched on: follow the checkpoint, hand batches and row
    counts on."""

    def __init__(
        self,
        run: Run,
        tracker: Tracker,
        subject: Subject,
        new_follower: Callable[[], Follower],
        cpu_seconds: "ThreadClock",
    ) -> None:
        self._run = run
        self._tracker = tracker
        self._subject = subject
        self._new_follower = new_follower
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.cpu_seconds = cpu_seconds

    def switch(self, *, on: bool) -> None:
        """Start again, or stop and forget."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None
            self._tracker.forget(self._subject)
        if on:
            self._over = threading.Event()
            self._thread = threading.Thread(target=self._follow, name="follow")
            self._thread.start()

    def _follow(self) -> None:
        follower = self._new_follower()
        counted = committed = -1
        offsets: dict[int, Offsets] = {}
        while not self._over.wait(_LOOK_SECONDS):
            for batch in follower.poll():
                offsets[batch.id] = batch.offsets
                committed = batch.id if batch.committed else committed
                self._tracker.see(self._subject, batch)
            progress = self._run.last_progress() if committed > counted else None
            if progress is not None and progress["batchId"] > counted and progress["batchId"] in offsets:
                counted = progress["batchId"]
                self._tracker.count(self._subject, counted, rows_by_source(progress, offsets[counted]))
                offsets = {batch: each for batch, each in offsets.items() if batch > counted}


class ThreadClock:
    """Processor time of the threads of this process that were not there before; called, it gives seconds.

    The Python side of Spark's own callbacks runs in such threads too; they are known by py4j's names and left out.
    """

    def __init__(self, before: set[int | None]) -> None:
        self._before = before

    def __call__(self) -> float:
        return sum(
            time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
            for thread in threading.enumerate()
            if thread.ident is not None and thread.ident not in self._before and _is_ours(thread)
        )


def _is_ours(thread: threading.Thread) -> bool:
    return (
        thread.is_alive() and not type(thread).__module__.startswith("py4j") and "callback" not in thread.name.lower()
    )


@contextmanager
def _query(session: SparkSession, bootstrap: str, count: int, directory: Path) -> Iterator[StreamingQuery]:
    def collect(batch: DataFrame, _: int) -> None:
        batch.count()

    read = {"kafka.bootstrap.servers": bootstrap, "subscribe": _topic(count), "startingOffsets": "latest"}
    frame = session.readStream.format("kafka").options(**PROMPT, **SHORT_WAIT, **read)
    writer = frame.load().writeStream.foreachBatch(collect).trigger(processingTime="1 second")
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def _load(bootstrap: str, count: int) -> Iterator[None]:
    """Records for all partitions in turn, ``RATE`` a second, in fifty steps."""
    over = threading.Event()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})

    def produce() -> None:
        number, step, next_at = 0, RATE // 50, time.monotonic()
        while not over.wait(max(0.0, next_at - time.monotonic())):
            for _ in range(step):
                with suppress(BufferError):  # a broker that is busy gets less
                    producer.produce(_topic(count), partition=number % count, value=b"x" * 100)
                number += 1
            producer.poll(0)
            next_at += 0.02

    thread = threading.Thread(target=produce, name="load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(10)


def _topic(count: int) -> str:
    return f"tracked-{count}"


def _rows(count: int, taken: Taken) -> list[Row]:
    pairs = min(len(taken.without), len(taken.with_it))
    extra = paired_percent(taken.without[:pairs], taken.with_it[:pairs])
    shares = [cpu * 100 / base for cpu, base in zip(taken.cpu_per_batch, taken.without, strict=False)]
    why_not = "" if pairs else f"not one pair of blocks was over after {_COUNT_SECONDS[count]:.0f} s"
    return [
        Row(
            measurement=NAME,
            what=f"tracking, {count:,} partitions: extra batch time",
            unit="%",
            ours=Spread.of(extra),
            limit=LIMIT_PERCENT,
            others=(
                Other(name="batch with tracking", spread=Spread.of(taken.with_it), unit="ms", why_not=why_not),
                Other(name="batch without tracking", spread=Spread.of(taken.without), unit="ms", why_not=why_not),
            ),
            note="Pair by pair of neighbouring blocks. Every partition gets records all the time.",
        ),
        Row(
            measurement=NAME,
            what=f"tracking, {count:,} partitions: processor time as a share of batch time",
            unit="%",
            ours=Spread.of(shares),
            limit=LIMIT_PERCENT,
            others=(
                Other(
                    name="processor time per batch", spread=Spread.of(taken.cpu_per_batch), unit="ms", why_not=why_not
                ),
            ),
            note="What tracking's Python threads computed from one batch to the next, of one core.",
        ),
    ]
