import static org.apache.spark.sql.functions.expr;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;

/** The job of {@code orders_job.py}, in Java: it knows nothing of Tideover. */
public final class OrdersJob {
  private OrdersJob() {}

  /** Runs both queries until one of them fails; with {@code once} until they have read all. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Paths.get(arguments[1]);
    boolean once = Arrays.asList(arguments).contains("once");
    SparkSession spark = SparkSession.builder().appName("orders").getOrCreate();
    Dataset<Row> orders =
        spark
            .readStream()
            .format("kafka")
            .option("kafka.bootstrap.servers", arguments[0])
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("partition", "from_json(CAST(value AS STRING), 'id LONG').id AS id")
            .where("id >= 0");
    Dataset<Row> totals =
        orders.groupBy("partition").agg(expr("count(*)"), expr(hashed(1)), expr(hashed(9)));
    VoidFunction2<Dataset<Row>, Long> archive =
        (frame, batch) ->
            keep(
                folder.resolve("archive").resolve(batch.toString()),
                frame.select("id").collectAsList());
    VoidFunction2<Dataset<Row>, Long> replace =
        (frame, batch) -> {
          for (Row row : frame.collectAsList()) {
            String lines = row.getLong(1) + "\n" + row.getLong(2) + "\n" + row.getLong(3) + "\n";
            write(folder.resolve("totals").resolve(Integer.toString(row.getInt(0))), lines);
          }
        };
    StreamingQuery first =
        start(orders.writeStream().foreachBatch(archive), folder, "archive", once);
    StreamingQuery second =
        start(
            totals.writeStream().outputMode("update").foreachBatch(replace),
            folder,
            "totals",
            once);
    if (!once) {
      spark.streams().awaitAnyTermination();
    }
    first.awaitTermination();
    second.awaitTermination();
  }

  private static StreamingQuery start(
      DataStreamWriter<Row> writer, Path folder, String name, boolean once) throws Exception {
    return writer
        .queryName(name)
        .option("checkpointLocation", folder.resolve("checkpoints").resolve(name).toString())
        .trigger(once ? Trigger.AvailableNow() : Trigger.ProcessingTime("500 milliseconds"))
        .start();
  }

  /** Sums eight hexadecimal digits of the MD5 of each id, as numbers. */
  private static String hashed(int start) {
    String digits = "substring(md5(CAST(CAST(id AS STRING) AS BINARY)), " + start + ", 8)";
    return "sum(CAST(conv(" + digits + ", 16, 10) AS LONG))";
  }

  private static void keep(Path path, List<Row> ids) throws IOException {
    write(path, ids.stream().map(row -> row.getLong(0) + "\n").collect(Collectors.joining()));
  }

  /** Writes a file in place of the one before. */
  private static void write(Path path, String text) throws IOException {
    Files.createDirectories(path.getParent());
    Path draft = path.resolveSibling("." + path.getFileName());
    Files.write(draft, text.getBytes(StandardCharsets.US_ASCII));
    Files.move(draft, path, StandardCopyOption.ATOMIC_MOVE);
  }
}
