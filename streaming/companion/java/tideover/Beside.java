package tideover;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/**
 * What an application does with Kafka beside the sources of its queries: a sink that writes to a
 * topic, and batches that read or write one. A topic that the configuration declares for a query is
 * on the cluster where that query is. Every other one stays where the code names it, and so does
 * what names other servers than the query's own.
 */
final class Beside {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ConcurrentMap<String, Query> ADMITTED = new ConcurrentHashMap<>();
  private static final ConcurrentMap<String, Set<String>> SOURCES = new ConcurrentHashMap<>();
  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();

  private Beside() {}

  /** To read or to write; the key under which a run's options have those for it. */
  enum Way {
    READS("@reads", "reads"),
    WRITES("@writes", "writes to");

    /** No declared source has such a name. */
    private final String key;

    private final String verb;

    Way(String key, String verb) {
      this.key = key;
      this.verb = verb;
    }
  }

  /** What a query declares. */
  static final class Query {
    private final String name;
    private final Map<Way, Set<String>> topics;

    /** The servers of its first cluster; empty: not known, so that any may be its own. */
    private final Set<String> home;

    /**
     * By way the options that are laid over the application's, before any move of the run; none
     * while it is not known where the query is.
     */
    private final Map<String, Map<String, String>> first;

    /** Of its run; of one that was not admitted yet a hold that cannot begin. */
    private final Hold hold;

    /** Whether this run lives, so that its hold says where the query is. */
    private final BooleanSupplier runs;

    /** The declaration as it came. */
    private final JsonNode given;

    Query(
        String name,
        Map<Way, Set<String>> topics,
        Set<String> home,
        Map<String, Map<String, String>> first,
        Hold hold,
        BooleanSupplier runs,
        JsonNode given) {
      this.name = name;
      this.topics = topics;
      this.home = home;
      this.first = first;
      this.hold = hold;
      this.runs = runs;
      this.given = given;
    }

    String name() {
      return name;
    }

    Map<Way, Set<String>> topics() {
      return topics;
    }

    Hold hold() {
      return hold;
    }

    BooleanSupplier runs() {
      return runs;
    }

    JsonNode given() {
      return given;
    }

    static Query of(JsonNode given, Hold hold, BooleanSupplier runs) {
      return new Query(
          given.required("query").asText(),
          Fixed.map(Way.READS, texts(given.path("reads")), Way.WRITES, texts(given.path("writes"))),
          JobOptions.servers(String.join(",", texts(given.path("home")))),
          given.has("options")
              ? JSON.convertValue(
                  given.get("options"), new TypeReference<Map<String, Map<String, String>>>() {})
              : Fixed.map(),
          hold,
          runs,
          given);
    }

    private static Set<String> texts(JsonNode listed) {
      return StreamSupport.stream(listed.spliterator(), false)
          .map(JsonNode::asText)
          .collect(Collectors.toSet());
    }

    boolean declares(Way way, Set<String> named) {
      return topics.get(way).containsAll(named);
    }

    /**
     * Whether servers of the code are the query's own: one of them is a server of its first
     * cluster, or they are those that its source names.
     */
    boolean owns(String servers) {
      Set<String> named = JobOptions.servers(servers);
      return home.isEmpty()
          || named.stream().anyMatch(home::contains)
          || !named.isEmpty() && named.equals(SOURCES.get(name));
    }

    /** As they are now: a run that was held may have gone to another cluster. */
    Map<String, String> options(Way way) {
      Map<String, Map<String, String>> moved = hold.place().options();
      return (moved.isEmpty() ? first : moved).getOrDefault(way.key, Fixed.map());
    }

    String cluster(Way way) {
      return options(way).get(SwitchProvider.CLUSTER);
    }

    /** Whether the application's own connection does not lead there. */
    boolean isElsewhere(Way way) {
      return options(way).containsKey(JobOptions.SERVERS);
    }

