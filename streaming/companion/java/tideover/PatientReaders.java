package tideover;

import java.io.IOException;
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
    return task.attemptNumber() == 0 ? new Patient(reader, patience, task) : reader;
  }

  private record Patient(PartitionReader<InternalRow> kafka, Patience patience, TaskContext task)
      implements PartitionReader<InternalRow> {
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
      Silence.Wait silence = Silence.begin(task.getLocalProperty(RUN), since);
      try {
        while (Patience.isSilence(failure) && patience.lasts(since) && !task.isInterrupted()) {
          try {
            return kafka.next();
          } catch (Throwable again) {
            failure = again;
          }
        }
      } finally {
        silence.end();
      }
      throw Companion.<RuntimeException>undeclared(
          task.isInterrupted() ? failure : patience.over(since, failure));
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
      kafka.close();
    }
  }
}
