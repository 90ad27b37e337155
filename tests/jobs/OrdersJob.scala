import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path, Paths, StandardCopyOption}

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{DataStreamWriter, StreamingQuery, Trigger}

/** The job of `orders_job.py`, in Scala: it knows nothing of Tideover. */
object OrdersJob {

  /** Runs both queries until one of them fails; with `once` until they have read all. */
  def main(arguments: Array[String]): Unit = {
    val folder = Paths.get(arguments(1))
    val once = arguments.contains("once")
    val spark = SparkSession.builder().appName("orders").getOrCreate()
    val orders = spark.readStream
      .format("kafka")
      .option("kafka.bootstrap.servers", arguments(0))
      .option("subscribe", "orders")
      .option("startingOffsets", "earliest")
      .load()
      .selectExpr("partition", "from_json(CAST(value AS STRING), 'id LONG').id AS id")
      .where("id >= 0")
    val totals = orders.groupBy("partition").agg(expr("count(*)"), expr(hashed(1)), expr(hashed(9)))
    val archive: (DataFrame, Long) => Unit = (frame, batch) =>
      keep(folder.resolve("archive").resolve(batch.toString), frame.select("id").collect().toSeq.map(_.getLong(0)))
    val replace: (DataFrame, Long) => Unit = (frame, _) =>
      frame.collect().foreach { row =>
        keep(folder.resolve("totals").resolve(row.getInt(0).toString), (1 to 3).map(row.getLong))
      }

    def start(writer: DataStreamWriter[Row], name: String): StreamingQuery = writer
      .queryName(name)
      .option("checkpointLocation", folder.resolve("checkpoints").resolve(name).toString)
      .trigger(if (once) Trigger.AvailableNow() else Trigger.ProcessingTime("500 milliseconds"))
      .start()

    val queries = Seq(
      start(orders.writeStream.foreachBatch(archive), "archive"),
      start(totals.writeStream.outputMode("update").foreachBatch(replace), "totals")
    )
    if (!once) spark.streams.awaitAnyTermination()
    queries.foreach(_.awaitTermination())
  }

  /** Sums eight hexadecimal digits of the MD5 of each id, as numbers. */
  private def hashed(start: Int): String =
    s"sum(CAST(conv(substring(md5(CAST(CAST(id AS STRING) AS BINARY)), $start, 8), 16, 10) AS LONG))"

  /** Writes a file, a number a line, in place of the one before. */
  private def keep(path: Path, numbers: Seq[Long]): Unit = {
    Files.createDirectories(path.getParent)
    val draft = path.resolveSibling("." + path.getFileName)
    Files.write(draft, numbers.map(each => s"$each\n").mkString.getBytes(StandardCharsets.US_ASCII))
    Files.move(draft, path, StandardCopyOption.ATOMIC_MOVE)
  }
}
