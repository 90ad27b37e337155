"""A job without anything of Tideover's in it: count and sum of all orders by partition, in its state and in a file.

`external_job.py BOOTSTRAP FOLDER` reads the topic `orders` and keeps `FOLDER/totals.json`.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, folder: Path) -> None:
    """Run the query until it fails."""
    spark = SparkSession.builder.appName("external").getOrCreate()
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
        path, draft = folder / "totals.json", folder / "totals.json.new"
        totals = json.loads(path.read_text(encoding="ascii")) if path.exists() else {}
        totals |= {str(row["partition"]): [row["orders"], row["ids"]] for row in frame.collect()}
        draft.write_text(json.dumps(totals), encoding="ascii")
        draft.replace(path)

    counted = orders.groupBy("partition").agg(f.count("*").alias("orders"), f.sum("id").alias("ids"))
    writer = counted.writeStream.outputMode("update").foreachBatch(replace)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(processingTime="500 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
