package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class HoldTest {
  private static final String WEST = "{\"orders\":{\"tideover.cluster\":\"west\"}}";

  /** A thread that comes to the hold; the latch falls when it has passed. */
  private static CountDownLatch comer(Hold hold) {
    CountDownLatch passed = new CountDownLatch(1);
    Thread thread =
        new Thread(
            () -> {
              try {
                hold.await();
                passed.countDown();
              } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
              }
            });
    thread.setDaemon(true);
    thread.start();
    return passed;
  }

  @Test
  void whoComesToAHoldWaitsUntilItEnds() throws Exception {
    Hold.follow("a");
    assertTrue(comer(Hold.of("a")).await(60, TimeUnit.SECONDS));
    Hold.begin("a");
    assertFalse(Hold.isWaiting("a"));
    CountDownLatch passed = comer(Hold.of("a"));
    while (!Hold.isWaiting("a")) {
      Thread.onSpinWait();
    }
    assertEquals(1, passed.getCount());
    Hold.end("a", 4, WEST);
    assertTrue(passed.await(60, TimeUnit.SECONDS));
    assertFalse(Hold.isWaiting("a"));
  }

  @Test
  void itTellsWhereARunGoesOnAndUnderWhichEpoch() throws Exception {
    Hold.follow("b");
    assertEquals(OptionalLong.empty(), Hold.of("b").place().epoch());
    Hold.begin("b");
    assertEquals(OptionalLong.empty(), Hold.of("b").place().epoch());
    Hold.end("b", 4, WEST);
    assertEquals(OptionalLong.of(4), Hold.of("b").place().epoch());
    Map<String, Map<String, String>> there = Hold.of("b").place().options();
    assertEquals("west", there.get("orders").get("tideover.cluster"));
    Hold.begin("b");
    Hold.end("b", 6, null);
    assertEquals(new Hold.Place(OptionalLong.of(6), there), Hold.of("b").place());
  }

  @Test
  void onlyTheFirstSourceOfARoundMayBeHeld() {
    Hold hold = new Hold();
    assertTrue(hold.isFirst("0"));
    hold.answered("0");
    assertFalse(hold.isFirst("1"));
    hold.answered("1");
    assertTrue(hold.isFirst("0"), "a new round");
    assertTrue(hold.isFirst("0"), "asked again before it has answered");
    hold.answered("0");
    assertFalse(hold.isFirst("1"));
  }

  @Test
  void runsDoNotShareAHoldAndOneThatNobodyFollowsHasItsOwn() {
    Hold.follow("c");
    Hold.follow("d");
    assertSame(Hold.of("c"), Hold.of("c"));
    assertNotSame(Hold.of("c"), Hold.of("d"));
    assertNotSame(Hold.of(null), Hold.of(null));
    Hold.begin("c");
    assertFalse(Hold.of("d").isHeld());
    Hold.forget("c");
    assertFalse(Hold.of("c").isHeld());
  }

  @Test
  void aRunThatWentOnIsNotEndedByTheEpochOfItsMove() throws Exception {
    Hold.follow("e");
    Hold hold = Hold.of("e");
    RunName began = new RunName("revenue", OptionalLong.of(3));
    PlantedEpoch planted = new PlantedEpoch(4, "op");
    assertTrue(planted.ends(began.after(hold)));
    Hold.begin("e");
    assertTrue(planted.ends(began.after(hold)));
    Hold.end("e", 4, WEST);
    assertFalse(planted.ends(began.after(hold)));
    assertTrue(new PlantedEpoch(5, "later").ends(began.after(hold)));
  }

  @Test
  void aRunThatWentOnMayCommitItsLastBatchWhenNobodyFollowsItAnyMore(@TempDir Path folder)
      throws Exception {
    Files.createDirectories(folder.resolve(PlantedEpoch.FOLDER).resolve("4-op"));
    Configuration conf = new Configuration(false);
    conf.set(BatchNews.FOLLOWER, "f");
    conf.set(RunName.EPOCH, "3");
    var checkpoint = new org.apache.hadoop.fs.Path(folder.toUri());
    BatchNews.follow("f");
    Fence fence = new Fence(conf);
    assertThrows(StaleEpoch.class, () -> fence.requireStart(checkpoint));
    Hold.end("f", 4, WEST);
    BatchNews.leave("f");
    fence.requireStart(checkpoint);
    assertThrows(StaleEpoch.class, () -> new Fence(conf).requireStart(checkpoint));
  }
}
