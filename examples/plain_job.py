"""An ordinary job of Spark: it knows nothing of Tideover, and names its broker, topic and checkpoints itself.

`plain_job.py BOOTSTRAP FOLDER [once]` reads the topic `orders` (JSON `{"id", "amount", "at_ms"}`) into two queries.
`archive` appends each id to `FOLDER/archive.txt`, and `totals` keeps count and sum of all orders by partition in
`FOLDER/totals.json`. With `once` both read what is there and end, as under a scheduler. docs/adopt.md shows how it is
started so that Tideover moves it.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


def main(bootstrap: str, folder: Path, *, once: bool) -> None:
    """Run both queries until one of them fails; with ``once`` until they have read what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    spark = SparkSession.builder.appName("shop").getOrCreate()
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = f.from_json(f.col("value").cast("string"), "id LONG, amount LONG").alias("order")
    orders = records.select("partition", order).select("partition", "order.*").where("id >= 0")

    def append(frame: DataFrame, batch: int) -> None:
        ids = [row["id"] for row in frame.select("id").collect()]
        with (folder / "archive.txt").open("a", encoding="ascii") as file:
            file.write("".join(f"{batch} {each}\n" for each in ids))

    def replace(frame: DataFrame, _: int) -> None:
        path, draft = folder / "totals.json", folder / "totals.json.new"
        totals = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
        totals |= {str(row["partition"]): [row["orders"], row["ids"]] for row in frame.collect()}
        draft.write_text(json.dumps(totals), encoding="ascii")
        draft.replace(path)

    def start(writer: DataStreamWriter, name: str) -> StreamingQuery:
        writer = writer.queryName(name).option("checkpointLocation", str(folder / "checkpoints" / name))
        return (
            writer.trigger(availableNow=True).start()
            if once
            else writer.trigger(processingTime="500 milliseconds").start()
        )

    counted = orders.groupBy("partition").agg(f.count("*").alias("orders"), f.sum("id").alias("ids"))
    queries = [
        start(orders.writeStream.foreachBatch(append), "archive"),
        start(counted.writeStream.outputMode("update").foreachBatch(replace), "totals"),
    ]
    if once:
        for query in queries:
            query.awaitTermination()
    else:
        spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), once="once" in sys.argv[3:])
