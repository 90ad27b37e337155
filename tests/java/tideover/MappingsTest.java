package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class MappingsTest {
  private static final Mapping THERE =
      mapping("east", 0, "west", 3, place("{\"a\":{\"0\":5}}", "{\"b\":{\"0\":25,\"1\":9}}"));
  private static final Mapping BACK =
      mapping("west", 3, "east", 5, place("{\"b\":{\"1\":9,\"0\":25}}", "{\"a\":{\"0\":6}}"));

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

  @Test
  void aCheckpointThatNeverMovedIsReadAsItIs() {
    Mappings none = Mappings.of(List.of(), "east", 1);
    assertEquals(new Cluster("east", SwitchOffset.HOME), none.active());
    assertEquals("{\"a\":{}}", none.onActive("0", SwitchOffset.parse("{\"a\":{}}")));
  }

  @Test
  void aPlaceIsFoundThroughEveryMoveSince() {
    SwitchOffset home = SwitchOffset.parse("{\"a\":{\"0\":5}}");
    Mappings away = Mappings.of(List.of(THERE), "west", 3);
    assertEquals("{\"b\":{\"0\":25,\"1\":9}}", away.onActive("0", home));
    Mappings back = Mappings.of(List.of(BACK, THERE), "east", 5);
    assertEquals(new Cluster("east", 5), back.active());
    assertEquals("{\"a\":{\"0\":6}}", back.onActive("0", home));
    SwitchOffset read = SwitchOffset.of(back.active(), "{\"a\":{\"0\":8}}");
    assertEquals("{\"a\":{\"0\":8}}", back.onActive("0", read));
  }

  @Test
  void aPlaceThatNoMoveNamesIsRefused() {
    Mappings away = Mappings.of(List.of(THERE), "west", 3);
    String between = told(() -> away.onActive("0", SwitchOffset.parse("{\"a\":{\"0\":4}}")));
    assertTrue(between.contains("operation op3 found no place on west since epoch 3"), between);
    String other = told(() -> away.onActive("1", SwitchOffset.parse("{\"a\":{\"0\":5}}")));
    assertTrue(other.startsWith("source 1 stands at {\"a\":{\"0\":5}} on east"), other);
    String later = "{\"a\":{\"0\":5},\"@east\":{\"epoch\":9}}";
    String lost = told(() -> away.onActive("0", SwitchOffset.parse(later)));
    assertTrue(lost.endsWith("and no mapping leads from there"), lost);
  }

  @Test
  void whatAnOperationLeftThatWasGivenUpIsPassedOver() {
    Mapping left = mapping("west", 3, "north", 4, place("{}", "{}"));
    assertEquals(new Cluster("west", 3), Mappings.of(List.of(THERE, left), "west", 3).active());
    assertEquals(
        new Cluster("east", 5), Mappings.of(List.of(left, BACK, THERE), "east", 6).active());
  }

  @Test
  void aRunThatIsToReadAnotherClusterIsNotStarted() {
    String said = told(() -> Mappings.of(List.of(THERE), "east", 3));
    assertTrue(said.startsWith("operation op3 moved this checkpoint to west since epoch 3"), said);
  }

  @Test
  void aMoveWhoseBeginningIsLostIsRefused() {
    assertTrue(told(() -> Mappings.of(List.of(BACK), "east", 5)).contains("had come there"));
  }

  @Test
  void theFilesBesideACheckpointAreRead(@TempDir java.nio.file.Path folder) throws IOException {
    Path checkpoint = new Path(folder.toUri());
    Configuration conf = new Configuration();
    assertEquals(0, Mappings.read(checkpoint, conf, "east", 1).active().epoch());
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
