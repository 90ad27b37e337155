package tideover;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * What an application does with Kafka beside the sources of its queries: a sink that writes to a
 * topic, and batches that read or write one. A topic that the configuration declares for a query is
 * on the cluster where that query is; every other one stays where the code names it.
 */
final class Beside {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ConcurrentMap<String, Query> KNOWN = new ConcurrentHashMap<>();
  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();
  private static volatile CountDownLatch declared = new CountDownLatch(1);
  private static volatile long deadline;

  private Beside() {}

  /** To read or to write; the key under which a run's options have those for it. */
  enum Way {
    READS("@reads"),
    WRITES("@writes");

    /** No declared source has such a name. */
    private final String key;

    Way(String key) {
      this.key = key;
    }
  }

  /**
   * What a query declares.
   *
   * @param first by way the options that are laid over the application's, before any move of the
   *     run
   * @param hold of its run; of one that was not admitted yet a hold that cannot begin
   */
  record Query(
      String name,
      Map<Way, Set<String>> topics,
      Map<String, Map<String, String>> first,
      Hold hold,
      boolean isAdmitted) {
    static Query of(JsonNode given, Hold hold, boolean isAdmitted) {
      return new Query(
          given.required("query").asText(),
          Map.of(Way.READS, texts(given.path("reads")), Way.WRITES, texts(given.path("writes"))),
          JSON.convertValue(given.required("options"), new TypeReference<>() {}),
          hold,
          isAdmitted);
    }

    private static Set<String> texts(JsonNode listed) {
      return Set.of(JSON.convertValue(listed, String[].class));
    }

    boolean declares(Way way, Set<String> named) {
      return !named.isEmpty() && topics.get(way).containsAll(named);
    }

    /** As they are now: a run that was held may have gone to another cluster. */
    Map<String, String> options(Way way) {
      Map<String, Map<String, String>> moved = hold.place().options();
      return (moved.isEmpty() ? first : moved).getOrDefault(way.key, Map.of());
    }

    String cluster(Way way) {
      return options(way).get(SwitchProvider.CLUSTER);
    }

    /** Whether the application's own connection does not lead there. */
    boolean isElsewhere(Way way) {
      return options(way).containsKey(JobOptions.SERVERS);
    }
  }

  /**
   * A run whose batch writes to one cluster, or reads a batch of it, cannot leave in its middle.
   */
  private record WholeBatches() implements Hold.Source {
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

  /** A batch that comes before the declarations waits for them, at most so long from now on. */
  static void begin(long milliseconds) {
    deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    declared = new CountDownLatch(1);
    KNOWN.clear();
  }

  /** What all queries of the application declare, as far as none of their runs knows it better. */
  static void declare(JsonNode queries) {
    for (JsonNode each : queries) {
      Query found = Query.of(each, new Hold(), false);
      KNOWN.merge(found.name(), found, (known, now) -> known.isAdmitted() ? known : now);
    }
    declared.countDown();
  }

  /** From now on the run with this hold knows where its query is. */
  static void admit(JsonNode given, Hold hold) {
    Query query = Query.of(given, hold, true);
    KNOWN.put(query.name(), query);
    if (given.path("follows").asBoolean()) {
      hold.join(Way.WRITES.key, new WholeBatches());
    }
  }

  /** What an admitted query declares. */
  static Optional<Query> of(String query) {
    return Optional.ofNullable(KNOWN.get(query)).filter(Query::isAdmitted);
  }

  /** The cluster to which the declared output of a query goes; empty: it declares none. */
  static Optional<String> written(String query) {
    return of(query)
        .filter(each -> !each.topics().get(Way.WRITES).isEmpty())
        .map(each -> each.cluster(Way.WRITES));
  }

  /**
   * The query that declares all of these topics; empty: none does, and they stay where they are.
   *
   * @throws IllegalStateException where several do that are not on one cluster
   */
  static Optional<Query> declaring(Way way, Set<String> topics) {
    await();
    List<Query> found = KNOWN.values().stream().filter(each -> each.declares(way, topics)).toList();
    if (found.stream().map(each -> each.options(way)).distinct().count() > 1) {
      throw new IllegalStateException(
          "tideover: "
              + String.join(", ", topics)
              + " is declared by "
              + found.stream().map(Query::name).sorted().collect(Collectors.joining(" and "))
              + ", which are on different clusters: move them to one, or declare it for one of"
              + " them");
    }
    return found.stream().findFirst();
  }

  private static void await() {
    try {
      long left = deadline - System.nanoTime();
      if (declared.getCount() > 0 && !declared.await(left, TimeUnit.NANOSECONDS)) {
        sayOnce(
            "no answer from the attendant: batches of Kafka use the cluster that the code names");
      }
    } catch (InterruptedException stopped) {
      throw Companion.<RuntimeException>undeclared(stopped);
    }
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
        ? Set.of()
        : Arrays.stream(listed.split(","))
            .map(String::trim)
            .filter(each -> !each.isEmpty())
            .collect(Collectors.toUnmodifiableSet());
  }
}
