package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;

/** What the topics of a cluster are called at home, where the checkpoint began. */
final class Naming implements Serializable {
  private static final long serialVersionUID = 1;

  /** A cluster on which topics have the names that they have at home. */
  static final Naming SAME = new Naming(Fixed.map(), "");

  private static final ObjectMapper JSON = new ObjectMapper();

  /** By the name on the cluster, where the route names topics one by one. */
  @SuppressWarnings("serial") // it is one of Java's own maps
  private final Map<String, String> names;

  /** What the route puts before every name; empty: nothing. */
  private final String prefix;

  Naming(Map<String, String> names, String prefix) {
    this.names = names == null ? Fixed.map() : Fixed.copy(names);
    this.prefix = prefix == null ? "" : prefix;
  }

  /** Of each cluster on which topics are renamed: {@code {"west":{"prefix":"east."}}}. */
  static Map<String, Naming> parse(String text) {
    if (text == null) {
      return Fixed.map();
    }
    try {
      Map<String, Naming> named = new HashMap<>();
      JSON.readValue(text, new TypeReference<Map<String, ObjectNode>>() {})
          .forEach((cluster, given) -> named.put(cluster, of(given)));
      return named;
    } catch (JsonProcessingException | IllegalArgumentException error) {
      throw new IllegalArgumentException(text + " does not say how topics are renamed", error);
    }
  }

  private static Naming of(ObjectNode given) {
    Map<String, String> names =
        JSON.convertValue(given.get("names"), new TypeReference<Map<String, String>>() {});
    return new Naming(names, given.path("prefix").asText(""));
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
