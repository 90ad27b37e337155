package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class BesideTest {
  private static final String EAST = "e1:9092,e2:9092";
  private static final String WEST = "w1:9092";

  @TempDir private Path folder;
  private volatile boolean over;
  private volatile JsonNode answer;
  private Thread attendant;

  @BeforeEach
  void begin() {
    Beside.begin(60_000);
  }

  @AfterEach
  void end() throws Exception {
    over = true;
    if (attendant != null) {
      attendant.join();
    }
  }

  /** Answers each batch with what was declared last. */
  private void declare(JsonNode... queries) throws Exception {
    answer = new ObjectMapper().createArrayNode().addAll(java.util.List.of(queries));
    Beside.declare(answer, 0);
    if (attendant == null) {
      attendant =
          new Thread(
              () -> {
                while (!over) {
                  if (BesideAnswers.wanted() > 0) {
                    Beside.declare(answer, BesideAnswers.wanted());
                  }
                  Thread.onSpinWait();
                }
              });
      attendant.start();
    }
  }

  private static JsonNode json(String text) throws Exception {
    return new ObjectMapper().readTree(text.replace('\'', '"'));
  }

  /** A query whose first cluster is east. */
  private static JsonNode query(String name, String cluster) throws Exception {
    return query(name, cluster, "prices");
  }

  private static JsonNode query(String name, String cluster, String... reads) throws Exception {
    String servers =
        cluster.equals("east") ? "" : ", 'kafka.bootstrap.servers': '" + cluster + ":1'";
    StringBuilder names = new StringBuilder();
    for (String each : reads) {
      names.append(", 'topic:").append(each).append("': '").append(each).append('\'');
    }
    return json(
        String.format(
            "{'query': '%s', 'reads': ['%s'], 'writes': ['out'], 'home': ['e1:9092', 'e2:9092'],"
                + " 'follows': true, 'options': {'@reads': {'tideover.cluster': '%s'%s%s},"
                + " '@writes': {'tideover.cluster': '%s'%s}}}",
            name, String.join("', '", reads), cluster, servers, names, cluster, servers));
  }

  private JsonNode unplaced(String key, String value) throws Exception {
    return json(
        String.format(
            "{'query': 'a', 'checkpoint': '%s', 'reads': ['prices'], 'writes': ['out'],"
                + " 'home': ['e1:9092'], '%s': '%s'}",
            folder, key, value));
  }

  private static Optional<String> reads(String... topics) {
    return found(Beside.Way.READS, EAST, topics);
  }

  private static Optional<String> found(Beside.Way way, String servers, String... topics) {
    return Beside.declaring(way, Set.of(topics), servers).map(each -> each.cluster(way));
  }

  @Test
  void onlyWhatIsDeclaredFollows() throws Exception {
    declare(query("a", "west"));
    assertEquals(Optional.of("west"), reads("prices"));
    assertEquals(Optional.empty(), reads("prices", "orders"), "one of them is not declared");
    assertEquals(Optional.empty(), reads(), "a pattern, or the topics of a column");
    assertEquals(Optional.empty(), found(Beside.Way.WRITES, EAST, "prices"));
  }

  @Test
  void onlyWhatNamesTheServersOfTheQueryFollows() throws Exception {
    declare(query("a", "west"));
    assertEquals(Optional.of("west"), found(Beside.Way.WRITES, "E2:9092, e1:9092", "out"));
    assertEquals(Optional.of("west"), found(Beside.Way.WRITES, "PLAINTEXT://e2:9092", "out"));
    assertEquals(Optional.empty(), found(Beside.Way.WRITES, "analytics:9092", "out"));
    assertEquals(Optional.empty(), found(Beside.Way.WRITES, WEST, "out"), "a second copy there");
    assertEquals(Optional.empty(), found(Beside.Way.READS, WEST, "prices"), "compared with east");
    assertEquals(Optional.empty(), found(Beside.Way.WRITES, null, "out"));
    Beside.reads("a", "alias:9092");
    assertEquals(Optional.of("west"), found(Beside.Way.WRITES, "alias:9092", "out"));
  }

  @Test
  void queriesOnDifferentClustersCannotDeclareOneTopic() throws Exception {
    declare(query("a", "west"), query("b", "west"));
    assertEquals(Optional.of("west"), reads("prices"));
    declare(query("a", "west"), query("b", "east"));
    IllegalStateException refused =
        assertThrows(IllegalStateException.class, () -> reads("prices"));
    assertTrue(refused.getMessage().contains("by a on west and b on east"), refused.getMessage());
  }

  @Test
  void queriesInOnePlaceMayDeclareOtherTopicsBesideACommonOne() throws Exception {
    declare(query("a", "west", "prices"), query("b", "west", "prices", "customers"));
    assertEquals(Optional.of("west"), reads("prices"));
    declare(query("a", "east", "prices"), query("b", "east", "prices", "customers"));
    assertEquals(Optional.of("east"), reads("prices"));
  }

  @Test
  void oneTopicOfTwoFirstClustersBelongsToTheServersOfTheCode() throws Exception {
    String text = query("b", "east").toString().replace("\"e1:9092\",\"e2:9092\"", "\"w1:9092\"");
    declare(query("a", "west"), json(text));
    assertEquals(Optional.of("west"), reads("prices"));
    assertEquals(Optional.of("east"), found(Beside.Way.READS, WEST, "prices"));
  }

  @Test
  void aRunThatWasAdmittedKnowsItBetterThanTheAttendant() throws Exception {
    Hold.follow("beside");
    Hold hold = Hold.of("beside");
    boolean[] runs = {true};
    Beside.admit(query("a", "east"), hold, () -> runs[0]);
    declare(query("a", "west"));
    assertEquals(Optional.of("east"), reads("prices"));
    assertFalse(Hold.mayLeave("beside"), "its batch writes to one cluster");
    hold.hold();
    Hold.end(
        "beside",
        4,
        "{\"orders\": {}, \"@reads\": {\"tideover.cluster\": \"north\","
            + " \"kafka.bootstrap.servers\": \"n:1\"}}");
    assertEquals(Optional.of("north"), reads("prices"));
    assertTrue(Beside.of("a").get().isElsewhere(Beside.Way.READS));
    runs[0] = false;
    assertEquals(Optional.of("west"), reads("prices"), "it has ended, and was moved since");
  }

  @Test
  void aBatchOfAHeldQueryWaitsAndOneOfAnotherQueryDoesNot() throws Exception {
    JsonNode other = query("b", "west", "customers");
    declare(unplaced("waits", "operation op holds a"), other);
    assertEquals(Optional.of("west"), reads("customers"));
    CompletableFuture<Optional<String>> read = CompletableFuture.supplyAsync(() -> reads("prices"));
    Thread.sleep(300);
    assertFalse(read.isDone());
    declare(query("a", "west"), other);
    assertEquals(Optional.of("west"), read.get());
  }

  @Test
  void aBatchWaitsWhileARunWaitsForItsMove() throws Exception {
    Hold.follow("moving");
    Hold hold = Hold.of("moving");
    Beside.admit(query("a", "east"), hold, () -> true);
    declare(query("a", "east"));
    hold.hold();
    Thread run = new Thread(hold::await);
    run.start();
    while (!hold.waits()) {
      Thread.onSpinWait();
    }
    CompletableFuture<Optional<String>> read = CompletableFuture.supplyAsync(() -> reads("prices"));
    Thread.sleep(300);
    assertFalse(read.isDone());
    Hold.end("moving", 4, "{\"@reads\": {\"tideover.cluster\": \"north\"}}");
    assertEquals(Optional.of("north"), read.get());
    run.join();
  }

  @Test
  void aBatchOfAnApplicationThatIsRefusedFailsWithTheReason() throws Exception {
    declare(unplaced("refused", "shop is already running"));
    assertEquals(
        "tideover: shop is already running",
        assertThrows(IllegalStateException.class, () -> reads("prices")).getMessage());
    assertEquals(Optional.empty(), reads("orders"));
  }

  private void move() throws Exception {
    Files.createDirectories(folder.resolve(PlantedEpoch.FOLDER).resolve("4-op.1"));
  }

  @Test
  void withoutAnAnswerABatchOfAMovedQueryFails() throws Exception {
    Beside.begin(10);
    Beside.declare(
        new ObjectMapper().createArrayNode().add(unplaced("waits", "the store is away")), 0);
    assertEquals(Optional.empty(), reads("prices"), "it was never moved");
    move();
    String said = assertThrows(IllegalStateException.class, () -> reads("prices")).getMessage();
    assertTrue(said.startsWith("tideover: a was moved before"), said);
    assertEquals(Optional.empty(), reads("orders"), "nothing declares it");
  }

  @Test
  void withoutAnAttendantTheConfigurationNamesTheCheckpoints() throws Exception {
    Beside.begin(10);
    Path config = folder.resolve("tideover.yaml");
    DeclaredInFile.begin(config.toString(), "shop");
    assertThrows(IllegalStateException.class, () -> reads("prices"), "there is no file");
    Files.writeString(
        config,
        "queries:\n  a:\n    attach: shop\n    checkpoint: .\n    batch_reads: [prices]\n"
            + "  b: {attach: other, checkpoint: ., batch_reads: [customers]}\n");
    assertEquals(Optional.empty(), reads("prices"), "it was never moved");
    move();
    assertThrows(IllegalStateException.class, () -> reads("prices"));
    assertEquals(Optional.empty(), reads("customers"), "it belongs to another application");
  }

  private static String numbers(String... options) {
    return FollowingRead.numbers(new CaseInsensitiveStringMap(Map.of(options[0], options[1])));
  }

  @Test
  void offsetsTimesAndPartitionsOfTheCodeAreNumbersOfOneCluster() {
    assertEquals("", numbers("startingOffsets", "earliest"));
    assertEquals("", numbers("endingoffsets", "{\"prices\":{\"0\":-1}}"));
    assertEquals("startingOffsets", numbers("STARTINGOFFSETS", "{\"prices\":{\"0\":-2,\"1\":7}}"));
    assertEquals("endingOffsets", numbers("endingOffsets", "{7"));
    assertEquals("startingTimestamp", numbers("startingtimestamp", "1700000000000"));
    assertEquals(
        "endingOffsetsByTimestamp", numbers("endingOffsetsByTimestamp", "{\"prices\":{\"0\":1}}"));
    assertEquals("assign", numbers("assign", "{\"prices\":[0]}"));
  }
}
