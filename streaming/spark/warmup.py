"""Warms the JVM up on the standby, so that a move does not pay for class loading and compilation: 1.0 s, not 1.9.

A session alone does not do it: a throw-away query with state is run on a topic of the standby, stopped and started
again from its checkpoint, which is what a move does. It reads a few records, writes nowhere but to a temporary folder,
and a failure of it is a line in the log.
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
_PATIENT = {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}
"""A cold JVM is what this is for: nobody waits for it, so it may be slow."""


def begin_warmup(hosting: Hosting, ready: Callable[[], bool], warm: Callable[[], None], over: threading.Event) -> None:
    """Warm up in the background once ``ready`` says so, and call ``warm`` when it is done; ``over`` gives it up."""

    def live() -> None:
        while not ready():
            if over.wait(_LOOK_SECONDS * 5):
                return
        began = time.monotonic()
        try:
            warmed = warm_up(hosting, over)
        except Exception as error:  # noqa: BLE001 - a thread's edge: a cold JVM is slower, not wrong
            bound({"runner": hosting.runner}).warning("warm-up failed", error=cause_of(error))
            return
        if warmed and not over.is_set():
            warm()
            bound({"runner": hosting.runner}).info("warmed up", seconds=round(time.monotonic() - began, 1))

    threading.Thread(target=live, name="warm-up", daemon=True).start()


def warm_up(hosting: Hosting, over: threading.Event) -> bool:
    """Run the throw-away query on the standby of one query of this runner; False when none has a standby."""
    place = standby_of(hosting.settings, hosting.runner)
    if place is None:
        return False
    query, source, cluster = place
    options = source_options(hosting.settings, hosting.query(query), source, cluster, None)
    few = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": _RECORDS, "failOnDataLoss": "false", **_PATIENT}
    session = hosting.session.newSession()
    with tempfile.TemporaryDirectory(prefix="tideover-warm-", ignore_cleanup_errors=True) as folder:
        for _ in range(_CYCLES):
            if over.is_set():
                return False
            _run_once(session, overridden(options, few), Path(folder), over)
    return True


def standby_of(settings: Tideover, runner: str) -> tuple[str, str, str] | None:
    """A query of this runner, a source of it, and the cluster that it would move to."""
    for name, query in settings.queries.items():
        if runner in query.runners and len(query.clusters) > 1:
            return name, next(iter(query.sources)), query.clusters[1]
    return None


def _run_once(session: SparkSession, options: dict[str, str], folder: Path, over: threading.Event) -> None:
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
        _await_batch(query, over)
    finally:
        gate.close()
        query.stop()


def _collect(frame: DataFrame, _batch: int) -> None:
    frame.collect()


def _await_batch(query: StreamingQuery, over: threading.Event) -> None:
    """Until one batch is through, or the topic turns out to be empty, or it takes too long."""
    deadline = time.monotonic() + _BATCH_SECONDS
    while query.isActive and time.monotonic() < deadline and not over.wait(_LOOK_SECONDS):
        progress = query.lastProgress
        if progress is not None:
            return
    failure = query.exception()
    if failure is not None:
        raise failure
