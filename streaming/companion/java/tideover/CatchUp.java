package tideover;

import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;

/**
 * Limits the batches of a run that has fallen behind: behind a start, a move or a silence of its
 * cluster, until a batch has taken all that there is. The first batch would take all of an outage
 * otherwise. The query's own limit holds as well.
 */
final class CatchUp {
  private final long records;
  private volatile boolean isBehind = true;

  /** Makes one; 0 records: no limit. */
  CatchUp(long records) {
    this.records = records;
  }

  void begin() {
    isBehind = true;
  }

  /** What the next batch may take, where the query itself has this limit. */
  ReadLimit limited(ReadLimit own) {
    if (records == 0 || !isBehind) {
      return own;
    }
    ReadLimit[] all =
        own instanceof CompositeReadLimit
            ? ((CompositeReadLimit) own).getReadLimits()
            : new ReadLimit[] {own};
    long most =
        Arrays.stream(all)
            .filter(ReadMaxRows.class::isInstance)
            .mapToLong(each -> ((ReadMaxRows) each).maxRows())
            .reduce(records, Math::min);
    ReadLimit[] others =
        Arrays.stream(all)
            .filter(each -> !(each instanceof ReadMaxRows || each instanceof ReadAllAvailable))
            .toArray(ReadLimit[]::new);
    ReadLimit limit = ReadLimit.maxRows(most);
    return others.length == 0
        ? limit
        : ReadLimit.compositeLimit(
            Stream.concat(Arrays.stream(others), Stream.of(limit)).toArray(ReadLimit[]::new));
  }

  /**
   * A batch takes everything up to an offset; {@code end} is where the log ends, null if unknown.
   */
  void took(Offset until, Offset end) {
    if (isBehind && end != null && end.json().equals(until.json())) {
      isBehind = false;
    }
  }
}
