package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

final class JobOptionsTest {
  private static final JobOptions JOB =
      new JobOptions(
          Map.of(
              "kafka.bootstrap.servers", "east:9092",
              "subscribe", "orders",
              "kafka.sasl.mechanism", "PLAIN",
              "kafka.ssl.truststore.location", "/etc/east.jks",
              "maxOffsetsPerTrigger", "500"));

  private static CaseInsensitiveStringMap options(String... words) {
    return new CaseInsensitiveStringMap(Map.of(words[0], words[1]));
  }

  private static JobOptions.Sources sources() throws Exception {
    return JobOptions.Sources.of(
        "revenue",
        new ObjectMapper()
            .readTree(
                "{\"orders\": {\"topics\": \"a,b\", \"pattern\": \"\","
                    + " \"options\": {\"tideover.cluster\": \"west\", \"tideover.placed\": \"3\"}},"
                    + " \"logs\": {\"topics\": \"\", \"pattern\": \"log-.*\", \"options\":"
                    + " {\"tideover.cluster\": \"west\", \"tideover.placed\": \"3\"}}}"));
  }

  @Test
  void atHomeTheJobsOwnConnectionStays() {
    CaseInsensitiveStringMap there = JOB.under(Map.of("tideover.cluster", "east"));
    assertEquals("east:9092", there.get("kafka.bootstrap.servers"));
    assertEquals("/etc/east.jks", there.get("kafka.ssl.truststore.location"));
    assertEquals("500", there.get("maxoffsetspertrigger"));
    assertEquals("east", there.get("tideover.cluster"));
  }

  @Test
  void elsewhereNothingOfTheJobsConnectionIsLeft() {
    CaseInsensitiveStringMap there =
        JOB.under(Map.of("Kafka.Bootstrap.Servers", "west:9092", "kafka.security.protocol", "SSL"));
    assertEquals(
        Map.of(
            "kafka.bootstrap.servers",
            "west:9092",
            "kafka.security.protocol",
            "SSL",
            "subscribe",
            "orders",
            "maxoffsetspertrigger",
            "500"),
        Map.copyOf(there));
  }

  @Test
  void topicsThatAreRenamedReplaceHoweverTheJobNamesThem() {
    CaseInsensitiveStringMap there =
        JOB.under(Map.of("kafka.bootstrap.servers", "west:9092", "subscribePattern", "east.o.*"));
    assertEquals(null, there.get("subscribe"));
    assertEquals("east.o.*", there.get("subscribePattern"));
  }

  @Test
  void aSourceIsKnownByItsTopicsInAnyOrder() throws Exception {
    assertEquals("orders", sources().of(options("subscribe", "b, a")).getKey());
    assertEquals("logs", sources().of(options("subscribePattern", "log-.*")).getKey());
  }

  @Test
  void aSourceThatIsNotDeclaredIsRefusedByItsTopics() throws Exception {
    JobOptions.Sources declared = sources();
    String said =
        assertThrows(
                IllegalArgumentException.class, () -> declared.of(options("subscribe", "a,b,c")))
            .getMessage();
    assertTrue(said.startsWith("tideover: revenue reads subscribe a,b,c, which the"), said);
    assertThrows(
        IllegalArgumentException.class, () -> declared.of(options("assign", "{\"a\":[0]}")));
  }

  @Test
  void whereAQueryReadsIsSaidByItsLastMove() throws Exception {
    assertEquals(Map.of("cluster", "west", "placed", "3"), sources().reads(Hold.Place.START));
    Hold.Place later =
        new Hold.Place(
            java.util.OptionalLong.of(5),
            Map.of("orders", Map.of("tideover.cluster", "east", "tideover.placed", "5")));
    assertEquals(Map.of("cluster", "east", "placed", "5"), sources().reads(later));
  }
}
