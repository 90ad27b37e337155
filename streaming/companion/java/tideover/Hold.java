package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashSet;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Keeps a run between two batches, until it goes on where it was or on another cluster.
 *
 * <p>Spark asks each source of a run, one after the other, what is new, and plans a batch of the
 * answers. Who is asked first waits here, so that no answer of the cluster that is left gets into a
 * batch. A run is known by its setting {@link BatchNews#FOLLOWER}.
 */
public final class Hold {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ConcurrentMap<String, Hold> RUNS = new ConcurrentHashMap<>();

  private final Set<String> answered = new HashSet<>();
  private boolean held;
  private boolean waiting;
  private Place place = Place.START;

  /**
   * Where a run reads: by the name of each declared source the options of Spark's Kafka source and
   * our own; none where it has stayed where it was. Its epoch is empty until it has gone on once.
   */
  record Place(OptionalLong epoch, Map<String, Map<String, String>> options) {
    static final Place START = new Place(OptionalLong.empty(), Map.of());
  }

  Hold() {}

  /** Makes the hold of a run that is followed from now on. */
  static void follow(String follower) {
    RUNS.putIfAbsent(follower, new Hold());
  }

  /**
   * Of the run with this setting, to be kept: the run has it for as long as it lives. Of one that
   * nobody follows it is one that nobody can begin.
   */
  static Hold of(String follower) {
    Hold known = follower == null ? null : RUNS.get(follower);
    return known == null ? new Hold() : known;
  }

  /** From now on the run plans no batch; the one under way is not touched. */
  public static void begin(String follower) {
    of(follower).hold();
  }

  /** Whether the run's thread has come to the hold, and waits there. */
  public static boolean isWaiting(String follower) {
    return of(follower).waits();
  }

  /**
   * Lets the run go on under an epoch.
   *
   * @param options as in {@link Place}, as JSON; null: it stays where it is
   */
  public static void end(String follower, long epoch, String options)
      throws JsonProcessingException {
    Hold hold = of(follower);
    Map<String, Map<String, String>> there =
        options == null ? null : JSON.readValue(options, new TypeReference<>() {});
    hold.release(epoch, there);
  }

  static void forget(String follower) {
    RUNS.remove(follower);
  }

  synchronized void hold() {
    held = true;
    notifyAll();
  }

  synchronized boolean isHeld() {
    return held;
  }

  synchronized boolean waits() {
    return held && waiting;
  }

  synchronized Place place() {
    return place;
  }

  synchronized void release(long epoch, Map<String, Map<String, String>> options) {
    place = new Place(OptionalLong.of(epoch), options == null ? place.options() : options);
    held = false;
    notifyAll();
  }

  /** Whether a source is the first to be asked for the next batch. */
  synchronized boolean isFirst(String source) {
    if (answered.contains(source)) {
      answered.clear(); // asked again: a new round has begun
    }
    return answered.isEmpty();
  }

  /** A source has said what is new to it. */
  synchronized void answered(String source) {
    answered.add(source);
  }

  /** Waits while the run is held. */
  synchronized void await() throws InterruptedException {
    waiting = true;
    try {
      while (held) {
        wait();
      }
    } finally {
      waiting = false;
    }
  }
}
