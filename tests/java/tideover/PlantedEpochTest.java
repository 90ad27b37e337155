package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

final class PlantedEpochTest {
  private static final PlantedEpoch PLANTED = new PlantedEpoch(4, "261124-101500-ab12cd34");

  private static RunName run(long epoch) {
    return new RunName("revenue", OptionalLong.of(epoch));
  }

  @Test
  void theNewestIsTheOneWithTheHighestNumberNotTheLastByName() {
    assertEquals(
        Optional.of(new PlantedEpoch(10, "b-1")),
        PlantedEpoch.newest(Stream.of("9-a-1.1", "10-b-1.2", "2-c-1.1")));
  }

  @Test
  void draftsAndForeignNamesDoNotCount() {
    assertEquals(
        Optional.empty(),
        PlantedEpoch.newest(
            Stream.of(
                ".9-a.f00.tmp",
                ".9-a.1.crc",
                "9",
                "-1-a.1",
                "x9-a.1",
                "9-a",
                "run-9-a.1",
                "_SUCCESS")));
  }

  @Test
  void aRunOfAnOlderEpochIsOverAndOneOfTheSameOrANewerIsNot() {
    assertTrue(PLANTED.ends(run(3)));
    assertFalse(PLANTED.ends(run(4)));
    assertFalse(PLANTED.ends(run(5)));
  }

  @Test
  void aRunWithoutAnEpochMayNotWriteOnceAnybodyFencedTheCheckpoint() {
    assertTrue(PLANTED.ends(new RunName("this query", OptionalLong.empty())));
  }

  @Test
  void theSentenceNamesTheRunTheOperationTheCheckpointAndWhatDoesNotHappen() {
    assertEquals(
        "revenue with epoch 3 is over: operation 261124-101500-ab12cd34 took /shop/revenue with"
            + " epoch 4, so offsets/7 is not written",
        PLANTED.sentence(run(3), "/shop/revenue", "offsets/7 is not written"));
  }
}
