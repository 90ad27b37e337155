package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.ShutdownHookManager;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * The queries of an application that starts them itself. Each start requests its admission here,
 * before Spark has read anything, and waits. The attendant, a process beside this one, reads the
 * open requests, answers them, and finds the running queries here.
 *
 * <p>The methods that are public are for the attendant, which reaches them through the door that
 * {@link AttachPlugin} opens.
 */
public final class Attached {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ConcurrentMap<String, AdmissionRequest> OPEN = new ConcurrentHashMap<>();
  private static final ConcurrentMap<String, JobOptions.Sources> SOURCES =
      new ConcurrentHashMap<>();
  private static final ConcurrentMap<String, SparkSession> SESSIONS = new ConcurrentHashMap<>();
  private static final Set<String> PLAIN = ConcurrentHashMap.newKeySet();
  private static volatile boolean active;
  private static volatile boolean closing;
  private static volatile long patience = 60_000;
  private static volatile SparkContext context;
  private static int exitCode;

  private Attached() {}

  /** From now on each start in this JVM needs an answer, for which it waits at most so long. */
  static void begin(long milliseconds) {
    patience = milliseconds;
    Beside.begin(milliseconds);
    active = true;
  }

  static boolean isActive() {
    return active;
  }

  static void run(SparkContext of) {
    context = of;
  }

  static void close() {
    closing = true;
  }

  /**
   * Waits until it is known who may start the query of a checkpoint. True where the query is
   * Tideover's and was admitted; false where it runs as its application says.
   *
   * <p>Where no answer comes in time, a query that was never moved runs as its application says:
   * its application knows where to read. One that was moved does not start.
   */
  static boolean admit(Path checkpoint, Configuration conf) throws IOException {
    String key = Admissions.key(checkpoint, conf);
    AdmissionRequest request = new AdmissionRequest(patience);
    if (OPEN.putIfAbsent(key, request) != null) {
      throw new IOException("tideover: " + key + " is being started twice in one application");
    }
    PLAIN.remove(key);
    SOURCES.remove(key);
    try {
      Optional<JsonNode> answer = request.await(line -> say(key + ": " + line));
      if (!answer.isPresent()) {
        requireNeverMoved(checkpoint, conf);
        PLAIN.add(key);
        say(
            key
                + ": no answer from the attendant in "
                + patience / 1000
                + " s. It was never moved, so it runs as its application says, without Tideover");
        return false;
      }
      JsonNode given = answer.get();
      if (given.has("refused")) {
        throw new IOException("tideover: " + given.get("refused").asText());
      }
      if (!given.path("ours").asBoolean()) {
        say(key + ": in no configuration of this application, so it is left alone");
        return false;
      }
      long epoch = given.required("epoch").asLong();
      String query = given.required("query").asText();
      SOURCES.put(key, JobOptions.Sources.of(query, given.required("sources")));
      Admissions.grant(
          conf, checkpoint.toString(), query, epoch, given.required("follower").asText());
      Hold hold = Admissions.of(checkpoint, conf).hold();
      Beside.admit(given.required("beside"), hold, () -> query(key) != null);
      say(key + ": admitted as " + query + " with epoch " + epoch);
      return true;
    } finally {
      OPEN.remove(key);
    }
  }

  private static void requireNeverMoved(Path checkpoint, Configuration conf) throws IOException {
    if (Fence.wasMoved(checkpoint, conf)) {
      throw new IOException(
          "tideover: "
              + checkpoint
              + " was moved before, and the attendant did not answer in "
              + patience / 1000
              + " s, so it is unknown which cluster it has to read: it is not started");
    }
  }

  static void say(String line) {
    System.err.println("tideover: " + line);
  }

  /** The sources of an admitted query, as it is analysed for its start; empty: it is not ours. */
  static Optional<JobOptions.Sources> sources(Path checkpoint, SparkSession session)
      throws IOException {
    String key = Admissions.key(checkpoint, session.sparkContext().hadoopConfiguration());
    Optional<JobOptions.Sources> known = Optional.ofNullable(SOURCES.get(key));
    if (known.isPresent() || PLAIN.contains(key)) {
      SESSIONS.put(key, session);
    }
    return known;
  }

  /** The checkpoints for which a start waits, one a line. */
  public static String requests() {
    return OPEN.entrySet().stream()
        .filter(each -> each.getValue().isOpen())
        .map(Map.Entry::getKey)
        .collect(Collectors.joining("\n"));
  }

  /** Answers a start; false where it does not wait any more. */
  public static boolean answer(String key, String json) throws JsonProcessingException {
    AdmissionRequest request = OPEN.get(key);
    return request != null && request.answer(JSON.readTree(json));
  }

  /**
   * What each query of the application declares beside its sources, as a list of JSON.
   *
   * @param answers the request of {@link #batches} that this answers; 0: none
   */
  public static void declare(String queries, long answers) throws JsonProcessingException {
    Beside.declare(JSON.readTree(queries), answers);
  }

