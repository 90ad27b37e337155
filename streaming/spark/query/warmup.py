"""Warms the JVM up on the standby, so that a move does not pay for class loading and compilation: 1.0 s, not 1.9.

A session alone does not do it. A throw-away query with state is run on a topic of the standby, stopped and started
again from its checkpoint, which is what a move does. Then the plan of each query that this runner stands by for is run
once, with no record going through it and nothing handed to its sink. Its module is imported, its code generated, its
state store opened, and what kind of sink it has is known before a fence needs it. What does not work then is reported
when there is time to mend it. A few records are read, and nothing is kept: checkpoints are thrown away.

What failed is a line in the log, and is tried again later. A standby that was away, or a topic that is not there yet,
need not leave the runner cold for good. Over a topic without records Spark plans no batch, so that warms little.
"""

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.settings.keys import Tideover
from streaming.cluster_log import ClusterLog
from streaming.kafka.link import Links
from streaming.probe.identities import Identities
from streaming.spark.errors import PipelineError, PlanMisfit
from streaming.spark.hosting import Hosting, absolute, logger_about
from streaming.spark.jvm import cause_of
from streaming.spark.query.callbacks import CallbackGate, gated
from streaming.spark.query.kafka_options import Options, overridden, read_source, source_options
from streaming.spark.query.launch import Sinks, dry_writer
from streaming.spark.state_schema import misfit, pinned

_BATCH_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_CYCLES = 2
_AGAIN_SECONDS = 30.0
_AGAIN_AT_MOST_SECONDS = 600.0
"""A standby that is away for hours does not get requests all the time."""
_FEW = {
    "startingOffsets": "earliest", "minOffsetsPerTrigger": "1", "maxOffsetsPerTrigger": "40", "failOnDataLoss": "false",
    "kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000",
}  # fmt: skip
"""A few records; and a cold JVM is what this is for: no move waits for it, so it may be slow."""
_MOST_PARTITIONS = 32
"""That are read of all topics of a source. Spark takes a record of each, in a task of its own, and thousands of tasks
would keep the slots from what runs."""
_DESCRIBE_SECONDS = 10.0


