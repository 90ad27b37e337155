"""Warms the JVM up on the standby, so that a move does not pay for class loading and compilation: 1.0 s, not 1.9.

A session alone does not do it: a throw-away query with state is run on a topic of the standby, stopped and started
again from its checkpoint, which is what a move does. Then the plan of each query that this runner stands by for is run
once, with no record going through it and nothing written: its module is imported, its code generated, its state store
opened, and what kind of sink it has is known before a fence has to ask. What does not work then is told when there is
time to mend it. A few records are read, and nothing is written but to temporary folders.

A failure is a line in the log, and it is tried again later: a standby that was away need not leave the runner cold for
good.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.settings import Tideover
from streaming.spark.callbacks import Gate, gated
from streaming.spark.facts import bound
from streaming.spark.hosting import Hosting
from streaming.spark.jvm import cause_of
from streaming.spark.launch import FileSinks, dry_writer
from streaming.spark.source import Options, overridden, read_source, source_options

_BATCH_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_CYCLES = 2
_AGAIN_SECONDS = 30.0
_AGAIN_AT_MOST_SECONDS = 600.0
"""A standby that is away for hours is not asked all the time."""
_FEW = {
    "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40", "failOnDataLoss": "false",
    "kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000",
}  # fmt: skip
"""A few records; and a cold JVM is what this is for: nobody waits for it, so it may be slow."""


class Host(Protocol):
    """The runner, as far as it tells when there is time, and for what."""

    def has_settled(self) -> bool:
        """Whether nothing is about to start."""

    def hosts(self, query: str) -> bool:
        """Whether a run of a query is here."""


def begin_warmup(
    hosting: Hosting, host: Host, sinks: FileSinks, warm: Callable[[], None], over: threading.Event
) -> None:
    """Warm up in the background once ``host`` has settled, and call ``warm`` when it is done; ``over`` gives it up."""
    log = bound({"runner": hosting.runner})

    def live() -> None:
        pause = _AGAIN_SECONDS
        while _settled(host, over):
            began = time.monotonic()
            try:
                records = warm_up(hosting, over)
            except Exception as error:  # noqa: BLE001 - a thread's edge: a cold JVM is slower, not wrong
                log.warning("warm-up failed", error=cause_of(error), again_in_seconds=pause)
            else:
                if records is not None:
                    queries = rehearse(hosting, host, sinks, over)
                    if not over.is_set():
                        warm()
                        seconds = round(time.monotonic() - began, 1)
                        log.info("warmed up", seconds=seconds, records=records, queries=queries)
                return
            if over.wait(pause):
                return
            pause = min(2 * pause, _AGAIN_AT_MOST_SECONDS)

    threading.Thread(target=live, name="warm-up", daemon=True).start()


def _settled(host: Host, over: threading.Event) -> bool:
    while not host.has_settled():
        if over.wait(_LOOK_SECONDS * 5):
            return False
    return True


def warm_up(hosting: Hosting, over: threading.Event) -> tuple[int, ...] | None:
    """Run the throw-away query on the standby of one query of this runner; how many records each run of it read.

    None when no query has a standby, and when it was given up. Raises what ended the query, and ``TimeoutError``.
    """
    place = next(standing_by(hosting.settings, hosting.runner), None)
    if place is None:
        return None
    name, cluster = place
    query = hosting.query(name)
    options = overridden(source_options(hosting.settings, query, next(iter(query.sources)), cluster, None), _FEW)
    session = hosting.session.newSession()
    with _folder() as folder:
        runs = [_throw_away(session, options, folder, over) for _ in range(_CYCLES)]
    return None if over.is_set() else tuple(runs)


def rehearse(hosting: Hosting, host: Host, sinks: FileSinks, over: threading.Event) -> list[str]:
    """Run the plan of each query that this runner stands by for, once and without records; which of them could be.

    A query that cannot is one that could not be taken over either: a line in the log says so.
    """
    done = []
    for name, cluster in standing_by(hosting.settings, hosting.runner):
        if over.is_set():
            break
        if host.hosts(name):
            continue
        try:
            writer, sink = dry_writer(hosting, name, cluster, _FEW)
            sinks.remember(name, sink)
            with _folder() as folder:
                run_once(writer, folder, over)
        except Exception as error:  # noqa: BLE001 - the user's code and Spark's analysis raise what they like
            bound({"runner": hosting.runner, "query": name}).warning("query not warmed up", error=cause_of(error))
        else:
            done.append(name)
    return done


def standing_by(settings: Tideover, runner: str) -> Iterator[tuple[str, str]]:
    """The queries that a runner may host, each with the cluster that it would move to."""
    for name, query in settings.queries.items():
        if runner in query.runners and len(query.clusters) > 1:
            yield name, query.clusters[1]


def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tideover-warm-", ignore_cleanup_errors=True)


def _throw_away(session: SparkSession, options: Options, folder: str, over: threading.Event) -> int:
    frame = (
        read_source(session, options)
        .select("timestamp", sql.col("value").cast("string").alias("value"))
        .withWatermark("timestamp", "1 minute")
        .dropDuplicates(["timestamp", "value"])
        .groupBy(sql.window("timestamp", "1 minute"))
        .count()
    )
    gate = Gate()
    with gated(gate):
        writer = frame.writeStream.outputMode("update").foreachBatch(_collect)
    try:
        return run_once(writer, folder, over)
    finally:
        gate.close()


def _collect(frame: DataFrame, _batch: int) -> None:
    frame.collect()


def run_once(writer: DataStreamWriter, folder: str, over: threading.Event) -> int:
    """Start a query on a checkpoint in a folder, and stop it after one batch; how many records that read.

    Raises what ended it, and ``TimeoutError``.
    """
    if over.is_set():
        return 0
    query = writer.option("checkpointLocation", Path(folder).as_uri()).start()
    try:
        return await_batch(query, over)
    finally:
        query.stop()


def await_batch(query: StreamingQuery, over: threading.Event, seconds: float = _BATCH_SECONDS) -> int:
    """Wait until one batch is through, or the topic turns out to be empty; how many records it read.

    0 also when it is given up. Raises what ended the query, and ``TimeoutError``: what did not run has warmed nothing.
    """
    deadline = time.monotonic() + seconds
    while query.isActive and time.monotonic() < deadline:
        if over.wait(_LOOK_SECONDS):
            return 0
        progress = query.lastProgress
        if progress is not None:
            return int(progress["numInputRows"])
    failure = query.exception()
    if failure is not None:
        raise failure
    raise TimeoutError(f"no batch was through after {seconds:g} s")
