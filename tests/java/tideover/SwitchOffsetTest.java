package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class SwitchOffsetTest {
  private static final String KAFKA = "{\"orders\":{\"1\":7,\"0\":5}}";
  private static final String MARKED = "{\"orders\":{\"1\":7,\"0\":5},\"@west\":{\"epoch\":3}}";
  private static final Cluster EAST = new Cluster("east", SwitchOffset.HOME);
  private static final Cluster WEST = new Cluster("west", 3);

  @Test
  void atHomeTheTextIsKafkasByteForByte() {
    assertEquals(KAFKA, SwitchOffset.of(EAST, KAFKA).json());
    SwitchOffset read = SwitchOffset.parse("{ \"orders\":{\"1\":7} }");
    assertEquals("{ \"orders\":{\"1\":7} }", read.json());
    assertEquals(SwitchOffset.HOME, read.epoch());
  }

  @Test
  void elsewhereItSaysOfWhichClusterAndSinceWhen() {
    assertEquals(MARKED, SwitchOffset.of(WEST, KAFKA).json());
    SwitchOffset read = SwitchOffset.parse(MARKED);
    assertEquals(MARKED, read.json());
    assertEquals(KAFKA, read.kafka());
    assertEquals(3, read.epoch());
  }

  @Test
  void aPatternThatMatchesNothingHasAnOffsetToo() {
    assertEquals("{}", SwitchOffset.parse(SwitchOffset.of(WEST, "{}").json()).kafka());
  }

  @Test
  void theSamePlaceOfTwoMovesIsNotTheSame() {
    assertEquals(SwitchOffset.of(WEST, KAFKA), SwitchOffset.parse(MARKED));
    assertNotEquals(SwitchOffset.of(WEST, KAFKA), SwitchOffset.of(new Cluster("west", 5), KAFKA));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        "7",
        "[]",
        "{\"orders\"",
        "{\"@west\":{}}",
        "{\"@west\":{\"epoch\":0}}",
        "{\"@west\":{\"epoch\":\"3\"}}",
        "{\"@west\":{\"epoch\":3},\"@east\":{\"epoch\":5}}"
      })
  void whatIsNoOffsetIsRefused(String text) {
    assertThrows(IllegalArgumentException.class, () -> SwitchOffset.parse(text));
  }
}
