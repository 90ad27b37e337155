"""A job of Spark that writes to Kafka and reads it as a batch: it knows nothing of Tideover.

`kafka_job.py BOOTSTRAP FOLDER` reads the topic `orders`. `copies` writes each record to the topic `copies` by a
streaming sink, `aside` to the topic `aside`. `notes` writes its ids to the topic `notes` in each of its batches, and
reads `prices` there twice: from the earliest to the latest offset, by a frame that was made once, and from offset 0.
`FOLDER/prices.txt` has a line for each read: who read, and how many records or `refused`.
"""

import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


def main(bootstrap: str, folder: Path) -> None:
    """Run all three until one of them fails."""
    folder.mkdir(parents=True, exist_ok=True)
    spark = SparkSession.builder.appName("kafka job").getOrCreate()
    servers = {"kafka.bootstrap.servers": bootstrap}
    orders = spark.readStream.format("kafka").options(**servers, subscribe="orders", startingOffsets="earliest").load()
    prices = spark.read.format("kafka").options(**servers, subscribe="prices").load()
    first = spark.read.format("kafka").options(**servers, subscribe="prices", startingOffsets='{"prices":{"0":0}}')

    def note(reader: str, frame: DataFrame) -> None:
        try:
            answer = str(frame.count())
        except (PySparkException, Py4JJavaError) as error:
            answer = "refused" if "which is that of another cluster" in str(error) else str(error)
        with (folder / "prices.txt").open("a", encoding="utf-8") as file:
            file.write(f"{reader} {answer}\n")

    def write(frame: DataFrame, _: int) -> None:
        frame.write.format("kafka").options(**servers, topic="notes").save()
        note("batch", prices)
        note("numbers", first.load())

    def start(writer: DataStreamWriter, name: str) -> StreamingQuery:
        writer = writer.queryName(name).option("checkpointLocation", str(folder / "checkpoints" / name))
        return writer.trigger(processingTime="500 milliseconds").start()

    def sink(topic: str) -> DataStreamWriter:
        return orders.select("value").writeStream.format("kafka").options(**servers, topic=topic)

    note("start", prices)
    start(sink("copies"), "copies")
    start(sink("aside"), "aside")
    start(orders.select("value").writeStream.foreachBatch(write), "notes")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
