package tideover;

import java.io.IOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/**
 * What a task reads of one cluster. The first leg is its whole range. A later one passes over what
 * the task was given on the cluster before. The last record that it passes over has to be the one
 * that the task was given last: where it is another one the batch fails, for then it is unknown
 * where to continue.
 */
final class Leg implements PartitionReader<InternalRow> {
  private static final int KEY = 0;
  private static final int VALUE = 1;
  static final int OFFSET = 4;
  private static final int TIMESTAMP = 5;
  private static final int TIMESTAMP_TYPE = 6;
  private static final int CREATE_TIME = 0;

  /** What a task was given of its range. */
  static final class Given extends Value {
    static final Given NOTHING = new Given(null, 0);

    /** The record that it was given last, as Kafka's source gave it; null before the first. */
    private final InternalRow last;

    private final long records;

    Given(InternalRow last, long records) {
      this.last = last;
      this.records = records;
    }

    InternalRow last() {
      return last;
    }

    long records() {
      return records;
    }

    @Override
    Object[] parts() {
      return new Object[] {last, records};
    }
  }

  /** Where a leg begins. */
  static final class Begin {
    /** Of the first leg. */
    static final Begin FIRST = new Begin(0, OptionalLong.empty(), Given.NOTHING, () -> {});

    /** So many records are passed over. */
    private final long skip;

    /** The offset of the last of them, where that is known. */
    private final OptionalLong at;

    /** What the task was given before; its last record is the last one passed over. */
    private final Given given;

    /** Runs where that is another record. */
    private final Runnable refuted;

    Begin(long skip, OptionalLong at, Given given, Runnable refuted) {
      this.skip = skip;
      this.at = at;
      this.given = given;
      this.refuted = refuted;
    }

    long skip() {
      return skip;
    }

    OptionalLong at() {
      return at;
    }

    Given given() {
      return given;
    }

    Runnable refuted() {
      return refuted;
    }
  }

  private final Cluster cluster;
  private final Patience patience;
  private final PartitionReaderFactory factory;
  private final Iterator<InputPartition> pieces;
  private final Supplier<Optional<KafkaRange>> range;
  private final HomeColumns columns;
  private final Begin begin;
  private PartitionReader<InternalRow> kafka;
  private long toSkip;
  private boolean isChecked;
  private long records;
  private InternalRow last;
  private boolean hasRow;

  /**
   * Opens a leg.
   *
   * @param range the range of the task, where it is known; looked at only when the task waits
   * @param pieces in their order; each is opened when its turn comes
   */
  Leg(
      Cluster cluster,
      Patience patience,
      PartitionReaderFactory factory,
      List<InputPartition> pieces,
      Supplier<Optional<KafkaRange>> range,
      HomeColumns columns,
      Begin begin) {
    this.cluster = cluster;
    this.patience = patience;
    this.factory = factory;
    this.pieces = pieces.iterator();
    this.range = range;
    this.columns = columns;
    this.begin = begin;
    this.kafka = factory.createReader(this.pieces.next());
    this.toSkip = begin.skip();
    this.isChecked = begin.skip() == 0;
    this.records = begin.given().records();
    this.last = begin.given().last();
  }

  Cluster cluster() {
    return cluster;
  }

  Patience patience() {
    return patience;
  }

  /** Called again behind a failure it continues where it was, also among what it passes over. */
  @Override
  public boolean next() throws IOException {
    while (toSkip > 0) {
      if (!advance()) {
        throw refuted();
      }
      toSkip--;
    }
    if (!isChecked) {
      requireSame(kafka.get());
      isChecked = true;
    }
    hasRow = advance();
    records += hasRow ? 1 : 0;
    return hasRow;
  }

  /** While a later piece is silent its reader has no row yet, so the last one is kept. */
  private boolean advance() throws IOException {
    if (hasRow && pieces.hasNext()) {
      last = kafka.get().copy();
      hasRow = false;
    }
    while (!kafka.next()) {
      if (!pieces.hasNext()) {
        return false;
      }
      kafka.close();
      kafka = factory.createReader(pieces.next());
    }
    return true;
  }

  private void requireSame(InternalRow found) {
    InternalRow given = begin.given().last();
    if ((begin.at().isPresent() && found.getLong(OFFSET) != begin.at().getAsLong())
        || !Arrays.equals(binary(given, KEY), binary(found, KEY))
        || !Arrays.equals(binary(given, VALUE), binary(found, VALUE))
        || (isByProducer(given)
            && isByProducer(found)
            && given.getLong(TIMESTAMP) != found.getLong(TIMESTAMP))) {
      throw refuted();
    }
  }

  private IllegalStateException refuted() {
    begin.refuted().run();
    return new IllegalStateException(
        cluster.name()
            + " does not hold, as record "
            + begin.skip()
            + " behind "
            + range.get().map(KafkaRange::start).orElse("an unknown offset")
            + ", the record that was read last: the batch is read again");
  }

  private static byte[] binary(InternalRow row, int column) {
    return row.isNullAt(column) ? null : row.getBinary(column);
  }

  private static boolean isByProducer(InternalRow row) {
    return row.getInt(TIMESTAMP_TYPE) == CREATE_TIME;
  }

  /** What the task was given so far, on this cluster and before, to be kept. */
  Given given() {
    return new Given(hasRow ? kafka.get().copy() : last, records);
  }

  /** The whole range of the task in this cluster's offsets; empty where it is unknown. */
  Optional<KafkaRange> range() {
    return range.get();
  }

  @Override
  public InternalRow get() {
    return columns.of(kafka.get());
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
