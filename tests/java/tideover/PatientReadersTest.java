package tideover;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
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

  private static PatientReaders.Patient patient(Silent kafka, AtomicBoolean isStopped) {
    return new PatientReaders.Patient(kafka, PATIENCE, "run", isStopped::get);
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
}
