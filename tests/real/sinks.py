"""A sink of each kind, a query for each, and how its batch is held while it is written.

``table`` is Delta's own sink, ``known`` a Delta table that is given ``txnAppId`` and ``txnVersion``, ``files`` Spark's
file sink, ``upserted`` a table of PostgreSQL by key, and ``copied`` a topic.

While the file ``settings.hold`` is there, a query holds its batch at the id written in it; beside it appears a file
``.reached`` when it does. A process that is killed then has planned the batch, and has written none of it, or all that
comes before that id.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet
from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.real.theatre import read_ids

TABLE, KNOWN, FILES, UPSERTED, COPIED = "table", "known", "files", "upserted", "copied"
SINKS = {TABLE: "batch-id", KNOWN: "batch-id", FILES: "batch-id", UPSERTED: "keyed", COPIED: "append"}
"""What the configuration says of each: ``sink``."""

Sources = Mapping[str, DataFrame]
_TICK_SECONDS = 0.02


def table(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Every id, by Delta's own sink."""
    return _ids(sources, settings).writeStream.format("delta").option("path", str(settings["sink"]))


def files(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Every id, by Spark's file sink."""
    return _ids(sources, settings).writeStream.format("parquet").option("path", str(settings["sink"]))


def known(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Every id, into a Delta table that goes by application and batch id."""
    path = str(settings["sink"])

    def write(frame: DataFrame, batch: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", "known").option("txnVersion", batch).save(path)

    return _ids(sources, settings).writeStream.foreachBatch(write)


def upserted(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Every id a row, with how often it was written; one transaction for each batch."""
    address, hold = str(settings["sink"]), Path(str(settings["hold"]))

    def write(frame: DataFrame, _batch: int) -> None:
        ids = sorted(row.id for row in frame.select("id").collect())
        with psycopg.connect(address) as connection:
            for number in ids:
                connection.execute(
                    "INSERT INTO ids VALUES (%s) ON CONFLICT (id) DO UPDATE SET id = excluded.id", (number,)
                )
                _wait(number, hold)

    return _parsed(sources).writeStream.foreachBatch(write)


def copied(sources: Sources, settings: Mapping[str, Any]) -> DataStreamWriter:
    """Key and value as they are, for a Kafka sink that the runner directs."""
    return _ids(sources, settings).select("key", functions.to_json(functions.struct("id")).alias("value")).writeStream


def _parsed(sources: Sources) -> DataFrame:
    number = functions.get_json_object(functions.col("value").cast("string"), "$.id").cast("long")
    return sources["orders"].select("key", number.alias("id")).where("id >= 0")


def _ids(sources: Sources, settings: Mapping[str, Any]) -> DataFrame:
    hold = Path(str(settings["hold"]))

    def pass_on(number: int) -> str:
        _wait(number, hold)
        return f"{number:0100d}"  # rows leave Python 64 KB at a time

    return _parsed(sources).withColumn("id", functions.udf(pass_on, "string")("id").cast("long"))


def _wait(number: int, hold: Path) -> None:
    """Wait while this id is held."""
    while hold.exists() and number >= int(hold.read_text(encoding="utf-8")):
        hold.with_suffix(".reached").touch()
        time.sleep(_TICK_SECONDS)


def delivered(kind: str, sink: str, bootstraps: list[str], topic: str) -> Counter[int]:
    """How often each id is in a sink, by another reader than Spark."""
    if kind == UPSERTED:
        with psycopg.connect(sink) as connection:
            return Counter(number for (number,) in connection.execute("SELECT id FROM ids"))
    if kind == COPIED:
        return Counter(number for each in bootstraps for number in read_ids(each, topic))
    log = Path(sink) / ("_spark_metadata" if kind == FILES else "_delta_log")
    found: Counter[int] = Counter()
    for path in _files_of(log, compacted=kind == FILES):
        found.update(pyarrow.parquet.ParquetFile(path).read(["id"]).column("id").to_pylist())
    return found


def _files_of(log: Path, *, compacted: bool) -> list[Path]:
    """The data files that a log names; a file that is there and not named was never committed."""
    entries = sorted(log.glob("[0-9]*" if compacted else "[0-9]*.json"))
    lines = [
        line for each in entries if each.suffix != ".crc" for line in each.read_text(encoding="utf-8").splitlines()
    ]
    answer = [json.loads(line) for line in lines if line.startswith("{")]
    if compacted:
        return sorted({Path(each["path"].removeprefix("file://")) for each in answer})
    return [log.parent / each["add"]["path"] for each in answer if "add" in each]
