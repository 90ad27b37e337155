package tideover;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options that an application itself gave to a Kafka source. Ours are laid over them: on the
 * cluster that the application names only those of the switching source, elsewhere also where and
 * as whom to read. All else stays as the application says.
 */
final class JobOptions extends Value {
  /** Of a source of which we name all options. */
  static final JobOptions NONE = new JobOptions(Fixed.map());

  static final String SERVERS = "kafka.bootstrap.servers";
  private static final Set<String> TOPICS = Fixed.set("subscribe", "subscribepattern", "assign");

  private final Map<String, String> own;

  JobOptions(Map<String, String> own) {
    this.own = own;
  }

  @Override
  Object[] parts() {
    return new Object[] {own};
  }

  /** The options with ours over them; their names know no case. */
  CaseInsensitiveStringMap under(Map<String, String> ours) {
    Map<String, String> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    all.putAll(own);
    Map<String, String> over = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    over.putAll(ours);
    boolean isElsewhere = over.containsKey(SERVERS);
    boolean isRenamed = over.keySet().stream().anyMatch(each -> TOPICS.contains(small(each)));
    all.keySet()
        .removeIf(
            each ->
                (isElsewhere && isConnection(small(each)))
                    || (isRenamed && TOPICS.contains(small(each))));
    all.putAll(over);
    return new CaseInsensitiveStringMap(new HashMap<>(all));
  }

  private static boolean isConnection(String key) {
    return key.equals(SERVERS)
        || key.startsWith("kafka.security.")
        || key.startsWith("kafka.sasl.")
        || key.startsWith("kafka.ssl.");
  }

  /** The servers of a list as {@code host:port}, so that two lists can be compared. */
  static Set<String> servers(String listed) {
    return Arrays.stream((listed == null ? "" : listed).split(","))
        .map(each -> small(each.trim()).replaceFirst("^[^/]*://", ""))
        .filter(each -> !each.isEmpty())
        .collect(Collectors.toSet());
  }

  /** How a source names its topics, as people see it. */
  static String read(CaseInsensitiveStringMap options) {
    return TOPICS.stream()
        .filter(options::containsKey)
        .map(each -> each + " " + options.get(each))
        .collect(Collectors.joining(", "));
  }

  private static String small(String key) {
    return key.toLowerCase(Locale.ROOT);
  }

  /** The declared sources of a query. */
  static final class Sources {
    private final String query;

    /** By the source's name. */
    private final Map<String, Declared> named;

    Sources(String query, Map<String, Declared> named) {
      this.query = query;
      this.named = named;
    }

    String query() {
      return query;
    }

    static Sources of(String query, JsonNode given) {
      Map<String, Declared> named = new HashMap<>();
      given.fieldNames().forEachRemaining(name -> named.put(name, Declared.of(given.get(name))));
      return new Sources(query, named);
    }

    /** The declared source that reads what these options name, with its name. */
    Map.Entry<String, Declared> of(CaseInsensitiveStringMap options) {
      Optional<Map.Entry<String, Declared>> found =
          named.entrySet().stream().filter(each -> each.getValue().isOf(options)).findFirst();
      return found.orElseThrow(
          () ->
              new IllegalArgumentException(
                  "tideover: "
                      + query
                      + " reads "
                      + read(options)
                      + ", which the configuration does not declare among its sources"));
    }

    /**
     * Where the query reads, behind a hold or from its start: our options of any of its sources.
     */
    Map<String, String> reads(Hold.Place place) {
      Map<String, String> ours =
          place.options().isEmpty()
              ? named.values().iterator().next().options()
              : place.options().get(named.keySet().iterator().next());
      return Fixed.map(
          "cluster", ours.get(SwitchProvider.CLUSTER), "placed", ours.get(SwitchProvider.PLACED));
    }
  }

  /** A declared source. */
  static final class Declared {
    /** As the application names them; empty where it names a pattern. */
    private final Set<String> topics;

    /** As the application names it; empty where it names topics. */
    private final String pattern;

    /** Ours, for where the query is placed now. */
    private final Map<String, String> options;

    Declared(Set<String> topics, String pattern, Map<String, String> options) {
      this.topics = topics;
      this.pattern = pattern;
      this.options = options;
    }

    Map<String, String> options() {
      return options;
    }

    static Declared of(JsonNode given) {
      Set<String> topics =
          Arrays.stream(given.path("topics").asText().split(","))
              .filter(each -> !each.isEmpty())
              .collect(Collectors.toSet());
      Map<String, String> options = new HashMap<>();
      JsonNode ours = given.required("options");
      ours.fieldNames().forEachRemaining(key -> options.put(key, ours.get(key).asText()));
      return new Declared(topics, given.path("pattern").asText(), options);
    }

    boolean isOf(CaseInsensitiveStringMap job) {
      if (job.containsKey("subscribePattern")) {
        return job.get("subscribePattern").equals(pattern);
      }
      return job.containsKey("subscribe")
          && topics.equals(
              Arrays.stream(job.get("subscribe").split(","))
                  .map(String::trim)
                  .collect(Collectors.toSet()));
    }
  }
}
