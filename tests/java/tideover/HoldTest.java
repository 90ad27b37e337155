package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

final class HoldTest {
  private static final String WEST = "{\"orders\":{\"tideover.cluster\":\"west\"}}";

  /** A thread that comes to something; the latch falls when it has passed. */
  private static CountDownLatch comer(Executable passing) {
    CountDownLatch passed = new CountDownLatch(1);
    Thread thread =
        new Thread(
            () -> {
              try {
                passing.execute();
                passed.countDown();
              } catch (Throwable failure) {
                throw new AssertionError(failure);
              }
            });
    thread.setDaemon(true);
    thread.start();
    return passed;
  }

  @Test
  void whoComesToAHoldWaitsUntilItEnds() throws Exception {
    Hold.follow("a");
    assertTrue(comer(Hold.of("a")::await).await(60, TimeUnit.SECONDS));
    Hold.begin("a");
    assertFalse(Hold.isWaiting("a"));
    CountDownLatch passed = comer(Hold.of("a")::await);
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

  /** A source of which the batch under way can, or cannot, go on elsewhere. */
  private record Prepared(boolean isFound, AtomicReference<Hold.Place> asked)
      implements Hold.Source {
    Prepared(boolean isFound) {
      this(isFound, new AtomicReference<>());
    }

    @Override
    public boolean prepare(Hold.Place there) {
      asked.set(there);
      return isFound;
    }

    @Override
    public boolean mayLeave() {
      return isFound;
    }

    @Override
    public Optional<Elsewhere> elsewhere() {
      return Optional.empty();
    }
  }

  @Test
  void aRunThatIsHeldInItsBatchGoesOnWhereEverySourceFindsItsRecords() throws Exception {
    Hold.follow("g");
    Hold hold = Hold.of("g");
    Prepared found = new Prepared(true);
    hold.join("0", found);
    Hold.begin("g");
    assertTrue(Hold.end("g", 4, WEST));
    assertNull(found.asked().get(), "between two batches nobody has to find anything");
    hold.join("1", new Prepared(false));
    Hold.begin("g");
    Hold.keepInBatch("g");
    assertFalse(Hold.canEnd("g", 5, WEST));
    assertFalse(Hold.mayLeave("g"));
    assertFalse(Hold.end("g", 5, WEST));
    assertTrue(hold.isInBatch());
    assertEquals(OptionalLong.of(4), hold.place().epoch());
    hold.leave("1");
    assertTrue(Hold.canEnd("g", 5, WEST));
    assertTrue(Hold.mayLeave("g"));
    assertTrue(hold.isInBatch(), "asking ends nothing");
    assertTrue(Hold.end("g", 5, WEST));
    assertSame(found.asked().get(), hold.place());
    assertFalse(hold.isInBatch());
  }

  @Test
  void aRunThatIsHeldInItsBatchAndStaysWhereItIsHasNothingToFind() throws Exception {
    Hold.follow("h");
    Hold.of("h").join("0", new Prepared(false));
    Hold.begin("h");
    Hold.keepInBatch("h");
    assertTrue(Hold.end("h", 4, null));
  }

  @Test
  void noTaskThatWaitsGoesOnWhileItsRunIsHeldInItsBatch() throws Exception {
    Hold.follow("i");
    Hold hold = Hold.of("i");
    hold.taskWaits();
    assertEquals(1, Hold.waitingTasks("i"));
    Hold.begin("i");
    Hold.keepInBatch("i");
    CountDownLatch wentOn = comer(hold::taskContinues);
    assertFalse(wentOn.await(100, TimeUnit.MILLISECONDS));
    assertEquals(1, Hold.waitingTasks("i"));
    Hold.leaveBatch("i");
    assertTrue(wentOn.await(60, TimeUnit.SECONDS));
    assertEquals(0, Hold.waitingTasks("i"));
  }

  @Test
  void noEntryIsPublishedWhileItsRunIsHeldInItsBatch(@TempDir Path folder) throws Exception {
    Configuration conf = new Configuration(false);
    BatchNews.follow("j");
    Fence fence =
        new Fence(
            conf, new Admission(new RunName("revenue", OptionalLong.empty()), Optional.of("j")));
    Hold.begin("j");
    LogEntry commit =
        LogEntry.of(new org.apache.hadoop.fs.Path(folder.resolve("commits/7").toUri()))
            .orElseThrow();
    // A run that is to be held between two batches ends the one under way.
    fence.requireEntry(commit);
    Hold.keepInBatch("j");
    CountDownLatch published = comer(() -> fence.requireEntry(commit));
    assertFalse(published.await(100, TimeUnit.MILLISECONDS));
    Hold.end("j", 4, null);
    assertTrue(published.await(60, TimeUnit.SECONDS));
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
    Files.createDirectories(folder.resolve(PlantedEpoch.FOLDER).resolve("4-op.1"));
    Configuration conf = new Configuration(false);
    var checkpoint = new org.apache.hadoop.fs.Path(folder.toUri());
    BatchNews.follow("f");
    Fence fence = new Fence(conf, Admission.of("revenue", 3, "f"));
    assertThrows(StaleEpoch.class, () -> fence.requireStart(checkpoint));
    Hold.end("f", 4, WEST);
    BatchNews.leave("f");
    fence.requireStart(checkpoint);
    Fence later = new Fence(conf, Admission.of("revenue", 3, "f"));
    assertThrows(StaleEpoch.class, () -> later.requireStart(checkpoint));
  }
}