    /** The name that a topic has there. */
    String named(Way way, String topic) {
      return options(way).getOrDefault("topic:" + topic, topic);
    }

    /** Where these topics are for a batch; how the other options are does not matter. */
    private List<Object> place(Way way, Set<String> topics) {
      Map<String, String> names = new HashMap<>();
      topics.forEach(each -> names.put(each, named(way, each)));
      return Fixed.list(cluster(way), isElsewhere(way), names);
    }

    /** Why it is not known now where it is; empty: it is known. */
    private Optional<String> open() {
      return given.has("waits") ? Optional.of(given.get("waits").asText()) : Optional.empty();
    }
  }

  /**
   * A run whose batch writes to one cluster, or reads a batch of it, cannot leave in its middle.
   */
  private static final class WholeBatches implements Hold.Source {
    @Override
    public boolean prepare(Hold.Place there) {
      return false;
    }

    @Override
    public boolean mayLeave() {
      return false;
    }

    @Override
    public Optional<Elsewhere> elsewhere() {
      return Optional.empty();
    }
  }

  /** From now on a batch waits at most so long for a word of the attendant. */
  static void begin(long milliseconds) {
    BesideAnswers.begin(milliseconds);
    ADMITTED.clear();
    SOURCES.clear();
  }

  /**
   * What all queries of the application declare.
   *
   * @param answers the newest request of a batch that this answers; 0: none
   */
  static void declare(JsonNode queries, long answers) {
    Map<String, Query> found = new HashMap<>();
    for (JsonNode each : queries) {
      Query query = Query.of(each, new Hold(), () -> false);
      found.put(query.name(), query);
    }
    BesideAnswers.declare(found, answers);
  }

  /** From now on the run with this hold knows where its query is, for as long as it runs. */
  static void admit(JsonNode given, Hold hold, BooleanSupplier runs) {
    Query query = Query.of(given, hold, runs);
    ADMITTED.put(query.name(), query);
    if (given.path("follows").asBoolean()) {
      hold.join(Way.WRITES.key, new WholeBatches());
    }
  }

  /** The servers by which the code of a query's source reaches its first cluster. */
  static void reads(String query, String servers) {
    SOURCES.put(query, JobOptions.servers(servers));
  }

  /** What an admitted query declares. */
  static Optional<Query> of(String query) {
    return Optional.ofNullable(ADMITTED.get(query));
  }

  /** The cluster to which the declared output of a query goes; empty: it declares none. */
  static Optional<String> written(String query) {
    return of(query)
        .filter(each -> !each.topics().get(Way.WRITES).isEmpty())
        .map(each -> each.cluster(Way.WRITES));
  }

  /**
   * The query that declares all of these topics. Empty where none does, or where the code names
   * other servers: they stay. Waits while it is not known where that query is.
   *
   * @param servers as the code names them
   * @throws IllegalStateException where several do that are not in one place, and where it does not
   *     become known where a query is that was moved before
   */
  static Optional<Query> declaring(Way way, Set<String> topics, String servers) {
    if (topics.isEmpty()) {
      return Optional.empty();
    }
    BesideAnswers.Waiting waiting = new BesideAnswers.Waiting(String.join(", ", topics));
    while (true) {
      Optional<List<Query>> known = waiting.known();
      if (known.isPresent()) {
        List<Query> found = own(known.get(), way, topics, servers);
        if (found.isEmpty()) {
          return Optional.empty();
        }
        Optional<String> open = open(found, waiting);
        if (!open.isPresent()) {
          return Optional.of(only(found, way, topics));
        }
        waiting.why(open.get());
      }
      if (!waiting.hears()) {
        requireNeverMoved(own(waiting.last(), way, topics, servers), topics);
        return Optional.empty();
      }
    }
  }

