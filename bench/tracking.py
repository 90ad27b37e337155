"""What tracking costs a query: batch time with and without it, at 4, 100 and 1,000 partitions.

One broker, one Spark session, one query per partition count (stateless, collects in foreachBatch, trigger 1 s, all
partitions written to all the time). It never stops; tracking is switched on and off by turns, a few batches each, and
the first batch after each switch is left out. A pair is two blocks next to each other; every second pair runs the
other way round, so that a slow drift of the machine falls on both. Batch time is Spark's own ``triggerExecution``.

With tracking: what the runner does, by the runner's own classes. The checkpoint is followed, every batch goes to the
``Tracker``, which reads the records before each end, samples the ends of the cluster and writes positions to SQLite.
Without: none of it, so that the cost of following is in the figure. The processor time is that of the Python threads
that tracking started, over the batches that ran meanwhile; what they ask of the JVM (is a file there) is not in it.

The difference is a difference of two noisy numbers: where its range crosses zero it says "less than the noise" only.
"""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.broker import broker, make_topics
from bench.errors import BenchError
from bench.report import Other, Row
from bench.setting import Setting
from bench.spread import Spread, paired_percent
from state.ports import Store
from state.settings import Cluster, Spark
from state.sql.migrate import open_store
from streaming.kafka.link import Link
from streaming.spark.follow import Follower
from streaming.spark.hadoop import HadoopFiles
from streaming.spark.hosting import Subject
from streaming.spark.progress import rows_by_source
from streaming.spark.session import open_session
from streaming.spark.tracker import Tracker

NAME = "tracking"
LIMIT_PERCENT = 2.0
RATE = 2000
BATCHES = {4: 8, 100: 6, 1000: 2}
"""Partitions to the batches of one block."""
PAIRS = 4
_LOOK_SECONDS = 0.1
_BATCH_SECONDS = 120.0
_COUNT_SECONDS = 120.0
"""How long one partition count may take; what there is of whole pairs by then counts."""


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
        session = open_session(Spark(master="local[4]"), name=NAME, instance="bench", partitions=4)
        try:
            for count in BATCHES:
                setting.say(f"{count} partitions")
                directory = setting.directory / str(count)
                with _load(bootstrap, count), _query(session, bootstrap, count, directory) as query:
                    rows += _rows(count, _alternate(session, query, cluster, count, directory))
        finally:
            session.stop()
    return rows


def _alternate(session: SparkSession, query: StreamingQuery, cluster: Cluster, count: int, directory: Path) -> Taken:
    """Blocks without and with tracking by turns, until all pairs are taken or time is up."""
    taken, batches = Taken(), BATCHES[count]
    store = open_store(f"sqlite:///{directory / 'positions.db'}")
    deadline = time.monotonic() + _COUNT_SECONDS
    _block(query, 1)
    for pair in range(PAIRS):
        if pair and time.monotonic() > deadline:
            break
        halves: list[Callable[[], None]] = [
            lambda: taken.without.append(statistics.median(_block(query, batches))),
            lambda: _tracked(session, query, cluster, count, directory, store, taken),
        ]
        for half in halves if pair % 2 == 0 else reversed(halves):
            half()
    store.close()
    return taken


def _tracked(
    session: SparkSession,
    query: StreamingQuery,
    cluster: Cluster,
    count: int,
    directory: Path,
    store: Store,
    taken: Taken,
) -> None:
    with _tracking(session, query, cluster, count, directory, store) as cpu_seconds:
        before = cpu_seconds()
        durations = _block(query, BATCHES[count])
        taken.with_it.append(statistics.median(durations))
        taken.cpu_per_batch.append((cpu_seconds() - before) * 1000 / (len(durations) + 1))


def _block(query: StreamingQuery, batches: int) -> list[float]:
    """Durations in milliseconds of so many batches with data; the one that is running when it begins is left out."""
    seen: dict[int, float] = {}
    first = _newest(query)
    deadline = time.monotonic() + _BATCH_SECONDS * (batches + 1)
    while len(seen) < batches:
        if not query.isActive or time.monotonic() > deadline:
            raise BenchError(f"the query made no progress: {query.exception() or 'time is up'}")
        time.sleep(_LOOK_SECONDS)
        for progress in query.recentProgress:
            if progress["batchId"] > first + 1 and progress["numInputRows"] > 0:
                seen[progress["batchId"]] = float(progress["durationMs"]["triggerExecution"])
    return [seen[batch] for batch in sorted(seen)[:batches]]


def _newest(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])


@contextmanager
def _tracking(
    session: SparkSession, query: StreamingQuery, cluster: Cluster, count: int, directory: Path, store: Store
) -> Iterator[Callable[[], float]]:
    """Track for the length of a block; gives the processor time that its threads have spent, in seconds."""
    before = {thread.ident for thread in threading.enumerate()}
    subject = Subject("bench", 1, "bench", str(directory / "checkpoint"))
    links: list[Link] = []

    def open_log(_: str) -> Link:
        links.append(Link(cluster, name="bench"))
        return links[-1]

    tracker = Tracker(open_log, store, directory / "spool", lambda: datetime.now(UTC))
    follower = Follower(HadoopFiles(session), subject.checkpoint, {"orders": (_topic(count),)})
    over = threading.Event()
    thread = threading.Thread(target=_follow, args=(query, follower, tracker, subject, over), name="follow")
    thread.start()
    spent = _ThreadClock(before)
    try:
        yield spent
    finally:
        over.set()
        thread.join()
        tracker.forget(subject)
        tracker.close(5.0)
        for link in links:
            link.close()


def _follow(
    query: StreamingQuery, follower: Follower, tracker: Tracker, subject: Subject, over: threading.Event
) -> None:
    """What the runner's watch does on its way: follow the checkpoint, hand batches and row counts on."""
    counted = -1
    offsets: dict[int, Any] = {}
    while not over.wait(_LOOK_SECONDS):
        for batch in follower.look():
            offsets[batch.id] = batch.offsets
            tracker.see(subject, batch)
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > counted and progress["batchId"] in offsets:
            counted = progress["batchId"]
            tracker.count(subject, counted, rows_by_source(progress, offsets[counted]))
            offsets = {batch: each for batch, each in offsets.items() if batch > counted}


class _ThreadClock:
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

    frame = session.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": bootstrap, "subscribe": _topic(count), "startingOffsets": "latest"}
    )
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
    note = (
        "Extra batch time, pair by pair of neighbouring blocks; processor time: what tracking's Python threads spent "
        "per batch. Every partition gets records all the time."
    )
    return [
        Row(
            measurement=NAME,
            what=f"tracking, {count:,} partitions: extra batch time",
            unit="%",
            ours=Spread.of(extra),
            limit=LIMIT_PERCENT,
            others=(
                Other(name="batch with tracking", spread=Spread.of(taken.with_it), unit="ms"),
                Other(name="batch without tracking", spread=Spread.of(taken.without), unit="ms"),
                Other(name="tracking's own processor time per batch", spread=Spread.of(taken.cpu_per_batch), unit="ms"),
            ),
            note=note,
        )
    ]
