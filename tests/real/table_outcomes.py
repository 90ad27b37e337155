"""Moves a query that writes to Delta, Iceberg, Hudi or files, with one batch in flight; prints what is there, as JSON.

A process of its own, because the jars of a table format must be on the class path when the driver's JVM starts.
Arguments: the format (``parquet`` is Spark's own file sink), bootstrap of the old and of the new cluster, a directory.
For every treatment of the batch in flight, and for a sink that has that batch and one that has not, one topic is read
on the old cluster until a batch fails, carried or switched, and read to the end on the new one. A batch in flight that
is cut is read to its end on the old cluster.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lab import topics
from lab.delivery import Delivery
from state.messages import CheckpointReport, PrepareRequest, UncommittedBatch
from state.settings.keys import Query, Spark
from state.settings.keys import Sink as QuerySink
from streaming.companion.jar import companion_jar
from streaming.jars import jar_paths
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.checkpoint.log_fence import plant, unplant
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.jvm import java_query
from streaming.spark.query.kafka_options import SHORT_WAIT, SWITCHING, read_source, switching_options
from streaming.spark.query.session import connector_jars, open_session
from streaming.spark.query.sink_memory import Tables, WrittenTo, written_to
from streaming.spark.recut import cut_to, objection, read_unfinished, write_cut
from tests.streams import uncommit

PARTITIONS = 2
FOREIGN = 9
MARKER = 500
"""An id that no record has."""
CALM, IN_FLIGHT, LATER = range(80), range(80, 120), range(120, 200)
CATALOG = "tables"
SETTINGS: dict[str, dict[str, str | int | float | bool]] = {
    "delta": {
        "spark.databricks.delta.snapshotPartitions": 2,  # of its own bookkeeping; 50 is for tables of millions of files
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
    },
    "hudi": {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    },
    "parquet": {},
}
OPTIONS: dict[str, dict[str, str]] = {
    "hudi": {
        "hoodie.table.name": "ids",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "bulk_insert",  # a record that comes again is a second row
        "hoodie.metadata.enable": "false",
        "hoodie.clean.automatic": "false",
    },
}
"""What a format's writer wants beside a path."""
_SECONDS = 120


class SinkFailed(Exception):
    """The sink broke, before or after it wrote."""


@dataclass
class DeltaSink:
    """Writes each batch once: Delta drops a transaction whose version it has seen from the same application."""

    table: str
    application: str
    breaks: str | None = None
    """``before`` or ``after`` it writes; None: it works."""

    def write(self, batch: DataFrame, batch_id: int) -> None:
        rows = batch.select(f.col("value").cast("string").cast("int").alias("id")).persist()
        broken = self.breaks if not rows.isEmpty() else None
        if broken == "before":
            raise SinkFailed
        writer = rows.write.format("delta").mode("append")
        writer.option("txnAppId", self.application).option("txnVersion", batch_id).save(self.table)
        rows.unpersist()
        if broken == "after":
            raise SinkFailed

    def writer(self, records: DataFrame) -> DataStreamWriter:
        return records.writeStream.foreachBatch(self.write)


@dataclass
class FormatSink:
    """A format's own sink, which drops a batch that it has: by query id and batch id, or, for files, by batch id."""

    table: str
    format: str
    breaks: str | None = None
    """``before``: the last of the batch in flight breaks its task, when most of the batch is written."""

    def writer(self, records: DataFrame) -> DataStreamWriter:
        identity = f.col("value").cast("string").cast("int")
        if self.breaks == "before":
            broken = f.raise_error(f.lit("the sink broke")).cast("int")
            identity = f.when(identity == IN_FLIGHT[-1], broken).otherwise(identity)
        rows = records.select(identity.alias("id"))
        return rows.writeStream.format(self.format).options(**OPTIONS.get(self.format, {})).option("path", self.table)


Sink = DeltaSink | FormatSink


@dataclass(frozen=True)
class Case:
    treatment: UncommittedBatch
    sink_has_it: bool
    by_format: bool = False
    resume: str = "carry"
    forgets: bool = False
    """The table forgets the batch before the query continues."""

    @property
    def name(self) -> str:
        sink = "-by-format" if self.by_format else ""
        way = "" if self.resume == "carry" else f"-{self.resume}"
        has = "forgot" if self.forgets else "has" if self.sink_has_it else "has-not"
        return f"{self.treatment.value}-{has}{sink}{way}"


BY_FORMAT = [
    Case(UncommittedBatch.REPLAN, has, by_format=True, resume=resume)
    for resume, has in (("carry", True), ("switch", True), ("switch", False))
]
FORGOTTEN = Case(UncommittedBatch.REPLAN, sink_has_it=True, by_format=True, resume="switch", forgets=True)
BY_APPLICATION = [
    Case(treatment, has) for treatment in (UncommittedBatch.REPLAN, UncommittedBatch.BRIDGE) for has in (True, False)
]
CASES = {
    "delta": [*BY_FORMAT, FORGOTTEN, *BY_APPLICATION],
    "iceberg": [*BY_FORMAT, FORGOTTEN],
    "hudi": BY_FORMAT[:2],  # a batch that fails ends the driver: HoodieStreamingSink calls System.exit
    "parquet": BY_FORMAT,
}
"""``foreachBatch`` has Delta's ``txnAppId``; Iceberg's writer has nothing like it."""
CUTS = {"delta": (True, False), "iceberg": (True, False), "parquet": (True, False)}
"""Formats whose table says whether it has a batch; for each, whether the sink has the batch that is cut."""
LIMIT = 10
"""Of records in a batch that is cut."""


