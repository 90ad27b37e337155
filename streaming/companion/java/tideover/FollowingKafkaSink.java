package tideover;

import java.util.HashMap;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka sink, whose batches each go to the cluster where their query is. Spark makes a
 * write of its own for each batch.
 */
final class FollowingKafkaSink implements SupportsWrite {
  private final SupportsWrite kafka;
  private final Beside.Query query;
  private final AtomicReference<String> said;

  FollowingKafkaSink(SupportsWrite kafka, Beside.Query query, AtomicReference<String> said) {
    this.kafka = kafka;
    this.query = query;
    this.said = said;
  }

  FollowingKafkaSink(SupportsWrite kafka, Beside.Query query) {
    this(kafka, query, new AtomicReference<>());
  }

  @Override
  public String name() {
    return kafka.name();
  }

  @Override
  @SuppressWarnings("deprecation") // what replaces it is not in all versions
  public StructType schema() {
    return kafka.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return kafka.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    String topic = info.options().get("topic");
    Set<String> written = query.topics().get(Beside.Way.WRITES);
    if (!Beside.topics(topic).equals(written)) {
      throw new IllegalArgumentException(
          "tideover: "
              + query.name()
              + " declares output.topic "
              + String.join(", ", written)
              + ", and its sink "
              + (topic == null ? "has no option topic" : "writes to " + topic)
              + ": correct one of them");
    }
    requireOwn(info.options().get(JobOptions.SERVERS));
    String cluster = query.cluster(Beside.Way.WRITES);
    if (!cluster.equals(said.getAndSet(cluster))) {
      Attached.say(query.name() + " writes " + topic + " to " + cluster);
    }
    JobOptions job = new JobOptions(new HashMap<>(info.options().asCaseSensitiveMap()));
    return kafka.newWriteBuilder(new Info(info, job.under(query.options(Beside.Way.WRITES))));
  }

  /** A second copy on another cluster, or one for others, does not follow the query. */
  private void requireOwn(String servers) {
    String there = query.options(Beside.Way.WRITES).get(JobOptions.SERVERS);
    boolean isThere =
        JobOptions.servers(servers).stream().anyMatch(JobOptions.servers(there)::contains);
    if (!isThere && !query.owns(servers)) {
      throw new IllegalArgumentException(
          "tideover: "
              + query.name()
              + " declares an output that follows it, and its sink names "
              + servers
              + ", which are no servers of its first cluster: remove output, or list them under"
              + " bootstrap of that cluster");
    }
  }

  /** As Spark names it in its reports. */
  @Override
  public String toString() {
    return kafka.toString();
  }

  private static final class Info implements LogicalWriteInfo {
    private final LogicalWriteInfo given;
    private final CaseInsensitiveStringMap options;

    Info(LogicalWriteInfo given, CaseInsensitiveStringMap options) {
      this.given = given;
      this.options = options;
    }

    @Override
    public CaseInsensitiveStringMap options() {
      return options;
    }

    @Override
    public String queryId() {
      return given.queryId();
    }

    @Override
    public StructType schema() {
      return given.schema();
    }
  }
}
