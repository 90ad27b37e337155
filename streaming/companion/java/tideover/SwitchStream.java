package tideover;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * Spark's Kafka source of the cluster that a query reads now, behind offsets that may be of a
 * cluster that it read before: those are translated, end for end, and what has no translation is
 * refused.
 *
 * <p>What asks the cluster runs in a thread of its own. A stop interrupts whoever waits for it, and
 * nobody waits for a client of a dead cluster to close.
 */
final class SwitchStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  private static final long PAUSE_MILLISECONDS = 100;

  private final MicroBatchStream kafka;
  private final String source;
  private final Mappings mappings;
  private final Patience patience;
  private final String run = SparkContext.getOrCreate().getLocalProperty(PatientReaders.RUN);
  // Whoever begins on a cluster that is silent fails at once: a wrong address is silent as well.
  private volatile boolean answered;
  // Made when a call comes, by the query's own thread, so that they have its session.
  private final ExecutorService workers =
      Executors.newCachedThreadPool(
          task -> {
            Thread thread = new Thread(task, "tideover source");
            thread.setDaemon(true);
            return thread;
          });

  SwitchStream(MicroBatchStream kafka, String source, Mappings mappings, Patience patience) {
    this.kafka = kafka;
    this.source = source;
    this.mappings = mappings;
    this.patience = patience;
  }

  /**
   * Waits for the answer of a cluster that has answered before. The query's thread stays here
   * meanwhile: it plans no batch and does not say that there is nothing new, which would be taken
   * for a sign of the cluster's life.
   */
  private <T> T ask(Callable<T> what) {
    long since = System.nanoTime();
    Future<T> asked = null;
    Silence.Wait silence = Silence.begin(run, since);
    try {
      while (true) {
        asked = workers.submit(what);
        try {
          T answer = asked.get();
          answered = true;
          return answer;
        } catch (ExecutionException failed) {
          Throwable failure = failed.getCause();
          if (!answered || !Patience.isSilence(failure) || !patience.lasts(since)) {
            throw Companion.<RuntimeException>undeclared(
                answered ? patience.over(since, failure) : failure);
          }
        }
        Thread.sleep(PAUSE_MILLISECONDS);
      }
    } catch (InterruptedException stopped) {
      asked.cancel(true);
      throw Companion.<RuntimeException>undeclared(stopped);
    } finally {
      silence.end();
    }
  }

  private Offset marked(Offset offset) {
    return SwitchOffset.of(mappings.active(), offset.json());
  }

  /** What Spark hands over is ours, or its own copy of the text in its log. */
  private Offset unmarked(Offset offset) {
    SwitchOffset ours = SwitchOffset.parse(offset.json());
    return kafka.deserializeOffset(mappings.onActive(source, ours));
  }

  private SupportsAdmissionControl admission() {
    return (SupportsAdmissionControl) kafka;
  }

  @Override
  public Offset initialOffset() {
    return marked(ask(kafka::initialOffset));
  }

  @Override
  public Offset deserializeOffset(String text) {
    return SwitchOffset.parse(text);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return admission().getDefaultReadLimit();
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead");
  }

  /** Where nothing is new it is the very offset that was handed in: no batch for a mere mark. */
  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Offset here = unmarked(start);
    Offset latest = ask(() -> admission().latestOffset(here, limit));
    return latest == null || latest.equals(here) ? start : marked(latest);
  }

  @Override
  public Offset reportLatestOffset() {
    Offset latest = admission().reportLatestOffset();
    return latest == null ? null : marked(latest);
  }

  /** A batch that was planned on another cluster is planned again on this one, by both its ends. */
  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    Offset from = unmarked(start);
    Offset to = unmarked(end);
    return ask(() -> kafka.planInputPartitions(from, to));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new PatientReaders(kafka.createReaderFactory(), patience);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ask(
        () -> {
          ((SupportsTriggerAvailableNow) kafka).prepareForTriggerAvailableNow();
          return null;
        });
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return ((ReportsSourceMetrics) kafka).metrics(consumed.map(this::unmarked));
  }

  /** Kafka's source keeps nothing of it, and of another cluster's offsets it could not. */
  @Override
  public void commit(Offset end) {
    if (SwitchOffset.parse(end.json()).epoch() == mappings.active().epoch()) {
      kafka.commit(unmarked(end));
    }
  }

  @Override
  public void stop() {
    workers.execute(kafka::stop);
    workers.shutdown();
  }

  @Override
  public String toString() {
    return kafka.toString();
  }
}
