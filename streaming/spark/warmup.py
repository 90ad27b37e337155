"""Warms the JVM up on the standby, so that a move does not pay for class loading and compilation: 1.0 s, not 1.9.

A session alone does not do it: a throw-away query with state is run on a topic of the standby, stopped and started
again from its checkpoint, which is what a move does. It reads a few records, writes nowhere but to a temporary folder.
A failure of it is a line in the log, and it is tried again later: a standby that was away need not leave the runner
cold for good.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from state.settings import Tideover
from streaming.spark.callbacks import Gate, gated
from streaming.spark.facts import bound
from streaming.spark.hosting import Hosting
from streaming.spark.jvm import cause_of
from streaming.spark.source import overridden, read_source, source_options

_BATCH_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_RECORDS = "40"
_CYCLES = 2
_AGAIN_SECONDS = 30.0
_AGAIN_AT_MOST_SECONDS = 600.0
"""A standby that is away for hours is not asked all the time."""
_PATIENT = {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}
"""A cold JVM is what this is for: nobody waits for it, so it may be slow."""


def begin_warmup(hosting: Hosting, ready: Callable[[], bool], warm: Callable[[], None], over: threading.Event) -> None:
    """Warm up in the background once ``ready`` says so, and call ``warm`` when it is done; ``over`` gives it up."""

    log = bound({"runner": hosting.runner})

    def live() -> None:
        pause = _AGAIN_SECONDS
        while _await(ready, over):
            began = time.monotonic()
            try:
                records = warm_up(hosting, over)
            except Exception as error:  # noqa: BLE001 - a thread's edge: a cold JVM is slower, not wrong
                log.warning("warm-up failed", error=cause_of(error), again_in_seconds=pause)
            else:
                if records is not None and not over.is_set():
                    warm()
                    log.info("warmed up", seconds=round(time.monotonic() - began, 1), records=records)
                return
            if over.wait(pause):
                return
            pause = min(2 * pause, _AGAIN_AT_MOST_SECONDS)

    threading.Thread(target=live, name="warm-up", daemon=True).start()


def _await(ready: Callable[[], bool], over: threading.Event) -> bool:
    while not ready():
        if over.wait(_LOOK_SECONDS * 5):
            return False
    return True


def warm_up(hosting: Hosting, over: threading.Event) -> tuple[int, ...] | None:
    """Run the throw-away query on the standby of one query of this runner; how many records each run of it read.

    None when no query has a standby, and when it was given up. Raises what ended the query, and ``TimeoutError``.
    """
    place = standby_of(hosting.settings, hosting.runner)
    if place is None:
        return None
    query, source, cluster = place
    options = source_options(hosting.settings, hosting.query(query), source, cluster, None)
    few = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": _RECORDS, "failOnDataLoss": "false", **_PATIENT}
    session = hosting.session.newSession()
    with tempfile.TemporaryDirectory(prefix="tideover-warm-", ignore_cleanup_errors=True) as folder:
        runs = [_run_once(session, overridden(options, few), Path(folder), over) for _ in range(_CYCLES)]
    return None if over.is_set() else tuple(runs)


def standby_of(settings: Tideover, runner: str) -> tuple[str, str, str] | None:
    """A query of this runner, a source of it, and the cluster that it would move to."""
    for name, query in settings.queries.items():
        if runner in query.runners and len(query.clusters) > 1:
            return name, next(iter(query.sources)), query.clusters[1]
    return None


def _run_once(session: SparkSession, options: dict[str, str], folder: Path, over: threading.Event) -> int:
    if over.is_set():
        return 0
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
    query = writer.option("checkpointLocation", folder.as_uri()).start()
    try:
        return await_batch(query, over)
    finally:
        gate.close()
        query.stop()


def _collect(frame: DataFrame, _batch: int) -> None:
    frame.collect()


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
