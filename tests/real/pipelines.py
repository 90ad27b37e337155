"""Queries for tests on real runners. Their sinks are folders or files that show every record lost or read twice."""

import json
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from examples.orders import id_hash
from lab.judge import weigh, weight

Sources = Mapping[str, DataFrame]


def distinct_ids(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateful: the ids, each once, appended to a file."""
    path = Path(str(settings["sink"]))
    text = functions.col("value").cast("string")
    ids = sources["orders"].select("timestamp", functions.get_json_object(text, "$.id").cast("long").alias("id"))
    once = ids.where("id >= 0").withWatermark("timestamp", "1 hour").dropDuplicates(["id", "timestamp"])

    def append(frame: DataFrame, _batch: int) -> None:
        lines = "".join(f"{row.id}\n" for row in frame.select("id").collect())
        with path.open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    return once.writeStream.outputMode("append").foreachBatch(append)


def raising(_sources: Sources) -> DataStreamWriter:
    """A pipeline that cannot be built."""
    raise ValueError("no such customer")


def rows_by_batch(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateless: every id as it was read, foreign ones too, one file a batch."""
    folder = Path(str(settings["sink"]))
    return _ids(sources).writeStream.foreachBatch(
        lambda frame, batch: _keep(
            folder, batch, frame, [row.id for row in _begun(folder, frame).select("id").collect()]
        )
    )


def rows_once(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """``rows_by_batch`` of records whose partition and offset were not seen: wrong on another cluster."""
    return rows_by_batch({"orders": sources["orders"].dropDuplicates(["partition", "offset"])}, settings)


def rows_once_in_a_batch(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateless: the ids of a batch by ``foreachBatch``, which uses partition and offset where no plan shows it."""
    folder = Path(str(settings["sink"]))
    text = functions.col("value").cast("string")
    number = functions.get_json_object(text, "$.id").cast("long").alias("id")

    def write(frame: DataFrame, batch: int) -> None:
        once = frame.dropDuplicates(["partition", "offset"])
        _keep(folder, batch, frame, [row.id for row in once.select("id").collect()])

    return sources["orders"].select(number, "partition", "offset").writeStream.foreachBatch(write)


def sums_by_batch(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateful without de-duplication: by key the count and the sums of a hash of the ids, which no losses and repeats
    that cancel out in the count leave as they are."""
    folder = Path(str(settings["sink"]))
    summed = (
        _ids(sources)
        .groupBy("key")
        .agg(
            functions.count("*").alias("count"),
            functions.sum(id_hash(1)).alias("high"),
            functions.sum(id_hash(9)).alias("low"),
        )
    )
    return summed.writeStream.outputMode("update").foreachBatch(
        lambda frame, batch: _keep(folder, batch, frame, [list(row) for row in _begun(folder, frame).collect()])
    )


def copies(sources: Sources) -> DataStreamWriter:
    """Key and value as they are, for a Kafka sink that the runner directs."""
    return sources["orders"].select("key", "value").writeStream


def slow_rows_by_batch(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """``rows_by_batch``, in batches that last."""
    return rows_by_batch(_slowly(sources), settings)


def slow_sums_by_batch(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """``sums_by_batch``, in batches that last."""
    return sums_by_batch(_slowly(sources), settings)


def slow_copies(sources: Sources) -> DataStreamWriter:
    """``copies``, in batches that last."""
    return copies(_slowly(sources))


def _slowly(sources: Sources) -> Sources:
    """A task rests behind each record, and so comes to the next one when its cluster may be gone."""
    rests = "java_method('java.lang.Thread', 'sleep', 8L) <> ''"
    return {name: frame.where(rests) for name, frame in sources.items()}


def _ids(sources: Sources) -> DataFrame:
    text = functions.col("value").cast("string")
    number = functions.get_json_object(text, "$.id").cast("long").alias("id")
    return sources["orders"].select(functions.col("key").cast("string").alias("key"), number)


def _begun(folder: Path, frame: DataFrame) -> DataFrame:
    """A batch that is planned, once it may be read."""
    while (folder / UNREAD).exists():
        time.sleep(0.02)
    return frame


def _keep(folder: Path, batch: int, frame: DataFrame, rows: list[object]) -> None:
    """Write a batch as a sink by batch id does: once, and a second writing of the same id stays visible if it differs.

    The epoch under which the batch ran is beside it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    epoch = int(frame.sparkSession.conf.get("spark.tideover.epoch") or 0)
    reported = {"batch": batch, "epoch": epoch, "rows": sorted(rows, key=str), "at": time.time()}
    path = folder / f"{batch}.json"
    known = path.exists()
    if known and json.loads(path.read_text(encoding="utf-8"))["rows"] != reported["rows"]:
        path = folder / f"{batch}.differs-{time.time_ns()}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(reported), encoding="utf-8")
    partial.replace(path)
    while not known and rows and (folder / HOLD).exists():
        time.sleep(0.02)


HOLD = "hold"
"""A file in a sink's folder: while it is there, a batch that is written is not committed."""


UNREAD = "unread"
"""A file in a sink's folder: while it is there, a batch that is planned is not read."""


def kept(folder: Path) -> list[dict[str, Any]]:
    """What a sink holds, in the order of batches."""
    answer = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    return sorted(answer, key=lambda each: (each["batch"], each["at"]))


def kept_ids(folder: Path) -> Counter[int]:
    """How often each id is in the sink of ``rows_by_batch``."""
    return Counter(number for each in kept(folder) for number in each["rows"])


def kept_sums(folder: Path) -> dict[str, tuple[int, int]]:
    """The newest count and weight of each key in the sink of ``sums_by_batch``."""
    return {key: (count, weight(count, high, low)) for each in kept(folder) for key, count, high, low in each["rows"]}


def sums_of(end: int) -> dict[str, tuple[int, int]]:
    """What that sink holds when the ids up to ``end`` were delivered once each."""
    return {f"k{key}": (len(range(key, end, 3)), sum(map(weigh, range(key, end, 3)))) for key in range(3)}


def attempts_by_batch(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateless: partition, time and value of every record; a batch id that the sink has already is dropped."""
    value = functions.col("value").cast("string").alias("value")
    rows = sources["copied"].select("partition", functions.expr("unix_millis(timestamp)").alias("at"), value)
    return _dropping(rows, Path(str(settings["sink"])), "append")


def counts_by_value(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateful: how often each value came in each partition; a batch id that the sink has already is dropped."""
    value = functions.col("value").cast("string").alias("value")
    counted = sources["copied"].select("partition", value).groupBy("partition", "value").count()
    return _dropping(counted.select("partition", "value", "count"), Path(str(settings["sink"])), "update")


def _dropping(rows: DataFrame, folder: Path, mode: str) -> DataStreamWriter:
    def keep(frame: DataFrame, batch: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{batch}.json"
        if path.exists():
            return
        epoch = int(frame.sparkSession.conf.get("spark.tideover.epoch") or 0)
        reported = {"batch": batch, "epoch": epoch, "rows": [list(row) for row in frame.collect()], "at": time.time()}
        path.with_suffix(".partial").write_text(json.dumps(reported), encoding="utf-8")
        path.with_suffix(".partial").replace(path)

    return rows.writeStream.outputMode(mode).foreachBatch(keep)


def joined_ids(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateful, over two topics: each id once both have it; a batch id that the sink has already is dropped."""
    requested, paid = (_timed_ids(sources[name]).alias(name) for name in ("requested", "paid"))
    in_time = functions.expr(
        "paid.timestamp BETWEEN requested.timestamp - INTERVAL 1 MINUTE AND requested.timestamp + INTERVAL 1 MINUTE"
    )
    pairs = requested.join(paid, functions.expr("requested.id = paid.id") & in_time)
    return _dropping(pairs.select("requested.id"), Path(str(settings["sink"])), "append")


def paired_ids(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateful, over one topic joined with itself: each id, once; a batch id that the sink has already is dropped."""
    first, again = (_timed_ids(sources["orders"]).alias(name) for name in ("first", "again"))
    in_time = functions.expr(
        "again.timestamp BETWEEN first.timestamp - INTERVAL 1 MINUTE AND first.timestamp + INTERVAL 1 MINUTE"
    )
    pairs = first.join(again, functions.expr("first.id = again.id") & in_time)
    return _dropping(pairs.select("first.id"), Path(str(settings["sink"])), "append")


def ids_by_place(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateful: ids of one topic, with their places, each place once: a record that has the place of another is lost.

    Its logic uses what Kafka says of a record; it is right on another cluster only where that says what home would say.
    """
    folder = Path(str(settings["sink"]))
    text = functions.col("value").cast("string")
    number = functions.get_json_object(text, "$.id").cast("long").alias("id")
    read = sources["orders"].where("topic = 'parcels'").select(number, "partition", "offset").where("id >= 0")
    once = read.dropDuplicates(["partition", "offset"])
    return once.writeStream.outputMode("append").foreachBatch(
        lambda frame, batch: _keep(folder, batch, frame, [list(row) for row in frame.collect()])
    )


def files(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateless: every id, into Parquet files of Spark's own sink."""
    return _ids(sources).writeStream.format("parquet").option("path", str(settings["sink"]))


def light_files(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """``files``, which a task has no memory for that gets more than ``LIGHT`` records."""
    counts: Counter[int] = Counter()

    def carried(number: int) -> int:
        task = TaskContext.get()
        assert task is not None
        counts[task.taskAttemptId()] += 1
        if counts[task.taskAttemptId()] > LIGHT:
            raise MemoryError("too many records")
        return number

    ids = _ids(sources).withColumn("id", functions.udf(carried, "long")("id"))
    return ids.writeStream.format("parquet").option("path", str(settings["sink"]))


LIGHT = 60


def delta_ids(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Stateless: every id, into a Delta table that knows by application and batch id what it has."""
    table = str(settings["sink"])

    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", "delta_ids").option("txnVersion", batch).save(table)

    return _timed_ids(sources["paid"]).select("id").writeStream.foreachBatch(write)


def _timed_ids(source: DataFrame) -> DataFrame:
    text = functions.col("value").cast("string")
    ids = source.select("timestamp", functions.get_json_object(text, "$.id").cast("long").alias("id"))
    return ids.where("id >= 0").withWatermark("timestamp", "10 minutes")
