package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class KafkaBatchesTest {
  private static final String OWN = "e:9092";

  /** A query that is on west, whose connection has a key. */
  @BeforeEach
  void declare() throws Exception {
    Beside.begin(60_000);
    String ours =
        "{'tideover.cluster': 'west', 'kafka.bootstrap.servers': 'w:9092',"
            + " 'kafka.ssl.keystore.key': '-----BEGIN PRIVATE KEY-----'}";
    String query =
        "{'query': 'a', 'reads': ['prices'], 'writes': ['out'], 'home': ['e:9092'],"
            + " 'options': {'@reads': %s, '@writes': %s}}";
    var given = new ObjectMapper().readTree(String.format(query, ours, ours).replace('\'', '"'));
    Hold.follow("batches");
    Beside.declare(new ObjectMapper().createArrayNode().add(given), 0);
    Beside.admit(given, Hold.of("batches"), () -> true);
  }

  private static Map<String, String> options(String... words) {
    Map<String, String> made = new HashMap<>();
    for (int each = 0; each < words.length; each += 2) {
      made.put(words[each], words[each + 1]);
    }
    return made;
  }

  @Test
  void thePlanOfARedirectedWriteShowsNothingOfItsConnection() throws Exception {
    var kafka =
        (CreatableRelationProvider)
            Class.forName(SparkBuild.CONNECTOR).getDeclaredConstructor().newInstance();
    var plan =
        new SaveIntoDataSourceCommand(
            new LocalRelation(none(), none(), false, scala.Option.empty()),
            kafka,
            PythonUtils.toScalaMap(options("topic", "out", "kafka.bootstrap.servers", OWN)),
            SaveMode.Append);
    LogicalPlan following = new KafkaBatches().applyOrElse(plan, null);
    assertFalse(new KafkaBatches().isDefinedAt(following), "it is found once");
    assertEquals(plan.simpleString(100), following.simpleString(100));
    assertFalse(following.treeString().contains("w:9092"));
    assertTrue(following.productElement(1) instanceof FollowingWrite);
  }

  @Test
  void aRedirectedWriteGetsItsConnectionAsItRuns() {
    Map<String, String> got = new HashMap<>();
    CreatableRelationProvider kafka =
        (context, mode, given, data) -> {
          got.putAll(KafkaBatches.asJava(given));
          return null;
        };
    var given =
        PythonUtils.toScalaMap(
            options("Topic", "out", "kafka.bootstrap.servers", OWN, "kafka.acks", null));
    new FollowingWrite(kafka).createRelation(null, SaveMode.Append, given, null);
    assertEquals("w:9092", got.get("kafka.bootstrap.servers"));
    assertEquals("-----BEGIN PRIVATE KEY-----", got.get("kafka.ssl.keystore.key"));
    assertTrue(got.containsKey("kafka.acks"), "without a value, as the code has it");
    assertEquals(
        Map.of(),
        FollowingWrite.ours(
            new JobOptions(options("topic", "out", "kafka.bootstrap.servers", "third:9092"))));
  }

  private static <T> scala.collection.immutable.Seq<T> none() {
    return scala.collection.immutable.List$.MODULE$.empty();
  }

  private static FollowingRead read(String... words) {
    return new FollowingRead(new Home(), new JobOptions(options(words)));
  }

  @Test
  void aReadByPartitionsIsRefusedElsewhere() {
    String servers = "kafka.bootstrap.servers";
    FollowingRead assigned = read("assign", "{\"prices\":[0]}", servers, OWN);
    String said = assertThrows(IllegalStateException.class, assigned::buildScan).getMessage();
    assertTrue(said.contains("a batch read of prices names its place by assign"), said);
    read("assign", "{\"prices\":[0]}", servers, "w:9092").buildScan();
    read("assign", "{\"orders\":[0]}", servers, OWN).buildScan();
    read("assign", "[", servers, OWN, "includeHeaders", null).buildScan();
    assertEquals(Set.of("a", "b"), Beside.assigned("{\"a\":[0],\"b\":[1]}"));
  }

  @Test
  void aReadComparesTheIdThatIsPinnedNowBesideTheReportersOfTheCode() {
    Map<String, String> ours =
        options(
            "tideover.cluster", "lake",
            "tideover.cluster.id", "A",
            "kafka.tideover.cluster.id", "A",
            "kafka.metric.reporters", "tideover.SameCluster");
    var given = new JobOptions(options("kafka.metric.reporters", "own.Reporter")).under(Map.of());
    assertEquals("A", FollowingRead.identified(given, ours).get("kafka.tideover.cluster.id"));
    Identity.pin("lake", "B");
    Map<String, String> found = FollowingRead.identified(given, ours);
    assertEquals("B", found.get("tideover.cluster.id"));
    assertEquals("B", found.get("kafka.tideover.cluster.id"));
    assertEquals("own.Reporter,tideover.SameCluster", found.get("kafka.metric.reporters"));
    assertEquals(Map.of(), FollowingRead.identified(given, Map.of()));
  }

  /** Spark's own read, which finds nothing. */
  private static final class Home extends BaseRelation implements TableScan {
    @Override
    public RDD<Row> buildScan() {
      return null;
    }

    @Override
    public SQLContext sqlContext() {
      return null;
    }

    @Override
    public StructType schema() {
      return new StructType();
    }
  }
}
