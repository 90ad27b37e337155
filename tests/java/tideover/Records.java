package tideover;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Records of one partition, as rows of Spark's Kafka source. */
final class Records {
  private static final int CREATE_TIME = 0;

  private Records() {}

  /** The value is text; null is a record without one. */
  static InternalRow row(long offset, String value, long timestamp, int timestampType) {
    return new GenericInternalRow(
        new Object[] {
          "key".getBytes(StandardCharsets.UTF_8),
          value == null ? null : value.getBytes(StandardCharsets.UTF_8),
          "orders",
          0,
          offset,
          timestamp,
          timestampType
        });
  }

  static InternalRow row(long offset, String value) {
    return row(offset, value, 1000 + value.charAt(0), CREATE_TIME);
  }

  static String value(InternalRow row) {
    return new String(row.getBinary(1), StandardCharsets.UTF_8);
  }

  /** Gives these rows, and then is silent, or at the end. */
  static final class Reader implements PartitionReader<InternalRow> {
    final CountDownLatch closed = new CountDownLatch(1);
    private final Deque<InternalRow> rows;
    private final boolean isSilent;
    private InternalRow row;

    Reader(boolean isSilent, InternalRow... rows) {
      this.isSilent = isSilent;
      this.rows = new ArrayDeque<>(List.of(rows));
    }

    @Override
    public boolean next() {
      if (rows.isEmpty() && isSilent) {
        throw new TimeoutException("nobody answered");
      }
      row = rows.poll();
      return row != null;
    }

    @Override
    public InternalRow get() {
      return row;
    }

    @Override
    public void close() {
      closed.countDown();
    }
  }

  /** Opens these readers, one after the other. */
  static PartitionReaderFactory opening(List<? extends PartitionReader<InternalRow>> readers) {
    Deque<PartitionReader<InternalRow>> left = new ArrayDeque<>(readers);
    return partition -> left.remove();
  }

  static List<InputPartition> partitions(int count) {
    List<InputPartition> planned = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      planned.add(new InputPartition() {});
    }
    return planned;
  }
}
