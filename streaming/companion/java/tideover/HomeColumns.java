package tideover;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * What a query's own logic sees of where a record was read: its topic by the name at home, and,
 * where the query wants that, an offset that continues the home position.
 *
 * <p>Such an offset is {@code offset - target offset of the move + position on the cluster that was
 * left}, from move to move. So it grows with every record that is read, and it is unique in its
 * partition whatever the clusters' own offsets are. The mappings beside the checkpoint alone say
 * what it is.
 */
final class HomeColumns implements Serializable {
  private static final long serialVersionUID = 1;

  /** Rows as Spark's Kafka source gives them. */
  static final HomeColumns AS_READ = new HomeColumns(Naming.SAME, Fixed.map());

  private static final int TOPIC = 2;
  private static final int PARTITION = 3;
  private static final DataType[] FIXED = {
    DataTypes.BinaryType,
    DataTypes.BinaryType,
    DataTypes.StringType,
    DataTypes.IntegerType,
    DataTypes.LongType,
    DataTypes.TimestampType,
    DataTypes.IntegerType
  };

  /** Of the cluster that is read. */
  private final Naming naming;

  /** By topic at home and partition, what is added to an offset; empty: nothing. */
  @SuppressWarnings("serial") // it is one of Java's own maps
  private final Map<String, Map<Integer, Long>> ahead;

  HomeColumns(Naming naming, Map<String, Map<Integer, Long>> ahead) {
    this.naming = naming;
    this.ahead = ahead;
  }

  /**
   * Those of a source that reads a cluster.
   *
   * @param source the key by which the log names it
   * @param named by cluster, how topics are renamed there
   * @param offsets whether offsets continue those of home
   */
  static HomeColumns of(
      Mappings mappings, String source, Map<String, Naming> named, boolean offsets) {
    Naming here = named.getOrDefault(mappings.active().name(), Naming.SAME);
    return new HomeColumns(here, offsets ? ahead(mappings.chain(), source, named) : Fixed.map());
  }

  /**
   * Of two places of a move that lead to one offset the later one counts: what lies before it may
   * have been given to the sink already.
   */
  private static Map<String, Map<Integer, Long>> ahead(
      List<Mapping> chain, String source, Map<String, Naming> named) {
    Map<String, Map<Integer, Long>> ahead = Fixed.map();
    for (Mapping move : chain) {
      Naming left = named.getOrDefault(move.from().name(), Naming.SAME);
      Naming to = named.getOrDefault(move.to().name(), Naming.SAME);
      Map<String, Map<Integer, Long>> next = new HashMap<>();
      for (Mapping.Place place : move.places().getOrDefault(source, Fixed.list())) {
        Map<String, Map<Integer, Long>> there = byHome(place.there(), left);
        for (Map.Entry<String, Map<Integer, Long>> topic : byHome(place.here(), to).entrySet()) {
          Map<Integer, Long> known = ahead.getOrDefault(topic.getKey(), Fixed.map());
          Map<Integer, Long> positions = there.getOrDefault(topic.getKey(), Fixed.map());
          topic
              .getValue()
              .forEach(
                  (partition, offset) -> {
                    Long position = positions.get(partition);
                    long by =
                        position == null
                            ? 0
                            : position + known.getOrDefault(partition, 0L) - offset;
                    next.computeIfAbsent(topic.getKey(), key -> new HashMap<>())
                        .merge(partition, by, Math::max);
                  });
        }
      }
      ahead = next;
    }
    return ahead;
  }

  private static Map<String, Map<Integer, Long>> byHome(JsonNode offsets, Naming named) {
    Map<String, Map<Integer, Long>> found = new HashMap<>();
    offsets
        .fieldNames()
        .forEachRemaining(topic -> found.put(named.home(topic), numbers(offsets.get(topic))));
    return found;
  }

  private static Map<Integer, Long> numbers(JsonNode partitions) {
    Map<Integer, Long> found = new HashMap<>();
    partitions
        .fieldNames()
        .forEachRemaining(each -> found.put(Integer.valueOf(each), partitions.get(each).asLong()));
    return found;
  }

  /** Whether offsets are those of another log than the one that is read. */
  boolean movesOffsets() {
    return !ahead.isEmpty();
  }

  /** The row as the query sees it. */
  InternalRow of(InternalRow row) {
    if (naming.isSame() && ahead.isEmpty()) {
      return row;
    }
    String topic = row.get(TOPIC, FIXED[TOPIC]).toString();
    String home = naming.home(topic);
    long by =
        Optional.ofNullable(ahead.get(home))
            .map(each -> each.get(row.getInt(PARTITION)))
            .orElse(0L);
    if (by == 0 && home.equals(topic)) {
      return row;
    }
    Object[] values = new Object[row.numFields()];
    for (int i = 0; i < values.length; i++) {
      values[i] =
          row.isNullAt(i) ? null : i < FIXED.length ? row.get(i, FIXED[i]) : row.getArray(i);
    }
    values[TOPIC] = CatalystTypeConverters.convertToCatalyst(home);
    values[Leg.OFFSET] = row.getLong(Leg.OFFSET) + by;
    return new GenericInternalRow(values);
  }
}
