"""A job without anything of Tideover's in it, of two queries: count and sum of all orders by partition, and by rest.

`external_job.py BOOTSTRAP FOLDER` reads the topic `orders` and keeps `FOLDER/totals.json` and `FOLDER/rests.json`, and
the same in the state of each query.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, folder: Path) -> None:
    """Run both queries until one fails."""
    spark = SparkSession.builder.appName("external").getOrCreate()
    for name, group in (("totals", f.col("partition")), ("rests", f.expr("id % 3"))):
        start(spark, bootstrap, folder, name, group)
    spark.streams.awaitAnyTermination()


def start(spark: SparkSession, bootstrap: str, folder: Path, name: str, group: Column) -> None:
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
        path, draft = folder / f"{name}.json", folder / f"{name}.json.new"
        totals = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
        totals |= {str(row["key"]): [row["orders"], row["ids"]] for row in frame.collect()}
        draft.write_text(json.dumps(totals), encoding="ascii")
        draft.replace(path)

    counted = orders.groupBy(group.alias("key")).agg(f.count("*").alias("orders"), f.sum("id").alias("ids"))
    writer = counted.writeStream.outputMode("update").foreachBatch(replace)
    writer = writer.option("checkpointLocation", str(folder / "checkpoints" / name))
    writer.trigger(processingTime="500 milliseconds").start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
