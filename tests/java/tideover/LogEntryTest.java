package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Optional;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class LogEntryTest {
  @Test
  void entriesOfBothLogsAreKnownByTheirPath() {
    Path checkpoint = new Path("hdfs://nn/shop/revenue");
    assertEquals(
        Optional.of(new LogEntry(checkpoint, "offsets", 7)),
        LogEntry.of(new Path("hdfs://nn/shop/revenue/offsets/7")));
    assertEquals(
        Optional.of(new LogEntry(new Path("/shop/revenue"), "commits", 0)),
        LogEntry.of(new Path("/shop/revenue/commits/0")));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "/shop/revenue/metadata",
        "/shop/revenue/sources/0/0",
        "/shop/revenue/state/0/1/7.delta",
        "/shop/revenue/offsets/.7.9f1c.tmp",
        "/shop/revenue/offsets/.7.crc",
        "/shop/revenue/offsets/7a",
        "/shop/revenue/offsets/1234567890123456789",
        "/shop/out/_spark_metadata/7",
        "/offsets",
        "7"
      })
  void everyOtherFileIsNoEntry(String path) {
    assertTrue(LogEntry.of(new Path(path)).isEmpty());
  }

  @Test
  void anEntryIsToldAsItLiesInTheCheckpoint() {
    assertEquals("offsets/7", new LogEntry(new Path("/shop"), "offsets", 7).name());
  }
}
