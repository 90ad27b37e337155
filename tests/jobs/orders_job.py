"""A job of Spark that knows nothing of Tideover, and whose sinks a judge compares. Java and Scala have the same beside.

`orders_job.py BOOTSTRAP FOLDER [once]` reads the topic `orders` (JSON `{"id", "amount", "at_ms"}`) into two queries.
`archive` keeps the ids of each batch in `FOLDER/archive/BATCH`. `totals` keeps in `FOLDER/totals/PARTITION` how many
orders there are and two sums of hashes of their ids (`lab.judge.weigh`). Each file appears whole. With `once` both read
what is there and end, as under a scheduler.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


def main(bootstrap: str, folder: Path, *, once: bool) -> None:
    """Run both queries until one of them fails; with ``once`` until they have read what is there."""
    spark = SparkSession.builder.appName("orders").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = f.from_json(f.col("value").cast("string"), "id LONG, amount LONG").alias("order")
    orders = records.select("partition", order).select("partition", "order.id").where("id >= 0")
    totals = orders.groupBy("partition").agg(f.count("*"), f.sum(hashed(1)), f.sum(hashed(9)))

    def archive(frame: DataFrame, batch: int) -> None:
        keep(folder / "archive" / str(batch), (row["id"] for row in frame.select("id").collect()))

    def replace(frame: DataFrame, _: int) -> None:
        for partition, *sums in frame.collect():
            keep(folder / "totals" / str(partition), sums)

    def start(writer: DataStreamWriter, name: str) -> StreamingQuery:
        writer = writer.queryName(name).option("checkpointLocation", str(folder / "checkpoints" / name))
        if once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime="500 milliseconds").start()

    queries = [
        start(orders.writeStream.foreachBatch(archive), "archive"),
        start(totals.writeStream.outputMode("update").foreachBatch(replace), "totals"),
    ]
    if not once:
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()


def hashed(start: int) -> Column:
    """Eight hexadecimal digits of the MD5 of an id, as a number."""
    return f.conv(f.substring(f.md5(f.col("id").cast("string")), start, 8), 16, 10).cast("long")


def keep(path: Path, numbers: Iterable[object]) -> None:
    """Write a file, a number a line, in place of the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text("".join(f"{each}\n" for each in numbers), encoding="ascii")
    draft.replace(path)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), once="once" in sys.argv[3:])