  private static List<Query> own(List<Query> known, Way way, Set<String> topics, String servers) {
    List<Query> named =
        known.stream().filter(each -> each.declares(way, topics)).collect(Collectors.toList());
    List<Query> found =
        named.stream().filter(each -> each.owns(servers)).collect(Collectors.toList());
    if (found.isEmpty() && !named.isEmpty()) {
      sayOnce(
          "a batch "
              + way.verb
              + " "
              + String.join(", ", topics)
              + " on "
              + servers
              + ", which are other servers than those of "
              + names(named)
              + ": it stays there");
    }
    return found;
  }

  /** Why one of them has no certain place now. */
  private static Optional<String> open(List<Query> found, BesideAnswers.Waiting waiting) {
    for (Query each : found) {
      Query run = run(each);
      if (run != null) {
        if (run.hold().waits()) {
          waiting.hold();
          return Optional.of(each.name() + " is held for a move");
        }
      } else if (each.given().has("refused")) {
        throw new IllegalStateException("tideover: " + each.given().get("refused").asText());
      } else if (!waiting.isAnswered() || each.open().isPresent()) {
        return Optional.of(each.open().orElse(each.name() + " has no run here"));
      }
    }
    return Optional.empty();
  }

  private static Query run(Query declared) {
    Query admitted = ADMITTED.get(declared.name());
    return admitted != null && admitted.runs().getAsBoolean() ? admitted : null;
  }

  private static Query only(List<Query> declared, Way way, Set<String> topics) {
    Function<Query, Query> newest = each -> Optional.ofNullable(run(each)).orElse(each);
    List<Query> found = declared.stream().map(newest).collect(Collectors.toList());
    if (found.stream().map(each -> each.place(way, topics)).distinct().count() > 1) {
      throw new IllegalStateException(
          "tideover: "
              + String.join(", ", topics)
              + " is declared by "
              + found.stream()
                  .map(each -> each.name() + " on " + each.cluster(way))
                  .sorted()
                  .collect(Collectors.joining(" and "))
              + ", which are in different places: move them to one cluster, or declare it for one"
              + " of them");
    }
    return found.get(0);
  }

  private static void requireNeverMoved(List<Query> found, Set<String> topics) {
    for (Query each : found) {
      String checkpoint = each.given().path("checkpoint").asText();
      if (checkpoint.isEmpty() || Attached.wasMoved(checkpoint)) {
        throw new IllegalStateException(
            "tideover: "
                + each.name()
                + " was moved before, or its checkpoint cannot be read, and the attendant did not"
                + " answer in "
                + BesideAnswers.seconds()
                + " s, so it is unknown on which cluster "
                + String.join(", ", topics)
                + " is: the batch fails");
      }
    }
    sayOnce(
        "no answer from the attendant: a batch of "
            + String.join(", ", topics)
            + " uses the cluster that the code names"
            + (found.isEmpty() ? "" : ", as " + names(found) + " was never moved"));
  }

  private static String names(List<Query> queries) {
    return queries.stream().map(Query::name).sorted().collect(Collectors.joining(" and "));
  }

  /** A line of the log that comes once. */
  static void sayOnce(String line) {
    if (SAID.add(line)) {
      Attached.say(line);
    }
  }

  /** Topics as {@code subscribe} and {@code topic} list them. */
  static Set<String> topics(String listed) {
    return listed == null
        ? Fixed.set()
        : Arrays.stream(listed.split(","))
            .map(String::trim)
            .filter(each -> !each.isEmpty())
            .collect(Collectors.toSet());
  }

  /** Topics as {@code assign} names them; none where it cannot be read, which Spark refuses. */
  static Set<String> assigned(String partitions) {
    try {
      Set<String> names = new HashSet<>();
      JSON.readTree(partitions == null ? "{}" : partitions)
          .fieldNames()
          .forEachRemaining(names::add);
      return names;
    } catch (com.fasterxml.jackson.core.JsonProcessingException unreadable) {
      return Fixed.set();
    }
  }
}
