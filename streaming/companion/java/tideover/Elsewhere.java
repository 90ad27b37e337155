package tideover;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;

/** Where the tasks of a batch continue that was under way when its run left its cluster. */
final class Elsewhere {
  /** Of the hold. */
  private final Hold.Place place;

  private final Reading reading;

  /** From the offsets by which the batch was planned to those there. */
  private final Shift shift;

  /**
   * Whether a task has found another record there than the one it was given last: then no other try
   * of a task begins there, and the batch fails.
   */
  private final AtomicBoolean refuted;

  Elsewhere(Hold.Place place, Reading reading, Shift shift, AtomicBoolean refuted) {
    this.place = place;
    this.reading = reading;
    this.shift = shift;
    this.refuted = refuted;
  }

  Hold.Place place() {
    return place;
  }

  Reading reading() {
    return reading;
  }

  Elsewhere(Hold.Place place, Reading reading, Shift shift) {
    this(place, reading, shift, new AtomicBoolean());
  }

  Cluster cluster() {
    return reading.mappings().active();
  }

  /**
   * The rest of a task's range there.
   *
   * <p>What a batch reads of a partition begins and ends there at known offsets, and has the same
   * records in the same order; markers of transactions may lie at other places. So a task that
   * reads all of that passes over as many records as it was given. A task that reads a piece of it
   * goes by the offset: {@link #holdsEach} has shown then that there are no markers.
   *
   * @param range the whole range of the task, where the batch was planned
   */
  Leg leg(Optional<KafkaRange> range, Leg.Given given) {
    if (refuted.get()) {
      throw unknown();
    }
    KafkaRange planned = range.orElseThrow(this::unknown);
    boolean byOffset = !shift.isWhole(planned) && given.last() != null;
    KafkaRange rest = byOffset ? planned.beginningAt(given.last().getLong(Leg.OFFSET)) : planned;
    KafkaRange there = shift.of(rest).orElseThrow(this::unknown);
    Leg.Begin begin =
        byOffset
            ? new Leg.Begin(1, OptionalLong.of(there.from()), given, () -> refuted.set(true))
            : new Leg.Begin(given.records(), OptionalLong.empty(), given, () -> refuted.set(true));
    return new Leg(
        cluster(),
        reading.patience(),
        reading.kafka().createReaderFactory(),
        pieces(reading.kafka(), there),
        () -> Optional.of(there),
        reading.columns(),
        begin);
  }

  private IllegalStateException unknown() {
    return new IllegalStateException(
        "it is unknown which records of "
            + cluster().name()
            + " a task has to continue with: the batch is read again");
  }

  /** In their order; with minPartitions there is more than one. */
  private static List<InputPartition> pieces(MicroBatchStream kafka, KafkaRange range) {
    Offset from = kafka.deserializeOffset(range.start());
    Offset until = kafka.deserializeOffset(range.end());
    List<InputPartition> pieces = Arrays.asList(kafka.planInputPartitions(from, until));
    pieces.sort(Comparator.comparingLong(each -> KafkaRange.of(each).map(KafkaRange::from).get()));
    return pieces;
  }

  /**
   * Whether a log holds a record at each offset of a range; all of them are read. The same number
   * of records in as many offsets lies there one for one with another log then.
   *
   * @param deadline on the clock of {@code System.nanoTime}: what is not shown by then is not shown
   */
  static boolean holdsEach(MicroBatchStream kafka, KafkaRange range, long deadline) {
    long next = range.from();
    TaskContext$.MODULE$.setTaskContext(TaskContext$.MODULE$.empty()); // readers log their task
    try {
      for (InputPartition piece : pieces(kafka, range)) {
        PartitionReader<InternalRow> reader = kafka.createReaderFactory().createReader(piece);
        try {
          while (hasNext(reader, deadline)) {
            if (reader.get().getLong(Leg.OFFSET) != next || System.nanoTime() - deadline > 0) {
              return false;
            }
            next++;
          }
        } finally {
          reader.close();
        }
      }
    } catch (Exception unread) { // Scala declares none of what it throws
      return false;
    } finally {
      TaskContext$.MODULE$.unset();
    }
    return next == range.until();
  }

  /** Each try is short, and on a busy machine one may pass without an answer. */
  private static boolean hasNext(PartitionReader<InternalRow> reader, long deadline)
      throws Exception {
    while (true) {
      try {
        return reader.next();
      } catch (Exception failure) {
        if (!Patience.isSilence(failure) || System.nanoTime() - deadline > 0) {
          throw failure;
        }
      }
    }
  }
}
