package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.Serializable;
import java.util.Map;

/**
 * What the topics of a cluster are called at home, where the checkpoint began.
 *
 * @param names by the name on the cluster, where the route names topics one by one
 * @param prefix what the route puts before every name; empty: nothing
 */
record Naming(Map<String, String> names, String prefix) implements Serializable {
  /** A cluster on which topics have the names that they have at home. */
  static final Naming SAME = new Naming(Map.of(), "");

  private static final ObjectMapper JSON = new ObjectMapper();

  Naming {
    names = names == null ? Map.of() : Map.copyOf(names);
    prefix = prefix == null ? "" : prefix;
  }

  /** Of each cluster on which topics are renamed: {@code {"west":{"prefix":"east."}}}. */
  static Map<String, Naming> parse(String text) {
    if (text == null) {
      return Map.of();
    }
    try {
      return JSON.readValue(text, new TypeReference<>() {});
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(text + " does not say how topics are renamed", error);
    }
  }

  /** Whether a topic may have another name at home. */
  boolean isSame() {
    return names.isEmpty() && prefix.isEmpty();
  }

  /** The name at home of a topic of this cluster. */
  String home(String topic) {
    String named = names.get(topic);
    if (named != null) {
      return named;
    }
    return topic.startsWith(prefix) ? topic.substring(prefix.length()) : topic;
  }
}