  /** The newest request of a batch that waits for {@link #declare}; 0: none waits. */
  public static long batches() {
    return BesideAnswers.wanted();
  }

  /** Whether a checkpoint was moved; also where that cannot be read. */
  static boolean wasMoved(String checkpoint) {
    try {
      Configuration conf = context == null ? new Configuration() : context.hadoopConfiguration();
      return Fence.wasMoved(new Path(checkpoint), conf);
    } catch (IOException unreadable) {
      say(checkpoint + " cannot be read: " + unreadable.getMessage());
      return true;
    }
  }

  /** What the tab in Spark's UI shows of each query, as a list of JSON. */
  public static void show(String queries) throws JsonProcessingException {
    StatusPage.show(JSON.readTree(queries));
  }

  /** The checkpoints of which this JVM knows anything. */
  static Set<String> keys() {
    Set<String> keys = new HashSet<>(OPEN.keySet());
    keys.addAll(SOURCES.keySet());
    keys.addAll(PLAIN);
    return keys;
  }

  /** As what the query of a checkpoint was admitted last, and where it reads or has read. */
  static Optional<JsonNode> known(String key) {
    try {
      String running = context == null ? null : running(key);
      if (running == null) {
        return Optional.empty();
      }
      ObjectNode found = (ObjectNode) JSON.readTree(running);
      return Optional.of(found.put("query", SOURCES.get(key).query()));
    } catch (IOException unreadable) {
      return Optional.empty();
    }
  }

  /** Why a query does not run, or not as it should; empty: the attendant knows how it is. */
  static Optional<String> waits(String key) {
    AdmissionRequest request = OPEN.get(key);
    if (request != null) {
      return Optional.of("the start waits: " + request.why());
    }
    return isPlain(key)
        ? Optional.of("runs without Tideover, as no attendant answered at its start")
        : Optional.empty();
  }

  /** Lets a start wait on, and says why; the time for which it waits begins again. */
  public static void delay(String key, String why) {
    AdmissionRequest request = OPEN.get(key);
    if (request != null) {
      request.delay(why);
    }
  }

  /** One name for a checkpoint, as {@link #requests} gives it. */
  public static String key(String checkpoint) throws IOException {
    return Admissions.key(new Path(checkpoint), context.hadoopConfiguration());
  }

  /** The application; null until it has begun. */
  public static SparkContext context() {
    return context;
  }

  /** Whether the application ends. */
  public static boolean isClosing() {
    return closing || context == null || context.isStopped();
  }

  /** Whether the query of a checkpoint runs here without an admission. */
  public static boolean isPlain(String key) {
    return PLAIN.contains(key) && query(key) != null;
  }

  /** The running query of a checkpoint that was started under a rule of ours; null: none runs. */
  public static StreamingQuery query(String key) {
    SparkSession session = SESSIONS.get(key);
    if (session == null) {
      return null;
    }
    for (StreamingQuery each : session.streams().active()) {
      if (key.equals(checkpointOf(each))) {
        return each;
      }
    }
    return null;
  }

  /**
   * As what the query of a checkpoint runs: its epoch, who follows it, and the cluster and the
   * epoch of the move by which it reads; as JSON. Null where none was admitted.
   */
  public static String running(String key) throws IOException {
    Admission admission = Admissions.of(new Path(key), context.hadoopConfiguration());
    JobOptions.Sources sources = SOURCES.get(key);
    if (!admission.follower().isPresent() || sources == null) {
      return null;
    }
    Hold hold = admission.hold();
    ObjectNode running = JSON.createObjectNode();
    running.put("epoch", admission.run().after(hold).epoch().getAsLong());
    running.put("follower", admission.follower().get());
    sources.reads(hold.place()).forEach(running::put);
    return running.toString();
  }

  /**
   * A query is stopped because it is moved: however the application ends from now on, this is the
   * exit code of its process, for it must not be taken for one that succeeded.
   */
  public static synchronized void condemn(int code, String why) {
    if (exitCode == 0) {
      exitCode = code;
      say(why + ". This run ends with exit code " + code + ", so that it is started again");
      // Behind the hooks of Spark and Hadoop, which have higher priorities.
      ShutdownHookManager.get().addShutdownHook(() -> Runtime.getRuntime().halt(code), 1);
    }
  }

  /** Ends the process of an application that was condemned. */
  public static void exit() {
    Thread end = new Thread(() -> System.exit(exitCode), "tideover exit");
    end.setDaemon(true);
    end.start();
  }

  /** {@code StreamExecution.resolvedCheckpointRoot}, which lies in another package by version. */
  private static String checkpointOf(StreamingQuery query) {
    try {
      Object execution = query.getClass().getMethod("streamingQuery").invoke(query);
      Object root = execution.getClass().getMethod("resolvedCheckpointRoot").invoke(execution);
      return key((String) root);
    } catch (ReflectiveOperationException | IOException unknown) {
      return null;
    }
  }
}
