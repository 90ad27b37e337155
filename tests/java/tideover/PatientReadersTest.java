package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
final class PatientReadersTest {
  private static final Patience PATIENCE = new Patience("east", 3_600_000);

  /** Its first try times out; the second one takes until {@code answer} is counted down. */
  private static final class Silent implements PartitionReader<InternalRow> {
    private final AtomicInteger tries = new AtomicInteger();
    private final CountDownLatch asking = new CountDownLatch(1);
    private final CountDownLatch answer = new CountDownLatch(1);
    private final CountDownLatch answered = new CountDownLatch(1);
    private final CountDownLatch closed = new CountDownLatch(1);

    @Override
    public boolean next() {
      if (tries.incrementAndGet() == 1) {
        throw new TimeoutException("nobody answered");
      }
      asking.countDown();
      try {
        answer.await();
      } catch (InterruptedException never) {
        throw new AssertionError("whoever asks is not interrupted", never);
      }
      answered.countDown();
      return true;
    }

    @Override
    public InternalRow get() {
      throw new AssertionError("nobody reads a row here");
    }

    @Override
    public void close() {
      closed.countDown();
    }
  }

  private static final Cluster EAST = new Cluster("east", SwitchOffset.HOME);
  private static final Cluster WEST = new Cluster("west", 4);
  private static final KafkaRange RANGE = new KafkaRange("orders", 0, 5, 8);
  private static final Shift SHIFT =
      new Shift(Map.of("orders", "orders"), Map.of("orders", Map.of(0, new Shift.Span(5, 8, 12))));

  private static PatientReaders.Patient patient(Silent kafka, AtomicBoolean isStopped) {
    return patient(kafka, new Hold(), isStopped);
  }

  private static PatientReaders.Patient patient(
      PartitionReader<InternalRow> kafka, Hold hold, AtomicBoolean isStopped) {
    Leg first =
        new Leg(
            EAST,
            PATIENCE,
            Records.opening(List.of(kafka)),
            Records.partitions(1),
            () -> Optional.of(RANGE),
            HomeColumns.AS_READ,
            Leg.Begin.FIRST);
    return new PatientReaders.Patient(first, "0", hold, "run", isStopped::get);
  }

  /** Spark's Kafka source of the other cluster: it has these records, and keeps what was asked. */
  private record There(List<String> asked, Records.Reader reader) implements MicroBatchStream {
    There(InternalRow... rows) {
      this(new ArrayList<>(), new Records.Reader(false, rows));
    }

    @Override
    public Offset deserializeOffset(String text) {
      asked.add(text);
      return null;
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new InputPartition[] {KafkaRangeTest.planned(RANGE.shifted("orders", 12))};
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return Records.opening(List.of(reader));
    }

    @Override
    public Offset latestOffset() {
      throw new AssertionError("a task asks nothing of the kind");
    }

    @Override
    public Offset initialOffset() {
      throw new AssertionError("a task asks nothing of the kind");
    }

    @Override
    public void commit(Offset end) {
      throw new AssertionError("a task commits nothing");
    }

    @Override
    public void stop() {}

    /** The source of a run that is sent there once it is told where. */
    Hold.Source source(Hold hold) {
      Mappings mappings =
          Mappings.of(
              List.of(new Mapping(EAST, WEST, "op", 1, Map.of())), WEST.name(), WEST.epoch());
      Reading reading =
          new Reading(this, mappings, PATIENCE, Naming.SAME, HomeColumns.AS_READ, null, null);
      return new Hold.Source() {
        @Override
        public boolean prepare(Hold.Place there) {
          return true;
        }

        @Override
        public boolean mayLeave() {
          return true;
        }

        @Override
        public Optional<Elsewhere> elsewhere() {
          return hold.place() == Hold.Place.START
              ? Optional.empty()
              : Optional.of(new Elsewhere(hold.place(), reading, SHIFT));
        }
      };
    }
  }

  /** Reads all that a task gets, in a thread of its own, as a task does. */
  private static CompletableFuture<String> all(PatientReaders.Patient patient) {
    return CompletableFuture.supplyAsync(
        () -> {
          StringBuilder read = new StringBuilder();
          try {
            while (patient.next()) {
              read.append(Records.value(patient.get()));
            }
            patient.close();
          } catch (IOException failure) {
            throw new AssertionError(failure);
          }
          return read.toString();
        });
  }

  /** Asks for one record, in a thread that can be stopped as a task is. */
  private static Thread task(PatientReaders.Patient patient, AtomicReference<Throwable> ended) {
    Thread task =
        new Thread(
            () -> {
              try {
                patient.next();
              } catch (Throwable failure) {
                ended.set(failure);
              }
            });
    task.start();
    return task;
  }

  private static void awaitWaiting(Hold hold) {
    while (hold.waitingTasks() == 0) {
      Thread.onSpinWait();
    }
  }

