package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

final class ShiftTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** Those of the plan's rule in Python as well. */
  static Stream<JsonNode> cases() throws IOException {
    JsonNode all =
        JSON.readTree(Path.of(System.getProperty("tideover.cases"), "shift.json").toFile());
    return StreamSupport.stream(all.spliterator(), false);
  }

  private static Shift.Ends ends(JsonNode told) {
    return new Shift.Ends(told.get("start").toString(), told.get("end").toString());
  }

  private static Naming naming(JsonNode told) {
    return told.isMissingNode() ? Naming.SAME : Naming.parse("{\"c\":" + told + "}").get("c");
  }

  private static JsonNode json(Shift shift) {
    Map<String, Map<String, Long>> by = new HashMap<>();
    shift
        .spans()
        .forEach(
            (topic, spans) ->
                spans.forEach(
                    (partition, span) ->
                        by.computeIfAbsent(topic, key -> new HashMap<>())
                            .put(partition.toString(), span.by())));
    try {
      return JSON.readTree(JSON.writeValueAsString(by));
    } catch (IOException never) {
      throw new AssertionError(never);
    }
  }

  @ParameterizedTest
  @MethodSource("cases")
  void aBatchIsShiftedByOneNumberPerPartitionOrNotAtAll(JsonNode told) {
    Optional<Shift> shift =
        Shift.between(
            ends(told.get("here")),
            naming(told.path("here_names")),
            ends(told.get("there")),
            naming(told.path("there_names")));
    assertEquals(
        told.get("shift"),
        shift.map(ShiftTest::json).orElse(JSON.nullNode()),
        told.get("why").asText());
  }

  private static final Shift SHIFT =
      new Shift(
          Map.of("orders", "east.orders"),
          Map.of("orders", Map.of(0, new Shift.Span(100, 130, 17))));

  @Test
  void itMovesARangeOfAPartitionThatTheBatchReads() {
    assertEquals(
        Optional.of(new KafkaRange("east.orders", 0, 127, 147)),
        SHIFT.of(new KafkaRange("orders", 0, 110, 130)));
    assertEquals(Optional.empty(), SHIFT.of(new KafkaRange("orders", 2, 0, 1)));
    assertEquals(Optional.empty(), SHIFT.of(new KafkaRange("parcels", 0, 0, 1)));
  }

  @Test
  void itKnowsWhatIsAllThatTheBatchReadsOfAPartition() {
    KafkaRange whole = new KafkaRange("orders", 0, 100, 130);
    assertTrue(SHIFT.isWhole(whole));
    assertFalse(SHIFT.isWhole(whole.beginningAt(101)));
    assertFalse(SHIFT.isWhole(new KafkaRange("orders", 1, 100, 130)));
    assertEquals(Optional.of(whole), SHIFT.whole(new KafkaRange("orders", 0, 110, 120)));
  }
}
