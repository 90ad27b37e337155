package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads of one partition of Kafka: its offsets from the first, included, until the
 * last, excluded.
 */
final class KafkaRange extends Value {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String topic;
  private final int partition;
  private final long from;
  private final long until;

  KafkaRange(String topic, int partition, long from, long until) {
    this.topic = topic;
    this.partition = partition;
    this.from = from;
    this.until = until;
  }

  String topic() {
    return topic;
  }

  int partition() {
    return partition;
  }

  long from() {
    return from;
  }

  long until() {
    return until;
  }

  @Override
  Object[] parts() {
    return new Object[] {topic, partition, from, until};
  }

  /**
   * Of what Spark's Kafka source has planned; empty where it says it otherwise than by {@code
   * KafkaBatchInputPartition.offsetRange} (3.5.7, 4.0.0, 4.2.0), which is no public interface.
   */
  static Optional<KafkaRange> of(InputPartition planned) {
    try {
      Object range = told(planned, "offsetRange");
      Object place = told(range, "topicPartition");
      return Optional.of(
          new KafkaRange(
              (String) told(place, "topic"),
              (int) told(place, "partition"),
              (long) told(range, "fromOffset"),
              (long) told(range, "untilOffset")));
    } catch (ReflectiveOperationException | ClassCastException otherwise) {
      return Optional.empty();
    }
  }

  private static Object told(Object of, String name) throws ReflectiveOperationException {
    return of.getClass().getMethod(name).invoke(of);
  }

  /** Its first offset as an offset of Kafka's source. */
  String start() {
    return offset(from);
  }

  /** Where it ends as an offset of Kafka's source. */
  String end() {
    return offset(until);
  }

  private String offset(long at) {
    try {
      return JSON.writeValueAsString(Fixed.map(topic, Fixed.map(Integer.toString(partition), at)));
    } catch (JsonProcessingException never) {
      throw new IllegalStateException(never);
    }
  }

  KafkaRange beginningAt(long offset) {
    return new KafkaRange(topic, partition, offset, until);
  }

  /** The same records in a log that holds all of them at offsets that differ by one number. */
  KafkaRange shifted(String there, long by) {
    return new KafkaRange(there, partition, from + by, until + by);
  }
}
