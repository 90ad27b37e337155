package tideover;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * Readers of Kafka's partitions whose tasks wait while their cluster is silent. They continue where
 * they were when it answers again, or with the same record on the cluster to which their run was
 * sent during the wait.
 *
 * <p>Of a task the first attempt alone waits: a job fails when four attempts have failed, and
 * together they are to wait no longer than one.
 */
final class PatientReaders implements PartitionReaderFactory {
  private static final long serialVersionUID = 1;

  /** A run's id is the group of its jobs. */
  static final String RUN = "spark.jobGroup.id";

  private final PartitionReaderFactory kafka;
  private final Origin origin;

  PatientReaders(PartitionReaderFactory kafka, Origin origin) {
    this.kafka = kafka;
    this.origin = origin;
  }

  /** For whom they read. */
  static final class Origin implements Serializable {
    private static final long serialVersionUID = 1;

    /** On which the batch was planned. */
    private final Cluster cluster;

    /** The key by which the log names it. */
    private final String source;

    /** The id of the run: its own code may give its jobs another group. */
    private final String run;

    /** As in {@link Hold}; null where the run is not followed. */
    private final String follower;

    private final Patience patience;
    private final HomeColumns columns;

    Origin(
        Cluster cluster,
        String source,
        String run,
        String follower,
        Patience patience,
        HomeColumns columns) {
      this.cluster = cluster;
      this.source = source;
      this.run = run;
      this.follower = follower;
      this.patience = patience;
      this.columns = columns;
    }

    Cluster cluster() {
      return cluster;
    }

    String source() {
      return source;
    }

    String run() {
      return run;
    }

    String follower() {
      return follower;
    }

    Patience patience() {
      return patience;
    }

    HomeColumns columns() {
      return columns;
    }
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    TaskContext task = TaskContext.get();
    Hold hold = Hold.of(origin.follower());
    hold.passInBatch();
    Supplier<Optional<KafkaRange>> range = () -> KafkaRange.of(partition);
    Leg first =
        hold.elsewhere(origin.source(), origin.cluster())
            .map(there -> there.leg(range.get(), Leg.Given.NOTHING))
            .orElseGet(
                () ->
                    new Leg(
                        origin.cluster(),
                        origin.patience(),
                        kafka,
                        Fixed.list(partition),
                        range,
                        origin.columns(),
                        Leg.Begin.FIRST));
    return task.attemptNumber() == 0
        ? new Patient(first, origin.source(), hold, origin.run(), task::isInterrupted)
        : first;
  }

  /**
   * One reader. Kafka's consumer cannot be interrupted during a call, two seconds and more, and the
   * stop of a run waits for its tasks. So once a cluster is silent a thread of its own calls it. A
   * stopped task does not wait for that, nor one that continues elsewhere: the thread reads on
   * without effect, and closes the reader when it is done.
   */
  static final class Patient implements PartitionReader<InternalRow> {
    private static final ExecutorService ASKING = Companion.daemons("tideover reader");
    private static final Future<Boolean> NO_CALL = CompletableFuture.completedFuture(false);
    private static final long LOOK_MILLISECONDS = 20;
    private static final long TURNED_NANOSECONDS = 10_000_000_000L;

    private final String source;
    private final Hold hold;
    private final String run;
    private final BooleanSupplier isStopped;
    private Leg leg;
    private Future<Boolean> asked = NO_CALL;

    Patient(Leg first, String source, Hold hold, String run, BooleanSupplier isStopped) {
      this.leg = first;
      this.source = source;
      this.hold = hold;
      this.run = run;
      this.isStopped = isStopped;
    }

    @Override
    public boolean next() throws IOException {
      try {
        return leg.next();
      } catch (Throwable failure) { // Scala declares none of what it throws
        return wait(failure);
      }
    }

    private boolean wait(Throwable failure) throws IOException {
      Leg.Given given = leg.given(); // a caller at the same time may get the next one
      Optional<KafkaRange> range = leg.range();
      Boolean answer;
      try {
        answer = answerAfter(failure);
      } catch (InterruptedException stopped) {
        throw Companion.<RuntimeException>undeclared(stopped);
      }
      if (answer != null) {
        return answer;
      }
      Leg before = leg;
      leg = elsewhere().get().leg(range, given);
      close(before, asked);
      asked = NO_CALL;
      return next();
    }

    /** Null when the run was sent elsewhere before anybody answered. */
    private Boolean answerAfter(Throwable failure) throws InterruptedException {
      Silence.Wait silence = Silence.begin(run, System.nanoTime());
      hold.taskWaits();
      try {
        Boolean answer = askAfter(failure);
        hold.taskContinues();
        return answer;
      } catch (Throwable ended) {
        hold.taskEnds();
        throw ended;
      } finally {
        silence.end();
      }
    }

    /**
     * A consumer that met another cluster behind its endpoint is not called again: it would read on
     * there. Its task fails after some seconds, because a new attempt has a new consumer, which can
     * read where the endpoint leads back.
     *
     * <p>Each try lasts for a second or more, for so long Kafka's clients wait themselves. The next
     * one begins only when the last is known to have failed: an answer that came while no task
     * looked is the task's next record.
     */
    private Boolean askAfter(Throwable first) throws InterruptedException {
      Throwable failure = first; // of the last try; null while one is under way
      long since = System.nanoTime();
      while (true) {
        if (hold.isInBatch()) {
          hold.passInBatch();
          since = System.nanoTime(); // no answer was expected during the hold
        }
        if (elsewhere().isPresent()) {
          return null;
        }
        if (failure != null) {
          boolean isTurned = NotHere.causes(failure);
          if (isStopped.getAsBoolean()
              || (isTurned ? waited(since) >= TURNED_NANOSECONDS : !Patience.isSilence(failure))) {
            throw Companion.<RuntimeException>undeclared(failure);
          }
          if (isTurned) {
            Thread.sleep(LOOK_MILLISECONDS);
            continue;
          }
          if (!leg.patience().lasts(since)) {
            throw Companion.<RuntimeException>undeclared(leg.patience().over(since, failure));
          }
          asked = ASKING.submit(leg::next);
          failure = null;
        }
        try {
          return asked.get(LOOK_MILLISECONDS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException notYet) {
          // the run may have been sent elsewhere
        } catch (ExecutionException again) {
          failure = again.getCause();
        }
      }
    }

    private static long waited(long since) {
      return System.nanoTime() - since;
    }

    private Optional<Elsewhere> elsewhere() {
      return hold.elsewhere(source, leg.cluster());
    }

    @Override
    public InternalRow get() {
      return leg.get();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return leg.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      close(leg, asked);
    }

    /** A consumer is not to be given back during its call: the next task would get it. */
    private static void close(Leg leg, Future<Boolean> asked) throws IOException {
      if (asked.isDone()) {
        leg.close();
      } else {
        ASKING.execute(() -> closeAfter(asked, leg));
      }
    }

    private static void closeAfter(Future<Boolean> last, Leg leg) {
      try {
        last.get();
      } catch (InterruptedException | ExecutionException heardByNobody) {
        // what it would have answered is of no use any more
      }
      try {
        leg.close();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }
}