def main(arguments: Sequence[str]) -> int:
    kind, old, new, directory = arguments
    session = _session(kind, directory)
    reported: dict[str, dict[str, Any]] = {}
    for case in CASES[kind]:
        table = _table(session, kind, case, directory)
        reported[case.name] = _play(session, kind, case, table, [old], [new], Path(directory) / case.name)
        print(case.name, reported[case.name], file=sys.stderr)  # what there is, should the time run out
    for has in CUTS.get(kind, ()):
        case = Case(UncommittedBatch.REPLAN, has, by_format=True, resume="cut")
        table = _table(session, kind, case, directory)
        reported[case.name] = _play_cut(session, kind, case, table, [old], Path(directory) / case.name)
        print(case.name, reported[case.name], file=sys.stderr)
    session.stop()
    print(json.dumps(reported))
    return 0


def _table(session: SparkSession, kind: str, case: Case, directory: str) -> str:
    """What the format calls a table that is not there yet; Iceberg's sink wants one that is."""
    if kind != "iceberg":
        return str(Path(directory) / case.name / "table")
    name = f"{CATALOG}.db.`{case.name}`"
    session.sql(f"CREATE TABLE {name} (id INT) USING iceberg")
    return name


def _play(
    session: SparkSession, kind: str, case: Case, table: str, old: list[str], new: list[str], directory: Path
) -> dict[str, Any]:
    files, topic = HadoopFiles(session), f"{kind}-{case.name}"
    sink = FormatSink(table, kind) if case.by_format else DeltaSink(table, topic)
    first = str(directory / "epoch-1")
    _break_off(session, case, sink, topic, first, (old, new))
    if case.forgets:
        _forget(session, kind, table)
    plant(files, first, operation="op", epoch=2, knows=lambda _: True)
    report = _with_sink(session, files, first, topic, sink)
    assert report.planned is not None
    switches = case.resume == "switch"
    second = first if switches else str(directory / "epoch-2-op")
    request = PrepareRequest(
        checkpoint=first, target=second, operation="op", epoch=2, resume=case.resume, cluster="west",
        batch=report.batch, offsets=report.offsets, target_offsets=_shifted(report.offsets), treatment=case.treatment,
        planned_target_offsets=_shifted(report.planned.offsets) if case.treatment is UncommittedBatch.REPLAN else None,
    )  # fmt: skip
    prepared = prepare(files, request, {"orders": (topic,)}, placed=Placed("east", 0))
    unplant(files, second, "op")
    sink.breaks = None
    query = _start(session, new, topic, sink, second, switches=switches)
    query.processAllAvailable()
    _produce(new, topic, LATER)
    query.processAllAvailable()
    query.stop()
    written = _written_to(session, sink)
    return _held(session, kind, sink) | {
        "batch": report.batch,
        "planned": report.planned.batch,
        "data_batch": prepared.data_batch,
        "memory": report.sink_memory,
        "sink": report.planned.sink,
        "took": Tables(session, files, utc_now).watch_under_way(second, written).took(report.planned.batch + 1),
    }


def _play_cut(
    session: SparkSession, kind: str, case: Case, table: str, cluster: list[str], directory: Path
) -> dict[str, Any]:
    """The batch in flight gets smaller ends, as a start gives them, unless its table speaks against it."""
    files, topic, checkpoint = HadoopFiles(session), f"{kind}-{case.name}", str(directory / "checkpoint")
    sink = FormatSink(table, kind)
    _break_off(session, case, sink, topic, checkpoint, (cluster,))
    report = _with_sink(session, files, checkpoint, topic, sink)
    unfinished = read_unfinished(files, checkpoint, Placed("east", 0), report.batch)
    assert unfinished is not None
    cut = cut_to(unfinished, LIMIT)
    assert cut is not None
    reason = objection(report, QuerySink.APPEND)
    if reason is None:
        write_cut(files, checkpoint, cut, epoch=1, still=lambda: None)
    sink.breaks = None
    query = _start(session, cluster, topic, sink, checkpoint)
    _produce(cluster, topic, LATER)
    query.processAllAvailable()
    progress = [json.loads(report.json()) for report in java_query(query).recentProgress()]
    sizes = {each["batchId"]: each["numInputRows"] for each in progress}
    query.stop()
    return _held(session, kind, sink) | {"reason": reason, "records": cut.records, "read": sizes.get(cut.batch)}


