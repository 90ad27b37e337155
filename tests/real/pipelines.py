"""Queries for the runner's tests: what reached the sink is in a file, one id a line."""

import os
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

Sources = Mapping[str, DataFrame]


def distinct_ids(sources: Sources, settings: Mapping[str, object]) -> DataStreamWriter:
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
