package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class BesideTest {
  @BeforeEach
  void begin() {
    Beside.begin(60_000);
  }

  private static JsonNode query(String name, String cluster) throws Exception {
    String text =
        "{'query': '%s', 'reads': ['prices'], 'writes': ['out'], 'follows': true, 'options':"
            + " {'@reads': {'tideover.cluster': '%s'}, '@writes': {'tideover.cluster': '%s'}}}";
    return new ObjectMapper()
        .readTree(String.format(text, name, cluster, cluster).replace('\'', '"'));
  }

  private static void declare(JsonNode... queries) throws Exception {
    Beside.declare(new ObjectMapper().createArrayNode().addAll(java.util.List.of(queries)));
  }

  private static Optional<String> reads(String... topics) {
    return Beside.declaring(Beside.Way.READS, Set.of(topics))
        .map(each -> each.cluster(Beside.Way.READS));
  }

  @Test
  void onlyWhatIsDeclaredFollows() throws Exception {
    declare(query("a", "west"));
    assertEquals(Optional.of("west"), reads("prices"));
    assertEquals(Optional.empty(), reads("prices", "orders"), "one of them is not declared");
    assertEquals(Optional.empty(), reads(), "a pattern, or the topics of a column");
    assertEquals(Optional.empty(), Beside.declaring(Beside.Way.WRITES, Set.of("prices")));
  }

  @Test
  void queriesOnDifferentClustersCannotDeclareOneTopic() throws Exception {
    declare(query("a", "west"), query("b", "west"));
    assertEquals(Optional.of("west"), reads("prices"));
    declare(query("b", "east"));
    IllegalStateException refused =
        assertThrows(IllegalStateException.class, () -> reads("prices"));
    assertTrue(refused.getMessage().contains("declared by a and b"), refused.getMessage());
  }

  @Test
  void aRunThatWasAdmittedKnowsItBetterThanTheNextAttendant() throws Exception {
    Hold.follow("beside");
    Hold hold = Hold.of("beside");
    Beside.admit(query("a", "east"), hold);
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
  }

  @Test
  void withoutAnAnswerOfTheAttendantNothingIsDeclared() {
    Beside.begin(10);
    assertEquals(Optional.empty(), reads("prices"));
  }

  private static String numbers(String... options) {
    return FollowingRead.numbers(new CaseInsensitiveStringMap(Map.of(options[0], options[1])));
  }

  @Test
  void offsetsAndTimesOfTheCodeAreNumbersOfOneCluster() {
    assertEquals("", numbers("startingOffsets", "earliest"));
    assertEquals("", numbers("endingoffsets", "{\"prices\":{\"0\":-1}}"));
    assertEquals("startingOffsets", numbers("STARTINGOFFSETS", "{\"prices\":{\"0\":-2,\"1\":7}}"));
    assertEquals("endingOffsets", numbers("endingOffsets", "{7"));
    assertEquals("startingTimestamp", numbers("startingtimestamp", "1700000000000"));
    assertEquals(
        "endingOffsetsByTimestamp", numbers("endingOffsetsByTimestamp", "{\"prices\":{\"0\":1}}"));
  }
}
