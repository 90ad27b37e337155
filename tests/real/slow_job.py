"""A job of Spark whose batches can be made to last: it knows nothing of Tideover.

`slow_job.py BOOTSTRAP FOLDER` reads the topic `orders` and writes the ids of each batch to `FOLDER/batches/ID`, whole
or not at all. While there is a file `FOLDER/wait`, a batch waits before it writes, and makes `FOLDER/waits`. The job
has finished once there is a file `FOLDER/end`.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

LOOK_SECONDS = 0.1


def main(bootstrap: str, folder: Path) -> None:
    """Run the query until it fails or is no longer wanted."""
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    spark = SparkSession.builder.appName("slow").getOrCreate()
    servers = {"kafka.bootstrap.servers": bootstrap}
    orders = spark.readStream.format("kafka").options(**servers, subscribe="orders", startingOffsets="earliest").load()
    ids = orders.select(f.from_json(f.col("value").cast("string"), "id LONG").getField("id").alias("id"))

    def write(frame: DataFrame, batch: int) -> None:
        found = [row["id"] for row in frame.where("id >= 0").collect()]
        while (folder / "wait").exists():
            (folder / "waits").touch()
            time.sleep(LOOK_SECONDS)
        draft = folder / f"batch-{batch}.new"
        draft.write_text("".join(f"{each}\n" for each in found), encoding="ascii")
        draft.replace(folder / "batches" / str(batch))

    writer = ids.writeStream.foreachBatch(write).queryName("slow")
    writer = writer.option("checkpointLocation", str(folder / "checkpoints" / "slow"))
    query = writer.trigger(processingTime="500 milliseconds").start()
    while not query.awaitTermination(1):
        if (folder / "end").exists():
            query.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
