package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A batch read of Kafka, which each time that it is planned reads the cluster where the query is
 * that declares its topics. So a frame that was made once is never left behind by a move.
 *
 * <p>Offsets, times and partitions that the code names are those of the cluster that it names. They
 * are used there, and refused elsewhere: on another cluster they are other records.
 */
final class FollowingRead extends BaseRelation implements TableScan {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Options that name a place by a number. */
  private static final List<String> NUMBERS =
      Fixed.list(
          "assign",
          "startingTimestamp",
          "startingOffsetsByTimestamp",
          "endingTimestamp",
          "endingOffsetsByTimestamp");

  private static final List<String> OFFSETS = Fixed.list("startingOffsets", "endingOffsets");

  private final BaseRelation kafka;
  private final JobOptions job;

  FollowingRead(BaseRelation kafka, JobOptions job) {
    this.kafka = kafka;
    this.job = job;
  }

  @Override
  public RDD<Row> buildScan() {
    CaseInsensitiveStringMap given = job.under(Fixed.map());
    Set<String> named = topics(given);
    Optional<Beside.Query> found =
        Beside.declaring(Beside.Way.READS, named, given.get(JobOptions.SERVERS));
    if (!found.isPresent()) {
      Beside.sayOnce(
          "a batch reads " + JobOptions.read(given) + " from the cluster that the code names");
      return own();
    }
    Beside.Query query = found.get();
    String topics = String.join(",", named);
    String numbers = numbers(given);
    String cluster = query.cluster(Beside.Way.READS);
    if (query.isElsewhere(Beside.Way.READS) && !numbers.isEmpty()) {
      throw new IllegalStateException(
          "tideover: a batch read of "
              + topics
              + " names its place by "
              + numbers
              + ", which is that of another cluster, and "
              + query.name()
              + " is on "
              + cluster
              + ": it is not read. Use earliest and latest, or name the place there");
    }
    if (!query.isElsewhere(Beside.Way.READS)) {
      if (!numbers.isEmpty()) {
        Beside.sayOnce(
            "a batch reads "
                + topics
                + " by "
                + numbers
                + ": this read is refused when "
                + query.name()
                + " is on another cluster than "
                + cluster);
      }
      Map<String, String> ours = query.options(Beside.Way.READS);
      return ours.containsKey(SwitchProvider.ID) ? on(identified(given, ours)) : own();
    }
    Beside.sayOnce(
        "a batch reads " + topics + " from " + cluster + ", where " + query.name() + " is");
    return on(identified(given, renamed(named, query)));
  }

  /**
   * The options with the id that is pinned now, which may be newer than the declaration, and with
   * the reporters of the code.
   */
  static Map<String, String> identified(CaseInsensitiveStringMap given, Map<String, String> ours) {
    Map<String, String> all = new HashMap<>(ours);
    if (!ours.containsKey(SwitchProvider.ID)) {
      return all;
    }
    String pinned = Identity.pinned(ours.get(SwitchProvider.CLUSTER));
    if (pinned != null) {
      all.put(SwitchProvider.ID, pinned);
      all.put("kafka." + SwitchProvider.ID, pinned);
    }
    String reporters = given.get("kafka." + SameCluster.SETTING);
    if (reporters != null) {
      all.merge("kafka." + SameCluster.SETTING, reporters, (mine, own) -> own + "," + mine);
    }
    return all;
  }

  /** The consumers compare the id as well; offsets are listed by a client that does not. */
  private static void requireSame(CaseInsensitiveStringMap options) {
    Identity identity = new Identity(options.get(SwitchProvider.CLUSTER), options);
    try {
      identity.requireUnlessSilent();
    } catch (InterruptedException stopped) {
      throw Companion.<RuntimeException>undeclared(stopped);
    } finally {
      identity.close();
    }
  }

  private RDD<Row> own() {
    return ((TableScan) kafka).buildScan();
  }

  private RDD<Row> on(Map<String, String> ours) {
    if (ours.containsKey(SwitchProvider.ID)) {
      requireSame(job.under(ours));
    }
    try {
      RelationProvider provider =
          (RelationProvider)
              Class.forName(SparkBuild.CONNECTOR, true, kafka.getClass().getClassLoader())
                  .getDeclaredConstructor()
                  .newInstance();
      Map<String, String> all = new HashMap<>(job.under(ours).asCaseSensitiveMap());
      BaseRelation there = provider.createRelation(sqlContext(), PythonUtils.toScalaMap(all));
      return ((TableScan) there).buildScan();
    } catch (ReflectiveOperationException other) {
      throw new IllegalStateException("tideover: this Kafka connector cannot be opened", other);
    }
  }

  /** The topics that the code names; none where it names a pattern. */
  static Set<String> topics(CaseInsensitiveStringMap given) {
    return given.containsKey("assign")
        ? Beside.assigned(given.get("assign"))
        : Beside.topics(given.get("subscribe"));
  }

  /** The options with the names that the topics have there. */
  private static Map<String, String> renamed(Set<String> topics, Beside.Query query) {
    String there =
        topics.stream()
            .map(each -> query.named(Beside.Way.READS, each))
            .sorted()
            .collect(Collectors.joining(","));
    Map<String, String> all = new HashMap<>(query.options(Beside.Way.READS));
    all.put("subscribe", there);
    return all;
  }

  /** The options that name a place which is another one elsewhere; empty: none does. */
  static String numbers(CaseInsensitiveStringMap given) {
    List<String> found = new java.util.ArrayList<>();
    NUMBERS.stream().filter(given::containsKey).forEach(found::add);
    OFFSETS.stream()
        .filter(each -> given.containsKey(each) && isNumber(given.get(each)))
        .forEach(found::add);
    return String.join(", ", found);
  }

  /** Whether any partition has an offset of its own; -1 and -2 are latest and earliest. */
  private static boolean isNumber(String offsets) {
    if (!offsets.trim().startsWith("{")) {
      return false;
    }
    try {
      for (JsonNode partitions : JSON.readTree(offsets)) {
        if (StreamSupport.stream(partitions.spliterator(), false)
            .anyMatch(each -> each.asLong() >= 0)) {
          return true;
        }
      }
      return false;
    } catch (JsonProcessingException unreadable) {
      return true;
    }
  }

  @Override
  public SQLContext sqlContext() {
    return kafka.sqlContext();
  }

  @Override
  public StructType schema() {
    return kafka.schema();
  }

  @Override
  public long sizeInBytes() {
    return kafka.sizeInBytes();
  }

  @Override
  public boolean needConversion() {
    return kafka.needConversion();
  }

  @Override
  public Filter[] unhandledFilters(Filter[] filters) {
    return kafka.unhandledFilters(filters);
  }

  @Override
  public String toString() {
    return kafka.toString();
  }
}
