package tideover;

import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * What a task reads of one cluster. The first leg is its whole range. A later one begins with the
 * record that the task was given last on the cluster before: it is not given again, and where it is
 * another one the task fails, for then nobody knows where to go on.
 */
final class Leg implements PartitionReader<InternalRow> {
  private static final int KEY = 0;
  private static final int VALUE = 1;
  private static final int OFFSET = 4;
  private static final int TIMESTAMP = 5;
  private static final int TIMESTAMP_TYPE = 6;
  private static final int CREATE_TIME = 0;

  private final Cluster cluster;
  private final Patience patience;
  private final Supplier<Optional<KafkaRange>> range;
  private final Iterator<PartitionReader<InternalRow>> readers;
  private PartitionReader<InternalRow> kafka;
  private InternalRow given;
  private boolean hasRow;

  /**
   * Opens a leg.
   *
   * @param range what the partitions are of, where that is known; asked only when a task waits
   * @param partitions in their order; each is opened when its turn comes
   * @param given the record that stands at its begin; null: it begins behind what was given
   */
  Leg(
      Cluster cluster,
      Patience patience,
      PartitionReaderFactory factory,
      List<InputPartition> partitions,
      Supplier<Optional<KafkaRange>> range,
      InternalRow given) {
    this.cluster = cluster;
    this.patience = patience;
    this.range = range;
    this.readers = partitions.stream().map(factory::createReader).iterator();
    this.kafka = readers.next();
    this.given = given;
  }

  Cluster cluster() {
    return cluster;
  }

  Patience patience() {
    return patience;
  }

  @Override
  public boolean next() throws IOException {
    if (given != null) {
      requireSame(advance() ? kafka.get() : null);
      given = null;
    }
    hasRow = advance();
    return hasRow;
  }

  private boolean advance() throws IOException {
    while (!kafka.next()) {
      if (!readers.hasNext()) {
        return false;
      }
      kafka.close();
      kafka = readers.next();
    }
    return true;
  }

  private void requireSame(InternalRow found) {
    if (found == null
        || found.getLong(OFFSET) != range.get().orElseThrow().from()
        || !Arrays.equals(binary(given, KEY), binary(found, KEY))
        || !Arrays.equals(binary(given, VALUE), binary(found, VALUE))
        || (isByProducer(given)
            && isByProducer(found)
            && given.getLong(TIMESTAMP) != found.getLong(TIMESTAMP))) {
      throw new IllegalStateException(
          cluster.name()
              + " does not hold the record that was read last at "
              + range.get().orElseThrow().start()
              + ": the batch is read again");
    }
  }

  private static byte[] binary(InternalRow row, int column) {
    return row.isNullAt(column) ? null : row.getBinary(column);
  }

  private static boolean isByProducer(InternalRow row) {
    return row.getInt(TIMESTAMP_TYPE) == CREATE_TIME;
  }

  /** The record that a task was given last, to be kept; null before the first. */
  InternalRow given() {
    return hasRow ? kafka.get().copy() : given;
  }

  /** What is left of the range, with that record; empty where nobody knows. */
  Optional<KafkaRange> rest() {
    Optional<KafkaRange> whole = range.get();
    return hasRow ? whole.map(each -> each.beginningAt(kafka.get().getLong(OFFSET))) : whole;
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