  @Test
  void aTaskWhoseRunIsSentElsewhereGoesOnWithTheNextRecord() throws Exception {
    Hold hold = new Hold();
    There there = new There(Records.row(17, "a"), Records.row(18, "b"), Records.row(19, "c"));
    hold.join("0", there.source(hold));
    Records.Reader here = new Records.Reader(true, Records.row(5, "a"), Records.row(6, "b"));
    CompletableFuture<String> read = all(patient(here, hold, new AtomicBoolean()));
    awaitWaiting(hold);
    hold.hold();
    hold.setInBatch(true);
    assertThrows(
        java.util.concurrent.TimeoutException.class, () -> read.get(100, TimeUnit.MILLISECONDS));
    assertTrue(hold.release(4, Map.of()));
    assertEquals("abc", read.get());
    assertEquals(List.of("{\"orders\":{\"0\":17}}", "{\"orders\":{\"0\":20}}"), there.asked());
    here.closed.await();
    assertEquals(0, there.reader().closed.getCount());
    assertEquals(0, hold.waitingTasks());
  }

  @Test
  void aTaskThatHasNoRecordYetGoesOnWithTheFirst() throws Exception {
    Hold hold = new Hold();
    There there = new There(Records.row(17, "a"), Records.row(18, "b"), Records.row(19, "c"));
    hold.join("0", there.source(hold));
    CompletableFuture<String> read =
        all(patient(new Records.Reader(true), hold, new AtomicBoolean()));
    awaitWaiting(hold);
    hold.setInBatch(true);
    assertTrue(hold.release(4, Map.of()));
    assertEquals("abc", read.get());
    assertEquals(List.of("{\"orders\":{\"0\":17}}", "{\"orders\":{\"0\":20}}"), there.asked());
  }

  @Test
  void aTaskThatIsStoppedWhileItsRunIsHeldInItsBatchEnds() throws Exception {
    Hold hold = new Hold();
    PatientReaders.Patient patient = patient(new Records.Reader(true), hold, new AtomicBoolean());
    AtomicReference<Throwable> ended = new AtomicReference<>();
    Thread task = task(patient, ended);
    awaitWaiting(hold);
    hold.setInBatch(true);
    task.interrupt();
    task.join();
    assertInstanceOf(InterruptedException.class, ended.get());
    assertEquals(0, hold.waitingTasks());
  }

  @Test
  void aTaskThatWaitsGetsNoRecordWhileItsRunIsHeldInItsBatch() throws Exception {
    Hold hold = new Hold();
    Silent kafka = new Silent();
    PatientReaders.Patient patient = patient(kafka, hold, new AtomicBoolean());
    CompletableFuture<Boolean> next =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return patient.next();
              } catch (IOException failure) {
                throw new AssertionError(failure);
              }
            });
    kafka.asking.await();
    hold.setInBatch(true);
    kafka.answer.countDown();
    assertThrows(
        java.util.concurrent.TimeoutException.class, () -> next.get(100, TimeUnit.MILLISECONDS));
    assertTrue(hold.release(4, null));
    assertTrue(next.get(), "the cluster has answered, and the run stayed there");
  }

  @Test
  void anAnswerThatComesWhileNobodyLooksIsTheNextRecord() throws Exception {
    Hold hold = new Hold();
    Silent kafka = new Silent();
    AtomicReference<Throwable> ended = new AtomicReference<>();
    Thread task = task(patient(kafka, hold, new AtomicBoolean()), ended);
    kafka.asking.await();
    hold.setInBatch(true);
    while (task.getState() != Thread.State.WAITING) { // for the hold, and no more for the answer
      Thread.onSpinWait();
    }
    kafka.answer.countDown();
    kafka.answered.await();
    assertTrue(hold.release(4, null));
    task.join();
    assertNull(ended.get());
    assertEquals(2, kafka.tries.get(), "it was asked again, and the record was dropped");
  }

  @Test
  void aTaskGoesOnWhenItsClusterAnswersAgain() throws IOException {
    Silent kafka = new Silent();
    kafka.answer.countDown();
    PatientReaders.Patient patient = patient(kafka, new AtomicBoolean());
    assertTrue(patient.next());
    patient.close();
    assertTrue(kafka.closed.getCount() == 0, "nobody asks any more, so it is closed at once");
  }

  @Test
  void aTaskThatIsStoppedDoesNotWaitForWhoeverAsks() throws Exception {
    Silent kafka = new Silent();
    PatientReaders.Patient patient = patient(kafka, new AtomicBoolean());
    AtomicReference<Throwable> ended = new AtomicReference<>();
    Thread task = task(patient, ended);
    kafka.asking.await();
    task.interrupt();
    task.join();
    assertInstanceOf(InterruptedException.class, ended.get());
    patient.close();
    assertFalse(kafka.closed.await(100, TimeUnit.MILLISECONDS), "it is still being asked");
    kafka.answer.countDown();
    kafka.closed.await();
  }

  @Test
  void aTaskThatWasStoppedBeforeAsksNoMore() {
    Silent kafka = new Silent();
    assertThrows(TimeoutException.class, patient(kafka, new AtomicBoolean(true))::next);
    assertTrue(kafka.tries.get() == 1);
  }

  @Test
  void aRunWhoseOwnCodeClearedItsJobGroupWaitsAsWell() throws IOException {
    Silence.begin(null, System.nanoTime()).end();
    assertEquals(0, Silence.milliseconds(""));
    Silence.Wait wait = Silence.begin("run-3", System.nanoTime() - 5_000_000_000L);
    assertTrue(Silence.milliseconds("run-3") >= 5000);
    wait.end();
    assertEquals(0, Silence.milliseconds("run-3"));
  }
}
