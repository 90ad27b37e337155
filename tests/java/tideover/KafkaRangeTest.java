package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.junit.jupiter.api.Test;
import scala.Option;

final class KafkaRangeTest {
  /** As Spark's Kafka source plans it. */
  static InputPartition planned(KafkaRange range) {
    TopicPartition place = new TopicPartition(range.topic(), range.partition());
    return new KafkaBatchInputPartition(
        new KafkaOffsetRange(place, range.from(), range.until(), Option.empty()),
        Map.of(),
        1000,
        true,
        false);
  }

  @Test
  void itIsWhatSparksKafkaSourceHasPlanned() {
    KafkaRange range = new KafkaRange("orders", 3, 17, 40);
    assertEquals(Optional.of(range), KafkaRange.of(planned(range)));
  }

  @Test
  void ofAPartitionThatSaysItOtherwiseNobodyKnows() {
    assertEquals(Optional.empty(), KafkaRange.of(new InputPartition() {}));
  }

  @Test
  void itsEndsAreOffsetsOfKafkasSource() {
    KafkaRange range = new KafkaRange("orders", 3, 17, 40);
    assertEquals("{\"orders\":{\"3\":17}}", range.start());
    assertEquals("{\"orders\":{\"3\":40}}", range.end());
    assertEquals(new KafkaRange("orders", 3, 20, 40), range.beginningAt(20));
    assertEquals(new KafkaRange("east.orders", 3, 14, 37), range.shifted("east.orders", -3));
  }
}
