package tideover;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * Readers of Kafka's partitions whose tasks wait while their cluster is silent, and go on where
 * they were when it answers again.
 *
 * <p>Of a task the first attempt alone waits: a job fails when four attempts have failed, and
 * together they are to wait no longer than one.
 */
record PatientReaders(PartitionReaderFactory kafka, Patience patience)
    implements PartitionReaderFactory {
  /** Of the runs, and of jobs: a run's id is the group of its jobs, in executors as well. */
  static final String RUN = "spark.jobGroup.id";

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    PartitionReader<InternalRow> reader = kafka.createReader(partition);
    TaskContext task = TaskContext.get();
    return task.attemptNumber() == 0
        ? new Patient(reader, patience, task.getLocalProperty(RUN), task::isInterrupted)
        : reader;
  }

  /**
   * One reader. Kafka's consumer cannot be interrupted for as long as it asks, two seconds and
   * more, and whoever stops a run waits for its tasks. So once a cluster is silent a thread of its
   * own asks, for which a task that is stopped does not wait: that reads on, is heard by nobody,
   * and closes the reader when it is done.
   */
  static final class Patient implements PartitionReader<InternalRow> {
    private static final ExecutorService ASKING = Companion.daemons("tideover reader");

    private final PartitionReader<InternalRow> kafka;
    private final Patience patience;
    private final String run;
    private final BooleanSupplier isStopped;
    private Future<Boolean> asked = CompletableFuture.completedFuture(false);

    Patient(
        PartitionReader<InternalRow> kafka,
        Patience patience,
        String run,
        BooleanSupplier isStopped) {
      this.kafka = kafka;
      this.patience = patience;
      this.run = run;
      this.isStopped = isStopped;
    }

    @Override
    public boolean next() throws IOException {
      try {
        return kafka.next();
      } catch (Throwable failure) { // Scala declares none of what it throws
        return wait(failure);
      }
    }

    /** Each try lasts for a second or more, for so long Kafka's clients wait themselves. */
    private boolean wait(Throwable first) {
      long since = System.nanoTime();
      Throwable failure = first;
      Silence.Wait silence = Silence.begin(run, since);
      try {
        while (Patience.isSilence(failure) && patience.lasts(since) && !isStopped.getAsBoolean()) {
          asked = ASKING.submit(kafka::next);
          try {
            return asked.get();
          } catch (ExecutionException again) {
            failure = again.getCause();
          }
        }
      } catch (InterruptedException stopped) {
        throw Companion.<RuntimeException>undeclared(stopped);
      } finally {
        silence.end();
      }
      throw Companion.<RuntimeException>undeclared(
          isStopped.getAsBoolean() ? failure : patience.over(since, failure));
    }

    @Override
    public InternalRow get() {
      return kafka.get();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return kafka.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      if (asked.isDone()) {
        kafka.close();
      } else {
        Future<Boolean> last = asked;
        ASKING.execute(() -> closeAfter(last));
      }
    }

    /** A consumer is not to be given back while it asks: the next task would get it. */
    private void closeAfter(Future<Boolean> last) {
      try {
        last.get();
      } catch (InterruptedException | ExecutionException heardByNobody) {
        // what it would have answered is of no use any more
      }
      try {
        kafka.close();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }
}
