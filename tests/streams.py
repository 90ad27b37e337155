"""Two real clusters with shifted offsets, and queries whose output shows every record lost or read twice."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from confluent_kafka.cimpl import NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.orders import id_hash
from lab.delivery import Delivery
from lab.judge import weigh, weight
from state.messages import CheckpointReport, PrepareRequest, UncommittedBatch
from state.store.controller_store import ControllerStore
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.checkpoint.log_fence import plant, unplant
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.checkpoint.read import batch_ids, newest_commit, read_checkpoint
from streaming.spark.query.kafka_options import SHORT_WAIT
from tests.topics import make_topic

SHIFT = {"0": 17, "1": 23}
"""Foreign records that lie on the standby before the replicated ones, per partition."""

COMMITTED, PLANNED, ALL = 50, 60, 90
"""How many ids are in committed batches, in the planned one too, and in the standby's topic."""

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
"""Of a session in which a batch comes only with records."""

_T0_MS = 1_700_000_000_000
_SECONDS = 120.0


def position(records: int, *, topic: str = "orders", shifted: bool = False) -> dict[str, dict[str, int]]:
    """Offsets after the first so many records (an even number; ids alternate between two partitions)."""
    return {topic: {key: records // 2 + (shift if shifted else 0) for key, shift in SHIFT.items()}}


@dataclass
class Cluster:
    """One broker, by its bootstrap address, and what a test writes to it."""

    bootstrap: str
    ends: dict[str, int] = field(default_factory=dict)
    security: dict[str, str] = field(default_factory=dict)
    """What a client must say to be let in, beside the address."""
    batch: int = 10_000
    """Most records that a producer sends as one batch, which a consumer fetches as a whole."""

    def make(self, topic: str, *, foreign: bool, partitions: int = 2) -> None:
        """Make a topic; with ``foreign`` records of another writer come first."""
        keep = {"retention.ms": "-1"}  # the records' times are long past
        make_topic({"bootstrap.servers": self.bootstrap, **self.security}, NewTopic(topic, partitions, 1, config=keep))
        self.ends[topic] = 0
        if foreign:
            self._send(topic, ((int(key), -1) for key, count in SHIFT.items() for _ in range(count)))

    def extend(self, topic: str, end: int) -> None:
        """Write the ids up to ``end`` that the topic lacks."""
        self._send(topic, ((number % 2, number) for number in range(self.ends[topic], end)))
        self.ends[topic] = end

    def extend_in_transactions(self, topic: str, end: int, *, each: int) -> None:
        """The same, in committed transactions of so many records; a marker follows each in either partition."""
        producer = self._producer(**{"transactional.id": topic})
        producer.init_transactions(_SECONDS)
        for first in range(self.ends[topic], end, each):
            producer.begin_transaction()
            self._produce(producer, topic, ((number % 2, number) for number in range(first, min(first + each, end))))
            producer.commit_transaction(_SECONDS)
        self.ends[topic] = end

    def append(self, topic: str, partition: int, ids: Iterable[int]) -> None:
        """Write ids to one partition, beside those that ``extend`` counts."""
        self._send(topic, ((partition, number) for number in ids))

    def _send(self, topic: str, records: Iterable[tuple[int, int]]) -> None:
        self._produce(self._producer(), topic, records)

    def _producer(self, **more: str) -> Delivery:
        ours = {"linger.ms": 5, "batch.num.messages": self.batch, "log_level": 0}
        return Delivery({"bootstrap.servers": self.bootstrap, **ours, **self.security, **more})

    @staticmethod
    def _produce(producer: Delivery, topic: str, records: Iterable[tuple[int, int]]) -> None:
        for partition, number in records:
            value = json.dumps({"id": number, "at_ms": _T0_MS + number * 1000})
            producer.produce(topic, value=value, key=f"k{number % 3}", partition=partition, timestamp=_T0_MS + number)
        producer.confirm(_SECONDS)


def read(
    session: SparkSession,
    cluster: Cluster,
    topic: str,
    *,
    source: str = "kafka",
    **options: str,
) -> DataFrame:
    """The topic as ids, keys and event times."""
    place = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    reader = session.readStream.format(source).options(**place | SHORT_WAIT | options)
    value = functions.col("value").cast("string")
    number = functions.get_json_object(value, "$.id").cast("long").alias("id")
    at = functions.expr("timestamp_millis(cast(get_json_object(cast(value as string), '$.at_ms') as long))").alias("at")
    return reader.load().select(functions.col("key").cast("string"), number, at)


def has_rested(checkpoint: Path) -> bool:
    """Whether a query has committed all that it has planned, and anything at all."""
    committed = newest_commit(LocalFiles(), str(checkpoint))
    return committed is not None and committed == batch_ids(LocalFiles(), str(checkpoint), "offsets")[-1]


def run(writer: DataStreamWriter, checkpoint: str) -> str | None:
    """Run a query until it has read everything; returns its error, if it failed."""
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
    except StreamingQueryException as error:
        return str(error).partition("terminated with exception: ")[2].partition("=== Streaming Query")[0]
    finally:
        query.stop()
    return None


@dataclass
class Ledger:
    """A keyed sink: what the ids of each window and key weigh, so that losses and repeats cannot cancel out."""

    rows: dict[tuple[int, str], int] = field(default_factory=dict)
    failing: Literal["before", "after"] | None = None
    """Fail before or after the rows of a batch are written."""
    batches: list[int] = field(default_factory=list)

    def writer(self, records: DataFrame) -> DataStreamWriter:
        """A stateful query without de-duplication."""
        windowed = records.withWatermark("at", "1 hour").groupBy(
            functions.window("at", "30 seconds").alias("window"), "key"
        )
        count, high, low = functions.count("*"), functions.sum(id_hash(1)), functions.sum(id_hash(9))
        summed = windowed.agg(count.alias("count"), high.alias("high"), low.alias("low"))
        start = functions.expr("unix_millis(window.start)").alias("start")
        flat = summed.select(start, "key", "count", "high", "low")
        return flat.writeStream.outputMode("update").foreachBatch(self._write)

    def _write(self, rows: DataFrame, batch: int) -> None:
        found = {(row["start"], row["key"]): weight(row["count"], row["high"], row["low"]) for row in rows.collect()}
        if self.failing == "before":
            raise RuntimeError("the sink is down")
        self.rows |= found
        self.batches.append(batch)
        if self.failing == "after":
            raise RuntimeError("the driver is gone")

    @staticmethod
    def truth(end: int) -> dict[tuple[int, str], int]:
        """What the sink must hold after the ids below ``end``, each once."""
        expected: Counter[tuple[int, str]] = Counter()
        for number in range(end):
            at = _T0_MS + number * 1000
            expected[at - at % 30_000, f"k{number % 3}"] += weigh(number)
        return dict(expected)


@dataclass(frozen=True)
class Parquet:
    """Spark's file sink, which drops a batch id that it knows."""

    folder: Path

    def writer(self, records: DataFrame) -> DataStreamWriter:
        """A stateless query."""
        return records.select("id").writeStream.format("parquet").option("path", str(self.folder))

    def forget(self, batch: int) -> None:
        """Undo a batch, as if the driver had died before the sink's own commit."""
        entry = self.folder / "_spark_metadata" / str(batch)
        for line in entry.read_text().splitlines()[1:]:
            Path(json.loads(line)["path"].removeprefix("file://")).unlink()
        entry.unlink()
        entry.with_name(f".{batch}.crc").unlink(missing_ok=True)  # the companion leaves none

    def ids(self, session: SparkSession) -> Mapping[int, int]:
        """Each id with how often it was delivered."""
        rows = session.read.schema("id long").parquet(str(self.folder)).groupBy("id").count().collect()
        return {row["id"]: row["count"] for row in rows}


@dataclass(frozen=True)
class Files:
    """A folder of JSON files with ids, which a query reads beside Kafka."""

    folder: Path

    def add(self, *ids: int) -> None:
        """Put one file there, whole as soon as it is seen."""
        self.folder.mkdir(exist_ok=True)
        draft = self.folder / f".{ids[0]}"
        draft.write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
        draft.rename(self.folder / f"{ids[0]}.json")

    def read(self, session: SparkSession) -> DataFrame:
        self.folder.mkdir(exist_ok=True)
        return session.readStream.schema("id long").json(str(self.folder))


def uncommit(checkpoint: Path) -> int:
    """Take back the newest commit, as if the driver had died right before it; returns its batch."""
    newest = max(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    return int(newest.name)


def forget_seen(store: ControllerStore, *queries: str) -> None:
    """As if the driver had died before it reported these batches: else a start would miss what is taken back."""
    for query in queries:
        store.forget_seen(query)


@dataclass
class Move:
    """One query on its way from east to west."""

    session: SparkSession
    files: HadoopFiles
    east: Cluster
    west: Cluster
    folder: Path
    topic: str
    operation: str

    @classmethod
    def between(cls, east: Cluster, west: Cluster, session: SparkSession, folder: Path) -> Self:
        """Of a new topic that east is yet to get, and of which west has all."""
        topic = f"orders-{uuid.uuid4().hex[:8]}"
        east.make(topic, foreign=False)
        west.make(topic, foreign=True)
        west.extend(topic, ALL)
        return cls(session, HadoopFiles(session), east, west, folder, topic, "move")

    @property
    def old(self) -> str:
        return str(self.folder / "checkpoint")

    @property
    def new(self) -> str:
        return str(self.folder / "epoch-2")

    def with_settings(self, settings: dict[str, str]) -> None:
        for key, value in settings.items():
            self.session.conf.set(key, value)

    def inspect(self, file_sink: Path | None = None) -> CheckpointReport:
        sink = None if file_sink is None else str(file_sink)
        return read_checkpoint(self.files, self.old, {"orders": [self.topic]}, file_sink=sink)

    def fence(self) -> None:
        """Plant the entries that hold the checkpoint."""
        plant(self.files, self.old, operation=self.operation, epoch=2, knows=lambda _: True)

    def carry(self, treatment: UncommittedBatch, report: CheckpointReport) -> int:
        """Fence and prepare at the very offsets of the standby; returns the first batch with new data."""
        self.fence()
        return prepare(self.files, self._request(treatment, report, self.new), {"orders": [self.topic]}).data_batch

    def switch(self) -> None:
        """Fence it, and write beside its checkpoint where it continues; the batch in flight is planned again."""
        self.fence()
        report = self.inspect()
        assert report.planned is not None
        request = self._request(UncommittedBatch.REPLAN, report, self.old)
        keeps = request.model_copy(update={"resume": "switch", "cluster": "west"})
        prepare(self.files, keeps, {"orders": (self.topic,)}, placed=Placed("east", 0))
        unplant(self.files, self.old, self.operation)

    def _request(self, treatment: UncommittedBatch, report: CheckpointReport, target: str) -> PrepareRequest:
        end = PLANNED if treatment is UncommittedBatch.PROMOTE else COMMITTED
        return PrepareRequest(
            checkpoint=self.old,
            target=target,
            operation=self.operation,
            epoch=2,
            resume="carry",
            batch=report.batch,
            offsets=report.offsets,
            target_offsets={"orders": position(end, topic=self.topic, shifted=True)},
            treatment=treatment,
            planned_target_offsets={"orders": position(PLANNED, topic=self.topic, shifted=True)}
            if treatment is UncommittedBatch.REPLAN
            else None,
        )

    def commits(self) -> list[int]:
        return sorted(int(path.name) for path in (Path(self.new) / "commits").iterdir() if path.name.isdigit())
