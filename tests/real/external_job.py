"""A job without anything of Tideover's in it, of two queries: count and sum of all orders by partition, and by rest.

`external_job.py BOOTSTRAP FOLDER CHECKPOINT CHECKPOINT` reads the topic `orders` and keeps `FOLDER/totals.json` and
`FOLDER/rests.json`, and the same in the state of each query.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, folder: Path, *checkpoints: str) -> None:
    """Run both queries until one fails."""
    spark = SparkSession.builder.appName("external").getOrCreate()
    for name, group, checkpoint in zip(("totals", "rests"), ("partition", "id % 3"), checkpoints, strict=True):
        start(spark, bootstrap, folder / name, f.expr(group), checkpoint)
    spark.streams.awaitAnyTermination()


def start(spark: SparkSession, bootstrap: str, sums: Path, group: Column, checkpoint: str) -> None:
    """One query."""
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = f.from_json(f.col("value").cast("string"), "id LONG, amount LONG").alias("order")
    orders = records.select("partition", order).select("partition", "order.*").where("id >= 0")

    def replace(frame: DataFrame, _: int) -> None:
        path, draft = sums.with_suffix(".json"), sums.with_suffix(".new")
        totals = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
        totals |= {str(row["key"]): [row["orders"], row["ids"]] for row in frame.collect()}
        draft.write_text(json.dumps(totals), encoding="ascii")
        draft.replace(path)

    counted = orders.groupBy(group.alias("key")).agg(f.count("*").alias("orders"), f.sum("id").alias("ids"))
    writer = counted.writeStream.outputMode("update").foreachBatch(replace)
    writer = writer.option("checkpointLocation", checkpoint)
    writer.trigger(processingTime="500 milliseconds").start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
