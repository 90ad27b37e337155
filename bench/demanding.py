"""Four queries that cost more than the examples: a join, sessions, sliding windows, and a sink of two tables.

Sinks are Spark's ``noop`` but for the one of two tables, which are Parquet files: what is measured is the queries.
"""

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

Sources = Mapping[str, DataFrame]
Settings = Mapping[str, object]


def joined(sources: Sources, _: Settings) -> DataStreamWriter:
    """Join the topic with itself by id, within ten seconds: four stores of state for each shuffle partition."""
    first, again = (_orders(sources).withWatermark("timestamp", "10 seconds").alias(name) for name in ("a", "b"))
    near = f.expr("a.id = b.id AND b.timestamp BETWEEN a.timestamp AND a.timestamp + INTERVAL 10 SECONDS")
    return nowhere(first.join(again, near).select("a.id")).outputMode("append")


def sessions(sources: Sources, _: Settings) -> DataStreamWriter:
    """Count the orders of each customer's session."""
    session = f.session_window("timestamp", "5 seconds")
    late = _orders(sources).withWatermark("timestamp", "10 seconds")
    return nowhere(late.groupBy("customer", session).count()).outputMode("append")


def sliding(sources: Sources, _: Settings) -> DataStreamWriter:
    """Count orders in windows of 30 s, one every 10 s: each order is in three."""
    window = f.window("timestamp", "30 seconds", "10 seconds")
    late = _orders(sources).withWatermark("timestamp", "10 seconds")
    return nowhere(late.groupBy(window, "customer").count()).outputMode("update")


def both(sources: Sources, settings: Settings) -> DataStreamWriter:
    """Write each batch into two tables. Settings: ``sink``, the folder of them."""
    folder = Path(str(settings["sink"]))

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.persist()
        for table, rows in (("orders", batch), ("customers", batch.select("customer").distinct())):
            rows.write.mode("overwrite").parquet(str(folder / table / str(batch_id)))
        batch.unpersist()

    return _orders(sources).writeStream.foreachBatch(write)


def _orders(sources: Sources) -> DataFrame:
    number = f.get_json_object(f.col("value").cast("string"), "$.id").cast("long")
    customer = f.col("key").cast("string")
    return sources["orders"].select("timestamp", customer.alias("customer"), number.alias("id")).where("id >= 0")


def nowhere(frame: DataFrame) -> DataStreamWriter:
    """Run it, and keep nothing."""

    def write(batch: DataFrame, _: int) -> None:
        batch.write.format("noop").mode("overwrite").save()

    return frame.writeStream.foreachBatch(write)