def few(log: ClusterLog, options: Options) -> Options:
    """The same source, of which a few records of a few partitions are read.

    A pattern's topics are read as they are. Raises ``ClusterUnreachable``.
    """
    changed = overridden(options, _FEW)
    if "subscribe" not in changed:
        return changed
    facts = log.describe(changed["subscribe"].split(","), timeout=_DESCRIBE_SECONDS)
    if sum(len(topic.partitions) for topic in facts.values()) <= _MOST_PARTITIONS:
        return changed
    del changed["subscribe"]
    each = max(1, _MOST_PARTITIONS // len(facts))
    chosen = {name: sorted(topic.partitions)[:each] for name, topic in facts.items() if topic.partitions}
    return {**changed, "assign": json.dumps(chosen)}


class QueryHosts(Protocol):
    """The runner, as far as it says when there is time, and for what."""

    def has_settled(self) -> bool:
        """Whether nothing is about to start."""

    def hosts(self, query: str) -> bool:
        """Whether a run of a query is here."""


class WarmupListener(Protocol):
    """Who hears what a warm-up found out."""

    def set_warm(self) -> None:
        """The throw-away query is through."""

    def set_plan(self, query: str, trouble: str) -> None:
        """The plan of a query was built and run: why it could not take over; empty where it could."""


def begin_warmup(
    hosting: Hosting, host: QueryHosts, sinks: Sinks, listener: WarmupListener, over: threading.Event
) -> None:
    """Warm up in the background once ``host`` has settled, and report what was found.

    What failed is tried again; ``over`` gives it up.
    """
    log = logger_about({"runner": hosting.runner})

    def live() -> None:
        pause = _AGAIN_SECONDS
        records: tuple[int, ...] | None = None
        rehearsed: dict[str, int] = {}
        while _settled(host, over):
            began = time.monotonic()
            try:
                if records is None:
                    records = warm_up(hosting, over)
                    if records is None:
                        return
                    listener.set_warm()
            except Exception as error:  # noqa: BLE001 - a thread's edge: a cold JVM is slower, not wrong
                log.warning("warm-up failed", error=cause_of(error), again_in_seconds=pause)
                failures = 1
            else:
                failures = rehearse(hosting, host, sinks, listener, over, rehearsed)
                if over.is_set():
                    return
                seconds = round(time.monotonic() - began, 1)
                log.info("warmed up", seconds=seconds, records=records, queries=rehearsed, failures=failures)
            if not failures or over.wait(pause):
                return
            pause = min(2 * pause, _AGAIN_AT_MOST_SECONDS)

    threading.Thread(target=live, name="warm-up", daemon=True).start()


def _settled(host: QueryHosts, over: threading.Event) -> bool:
    while not host.has_settled():
        if over.wait(_LOOK_SECONDS * 5):
            return False
    return True


def warm_up(hosting: Hosting, over: threading.Event) -> tuple[int, ...] | None:
    """Run the throw-away query on the standby of one query of this runner; how many records each run of it read.

    None when no query has a standby, and when it was given up. Raises what ended the query, ``TimeoutError`` and
    ``ClusterUnreachable``.
    """
    place = next(standing_by(hosting.settings, hosting.runner), None)
    if place is None:
        return None
    name, cluster = place
    query = hosting.query(name)
    with closing(_links(hosting)) as logs:
        options = few(logs(cluster), source_options(hosting.settings, query, next(iter(query.sources)), cluster, None))
    session = hosting.session.newSession()
    with _checkpoint(hosting, name) as checkpoint:
        runs = [_throw_away(session, options, checkpoint, over) for _ in range(_CYCLES)]
    return None if over.is_set() else tuple(runs)


def rehearse(
    hosting: Hosting,
    host: QueryHosts,
    sinks: Sinks,
    listener: WarmupListener,
    over: threading.Event,
    rehearsed: dict[str, int],
) -> int:
    """Run the plan of each query that this runner stands by for once, and let nothing of a record through.

    What it keeps in its state is compared with the checkpoint in use, and ``listener`` gets whether it could continue
    there.

    ``rehearsed`` gets how many records each one read; what is in it is left out. How many failed: a line in the
    log says why, which is mostly why the query could not be taken over either.
    """
    failures = 0
    with closing(_links(hosting)) as logs:
        for name, cluster in standing_by(hosting.settings, hosting.runner):
            if name in rehearsed or not _settled(host, over) or host.hosts(name):
                continue
            try:
                used = _checkpoint_in_use(hosting, name)
                writer, sink = dry_writer(
                    hosting, name, cluster, partial(few, logs(cluster)), pinned(hosting.files, used)
                )
                sinks.remember(name, sink)
                with _checkpoint(hosting, name) as checkpoint:
                    records = run_once(writer, checkpoint, over)
                    trouble = misfit(hosting.files, used, checkpoint) or ""
                if trouble:
                    raise PlanMisfit(trouble)
                listener.set_plan(name, "")
                rehearsed[name] = records
            except (PipelineError, AnalysisException) as error:
                trouble = str(error) if isinstance(error, PipelineError) else cause_of(error)
                listener.set_plan(name, trouble)
                logger_about({"runner": hosting.runner, "query": name}).warning(
                    "query could not take over", error=trouble
                )
                failures += 1
            except Exception as error:  # noqa: BLE001 - the user's code and Spark's analysis raise what they like
                logger_about({"runner": hosting.runner, "query": name}).warning(
                    "query stays cold", error=cause_of(error)
                )
                failures += 1
    return failures


def standing_by(settings: Tideover, runner: str) -> Iterator[tuple[str, str]]:
    """The queries that a runner may host, each with the cluster that it would move to."""
    for name, query in settings.queries.items():
        if runner in query.runners and query.pipeline is not None and len(query.clusters) > 1:
            yield name, query.clusters[1]


def _checkpoint_in_use(hosting: Hosting, query: str) -> str:
    row = hosting.store.assignment(query)
    return row.checkpoint if row is not None else absolute(hosting.query(query).checkpoint, hosting.base)


def _links(hosting: Hosting) -> Links:
    return Links(hosting.settings, Identities(hosting.settings))


@contextlib.contextmanager
def _checkpoint(hosting: Hosting, query: str) -> Iterator[str]:
    """A checkpoint that is thrown away: on the driver's disk where its tasks run, else beside the query's own.

    Executors elsewhere have to find there what another one of them wrote. It has one name for each runner, so that what
    a killed one left goes with the next.
    """
    if hosting.spark_master.startswith("local"):
        with tempfile.TemporaryDirectory(prefix="tideover-warm-", ignore_cleanup_errors=True) as folder:
            yield Path(folder).as_uri()
        return
    folder = f"{absolute(hosting.query(query).checkpoint, hosting.base).rstrip('/')}.warm-{hosting.runner}"
    hosting.files.delete(folder, recursive=True)
    try:
        yield folder
    finally:
        hosting.files.delete(folder, recursive=True)


def _throw_away(session: SparkSession, options: Options, checkpoint: str, over: threading.Event) -> int:
    frame = (
        read_source(session, options)
        .select("timestamp", sql.col("value").cast("string").alias("value"))
        .withWatermark("timestamp", "1 minute")
        .dropDuplicates(["timestamp", "value"])
        .groupBy(sql.window("timestamp", "1 minute"))
        .count()
    )
    gate = CallbackGate()
    with gated(gate):
        writer = frame.writeStream.outputMode("update").foreachBatch(_collect)
    try:
        return run_once(writer, checkpoint, over)
    except Exception as error:
        if gate.error is None:
            raise
        raise RuntimeError(gate.error) from error  # Spark says no more than that Python raised something
    finally:
        gate.close()


def _collect(frame: DataFrame, _batch: int) -> None:
    frame.collect()


def run_once(writer: DataStreamWriter, checkpoint: str, over: threading.Event) -> int:
    """Start a query on a checkpoint, and stop it after one batch; how many records that read.

    Raises what ended it, and ``TimeoutError``.
    """
    if over.is_set():
        return 0
    # After the one batch it waits. To stop it inside another one's callback ends in a stack overflow of Spark's own,
    # harmless and a thousand lines long (``StreamExecution.isInterruptionException`` and its ``PROXY_ERROR``).
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 hour").start()
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
    raise TimeoutError(f"no batch has finished after {seconds:g} s")
