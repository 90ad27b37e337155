package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

final class MappingsTest {
  private static final Mapping THERE =
      mapping("east", 0, "west", 3, place("{\"a\":{\"0\":5}}", "{\"b\":{\"0\":25,\"1\":9}}"));

  private static String place(String there, String here) {
    return "{\"there\":" + there + ",\"here\":" + here + "}";
  }

  private static String file(String from, long left, String to, long epoch, String place) {
    return "{\"version\":1,\"epoch\":"
        + epoch
        + ",\"operation\":\"op"
        + epoch
        + "\",\"attempt\":1,\"left\":{\"cluster\":\""
        + from
        + "\",\"epoch\":"
        + left
        + "},\"to\":\""
        + to
        + "\",\"places\":{\"0\":["
        + place
        + "]}}";
  }

  private static Mapping mapping(String from, long left, String to, long epoch, String place) {
    return Mapping.parse(file(from, left, to, epoch, place), "file");
  }

  private static String told(Runnable refused) {
    return assertThrows(IllegalStateException.class, refused::run).getMessage();
  }

  /** The rule that Python applies too, by the same cases. */
  @ParameterizedTest(name = "{0}")
  @MethodSource("cases")
  void theMovesThatLeadToAPlaceAreTheOnesOfTheSharedCases(String name, JsonNode told) {
    List<Mapping> found = new ArrayList<>();
    told.get("found").forEach(each -> found.add(Mapping.parse(each.toString(), name)));
    String cluster = told.get("cluster").asText();
    long placed = told.get("placed").asLong();
    if (told.has("refused")) {
      String said = told(() -> Mappings.of(found, cluster, placed));
      assertTrue(said.contains(told.get("refused").asText()), said);
      return;
    }
    Mappings mappings = Mappings.of(found, cluster, placed);
    assertEquals(cluster, mappings.active().name());
    List<List<Long>> chain = new ArrayList<>();
    mappings.chain().forEach(each -> chain.add(List.of(each.to().epoch(), each.attempt())));
    List<List<Long>> wanted = new ArrayList<>();
    told.get("chain")
        .forEach(each -> wanted.add(List.of(each.get(0).asLong(), each.get(1).asLong())));
    assertEquals(wanted, chain);
    for (JsonNode at : told.get("at")) {
      SwitchOffset offset = SwitchOffset.parse(at.get(0).asText());
      if (at.get(1).isNull()) {
        told(() -> mappings.onActive("0", offset));
      } else {
        assertEquals(at.get(1), Mappings.parsed(mappings.onActive("0", offset)));
      }
    }
  }

  static Stream<Arguments> cases() throws IOException {
    java.nio.file.Path file =
        java.nio.file.Path.of(System.getProperty("tideover.cases"), "mappings.json");
    JsonNode all = new ObjectMapper().readTree(Files.readString(file));
    return StreamSupport.stream(all.spliterator(), false)
        .map(each -> Arguments.of(each.get("name").asText(), each));
  }

  @Test
  void aPlaceThatNoMoveNamesIsRefused() {
    Mappings away = Mappings.of(List.of(THERE), "west", 3);
    String between = told(() -> away.onActive("0", SwitchOffset.parse("{\"a\":{\"0\":4}}")));
    assertTrue(
        between.contains("operation op3 found no resume offset on west since epoch 3"), between);
    String other = told(() -> away.onActive("1", SwitchOffset.parse("{\"a\":{\"0\":5}}")));
    assertTrue(other.startsWith("source 1 is at {\"a\":{\"0\":5}} on east"), other);
    String later = "{\"a\":{\"0\":5},\"@east\":{\"epoch\":9}}";
    String lost = told(() -> away.onActive("0", SwitchOffset.parse(later)));
    assertTrue(lost.endsWith("and no mapping leads from there"), lost);
  }

  @Test
  void theFilesBesideACheckpointAreRead(@TempDir java.nio.file.Path folder) throws IOException {
    Path checkpoint = new Path(folder.toUri());
    Configuration conf = new Configuration();
    assertEquals(0, Mappings.read(checkpoint, conf, "east", 0).active().epoch());
    java.nio.file.Path mappings = Files.createDirectory(folder.resolve(Mapping.FOLDER));
    Files.writeString(mappings.resolve(".3-op.draft.tmp"), "{");
    String text = file("east", 0, "west", 3, place("{}", "{}"));
    Files.writeString(mappings.resolve("3-op3"), text);
    assertEquals(new Cluster("west", 3), Mappings.read(checkpoint, conf, "west", 3).active());
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "{",
        "{\"version\":2}",
        "{\"version\":1}",
        "{\"version\":1,\"epoch\":\"3\",\"operation\":\"o\",\"left\":{\"cluster\":\"a\","
            + "\"epoch\":0},\"to\":\"b\",\"places\":{}}"
      })
  void aFileThatIsNotAMappingIsRefusedByName(String text) {
    IllegalArgumentException told =
        assertThrows(IllegalArgumentException.class, () -> Mapping.parse(text, "3-op"));
    assertTrue(told.getMessage().startsWith("3-op "), told.getMessage());
  }
}
