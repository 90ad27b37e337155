package tideover;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * Where the tasks of a batch go on that was under way when its run left its cluster.
 *
 * @param place as the hold says it
 * @param shift from the offsets by which the batch was planned to those there
 */
record Elsewhere(Hold.Place place, Reading reading, Shift shift) {
  Cluster cluster() {
    return reading.mappings().active();
  }

  /**
   * The rest of a range there.
   *
   * @param given the record at its begin, which the task has; null where it has none yet
   */
  Leg leg(Optional<KafkaRange> rest, InternalRow given) {
    KafkaRange there =
        rest.flatMap(shift::of)
            .orElseThrow(
                () ->
                    new IllegalStateException(
                        "nobody knows which records of "
                            + cluster().name()
                            + " a task is to go on with: the batch is read again"));
    MicroBatchStream kafka = reading.kafka();
    Offset from = kafka.deserializeOffset(there.start());
    Offset until = kafka.deserializeOffset(there.end());
    List<InputPartition> pieces = Arrays.asList(kafka.planInputPartitions(from, until));
    // With minPartitions there is more than one.
    pieces.sort(
        Comparator.comparingLong(each -> KafkaRange.of(each).map(KafkaRange::from).orElseThrow()));
    return new Leg(
        cluster(),
        reading.patience(),
        kafka.createReaderFactory(),
        pieces,
        () -> Optional.of(there),
        given);
  }
}