def _break_off(
    session: SparkSession, case: Case, sink: Sink, topic: str, checkpoint: str, clusters: Sequence[list[str]]
) -> None:
    """Read some records on the first of the clusters, and break off in the batch behind them."""
    every = [server for cluster in clusters for server in cluster]
    for cluster in clusters:
        topics.create(cluster, topic, PARTITIONS, 1)
    for cluster in clusters[1:]:
        topics.put_foreign(cluster, topic, lambda partition: FOREIGN * (partition + 1))
    _produce(every, topic, CALM)
    query = _start(session, clusters[0], topic, sink, checkpoint)
    query.processAllAvailable()
    query.stop()  # a running query may plan its batch when only one partition's records have arrived
    sink.breaks = "after" if case.sink_has_it else "before"
    _produce(every, topic, IN_FLIGHT)
    query = _start(session, clusters[0], topic, sink, checkpoint)
    if case.by_format and case.sink_has_it:
        query.processAllAvailable()
        query.stop()
        uncommit(Path(checkpoint))  # as if the driver had died right before it wrote its commit
    else:
        _await_failure(query)


def _held(session: SparkSession, kind: str, sink: Sink) -> dict[str, Any]:
    """What the table has at the end, beside what it should have."""
    held = Counter(row.id for row in session.read.format(kind).load(sink.table).collect())
    return {
        "missing": sorted({*CALM, *IN_FLIGHT, *LATER} - held.keys()),
        "repeated": sorted(identity for identity, count in held.items() if count > 1),
        "foreign": sorted(identity for identity in held if identity is None or identity < 0),
    }


def _session(kind: str, directory: str) -> SparkSession:
    version = pyspark.__version__
    formats = [] if kind == "parquet" else jar_paths(f"{kind}-{version}")
    jars = [*formats, *connector_jars(Spark(), version)]
    conf = SETTINGS[kind] | {"spark.jars": ",".join(str(jar) for jar in jars)}
    if kind == "iceberg":
        conf[f"spark.sql.catalog.{CATALOG}.warehouse"] = directory
    return open_session(
        Spark(conf=conf), name=kind, instance="table-story", partitions=PARTITIONS, companion=companion_jar()
    )


def _start(
    session: SparkSession, cluster: list[str], topic: str, sink: Sink, checkpoint: str, *, switches: bool = False
) -> StreamingQuery:
    place = {"kafka.bootstrap.servers": ",".join(cluster), "subscribe": topic, "startingOffsets": "earliest"}
    more = {**SHORT_WAIT, **(switching_options("west", 2, timedelta()) if switches else {})}
    records = read_source(session, place | more, SWITCHING if switches else "kafka")
    return sink.writer(records).option("checkpointLocation", checkpoint).start()


def _written_to(session: SparkSession, sink: Sink) -> WrittenTo:
    """What Tideover reads off the writer."""
    records = session.readStream.format("rate").load().withColumn("value", f.col("value").cast("string"))
    return written_to(cast(Query, SimpleNamespace(output=None)), sink.writer(records))


def _with_sink(session: SparkSession, files: HadoopFiles, checkpoint: str, topic: str, sink: Sink) -> CheckpointReport:
    """What a fence reports of the checkpoint and of the sink's table."""
    found = _written_to(session, sink)
    report = read_checkpoint(files, checkpoint, {"orders": (topic,)}, file_sink=found.folder)
    return Tables(session, files, utc_now).with_sink(report, found)


def utc_now() -> datetime:
    return datetime.now(UTC)


def _forget(session: SparkSession, kind: str, table: str) -> None:
    """Let the table forget which batches it has, by its own means."""
    if kind == "delta":
        kept = "'delta.setTransactionRetentionDuration' = 'interval 1 second'"
        session.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({kept})")
        time.sleep(2)
        return
    session.sql(f"INSERT INTO {table} SELECT id FROM {table} WHERE false")
    session.sql(f"INSERT INTO {table} VALUES ({MARKER})")  # the newest snapshot stays, and is of no query
    until = f"TIMESTAMP '{utc_now():%Y-%m-%d %H:%M:%S.%f}'"
    session.sql(
        f"CALL {CATALOG}.system.expire_snapshots(table => '{_plain(table)}', older_than => {until}, retain_last => 1)"
    )


def _plain(table: str) -> str:
    return table.removeprefix(f"{CATALOG}.")


def _await_failure(query: StreamingQuery) -> None:
    try:
        query.awaitTermination(_SECONDS)
    except StreamingQueryException:
        return
    raise AssertionError("the query went on although its sink broke")


def _produce(bootstrap: list[str], topic: str, ids: range) -> None:
    """The same records in the same order to every cluster named."""
    for server in bootstrap:
        producer = Delivery({"bootstrap.servers": server, "enable.idempotence": True, "log_level": 0})
        for identity in ids:
            producer.produce(topic, partition=identity % PARTITIONS, value=str(identity))
        producer.confirm(_SECONDS)


def _shifted(offsets: dict[str, dict[str, dict[str, int]]]) -> dict[str, dict[str, dict[str, int]]]:
    """The same places on the cluster where foreign records came first."""
    return {
        name: {
            topic: {number: offset + FOREIGN * (int(number) + 1) for number, offset in partitions.items()}
            for topic, partitions in source.items()
        }
        for name, source in offsets.items()
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
