package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.Offset;

/**
 * Where a source is, in the offsets of one cluster. At home, which is where the checkpoint began,
 * its text is exactly what Spark's Kafka source writes. Elsewhere it says beside the topics which
 * cluster it is of, and since which epoch: {@code "@west":{"epoch":3}}. No topic has such a name,
 * and Spark's Kafka source refuses to read it, so such offsets are never taken for others.
 */
final class SwitchOffset extends Offset {
  /** The epoch of a checkpoint's first cluster. */
  static final long HOME = 0;

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String MARK = "@";
  private static final String EPOCH = "epoch";

  private final long epoch;
  private final String kafka;
  private final String text;

  private SwitchOffset(long epoch, String kafka, String text) {
    this.epoch = epoch;
    this.kafka = kafka;
    this.text = text;
  }

  /** What the Kafka source of a cluster said. */
  static SwitchOffset of(Cluster cluster, String kafka) {
    if (cluster.epoch() == HOME) {
      return new SwitchOffset(HOME, kafka, kafka);
    }
    ObjectNode marked = object(kafka);
    marked.putObject(MARK + cluster.name()).put(EPOCH, cluster.epoch());
    return new SwitchOffset(cluster.epoch(), kafka, marked.toString());
  }

  /** As it is in the log; a text without a mark stays byte for byte what it is. */
  static SwitchOffset parse(String text) {
    ObjectNode topics = object(text);
    List<String> marks = new ArrayList<>();
    topics
        .fieldNames()
        .forEachRemaining(
            name -> {
              if (name.startsWith(MARK)) {
                marks.add(name);
              }
            });
    if (marks.isEmpty()) {
      return new SwitchOffset(HOME, text, text);
    }
    JsonNode epoch = marks.size() == 1 ? topics.remove(marks.get(0)).get(EPOCH) : null;
    if (epoch == null || !epoch.isIntegralNumber() || epoch.longValue() <= HOME) {
      throw new IllegalArgumentException(text + " does not say which cluster it is of");
    }
    return new SwitchOffset(epoch.longValue(), topics.toString(), text);
  }

  private static ObjectNode object(String text) {
    try {
      JsonNode found = JSON.readTree(text);
      if (found instanceof ObjectNode) {
        return (ObjectNode) found;
      }
    } catch (JsonProcessingException notJson) {
      // the same sentence says it
    }
    throw new IllegalArgumentException(text + " is no offset of a Kafka source");
  }

  /** When the query came to the cluster that these offsets are of. */
  long epoch() {
    return epoch;
  }

  /** As Spark's Kafka source reads and writes it. */
  String kafka() {
    return kafka;
  }

  @Override
  public String json() {
    return text;
  }
}
