package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Keeps a run between two batches, until it continues where it was or on another cluster.
 *
 * <p>Spark requests from each source of a run, one after the other, what is new, and plans a batch
 * of the answers. The first source waits here, so that no answer of the cluster that is left gets
 * into a batch. A run is known by the follower of its {@link Admission}.
 *
 * <p>A run whose tasks all wait for a silent cluster does not come to the end of its batch. It can
 * be held in the middle: then no task of it gets another record, and nothing is published, until
 * the hold ends. Only tasks of this JVM are known, and continue elsewhere.
 */
public final class Hold {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ConcurrentMap<String, Hold> RUNS = new ConcurrentHashMap<>();

  private final Set<String> answered = new HashSet<>();
  private final Map<String, Source> sources = new HashMap<>();
  private boolean held;
  private boolean inBatch;
  private int waitingTasks;
  private boolean waiting;
  private Place place = Place.START;

  /**
   * Where a run reads: by the name of each declared source the options of Spark's Kafka source and
   * our own; none where it has stayed where it was. Its epoch is empty until it has gone on once.
   */
  static final class Place extends Value {
    static final Place START = new Place(OptionalLong.empty(), Fixed.map());

    private final OptionalLong epoch;
    private final Map<String, Map<String, String>> options;

    Place(OptionalLong epoch, Map<String, Map<String, String>> options) {
      this.epoch = epoch;
      this.options = options;
    }

    OptionalLong epoch() {
      return epoch;
    }

    Map<String, Map<String, String>> options() {
      return options;
    }

    @Override
    Object[] parts() {
      return new Object[] {epoch, options};
    }
  }

  /** A source of the run, as far as a batch under way is concerned. */
  interface Source {
    /**
     * Whether the batch under way can continue there, every task with the record it comes to next.
     */
    boolean prepare(Place there);

    /** Whether the batch under way has stayed on one cluster so far, so that it may leave that. */
    boolean mayLeave();

    /** Where it continues, once it was sent there. */
    Optional<Elsewhere> elsewhere();
  }

  Hold() {}

  /** Makes the hold of a run that is followed from now on. */
  static void follow(String follower) {
    RUNS.putIfAbsent(follower, new Hold());
  }

  /**
   * Of the run with this follower, to be kept: the run has it for as long as it lives. Of one that
   * is not followed it is one that cannot begin.
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
   * Holds a run that is to be held where it is, in its batch. It is quiet if all of its tasks wait:
   * count those that run after this.
   */
  public static void keepInBatch(String follower) {
    of(follower).setInBatch(true);
  }

  /** Lets the batch of a run that is held continue to its end. */
  public static void leaveBatch(String follower) {
    of(follower).setInBatch(false);
  }

  /** How many tasks of the run wait for a record of a silent cluster. */
  public static int waitingTasks(String follower) {
    return of(follower).waitingTasks();
  }

  /** Whether the batch of a run may leave its cluster: it does so once. */
  public static boolean mayLeave(String follower) {
    return of(follower).sources().stream().allMatch(Source::mayLeave);
  }

  /**
   * Whether a run that is held in its batch could continue under an epoch, with these options as in
   * {@link #end}. It stays held, and each source keeps what it has found out.
   */
  public static boolean canEnd(String follower, long epoch, String options)
      throws JsonProcessingException {
    return of(follower).isPrepared(new Place(OptionalLong.of(epoch), parsed(options)));
  }

  /**
   * Lets the run continue under an epoch. False where it cannot, because it was held in a batch of
   * which a source does not find each record there: then it stays held.
   *
   * @param options as in {@link Place}, as JSON; null: it stays where it is
   */
  public static boolean end(String follower, long epoch, String options)
      throws JsonProcessingException {
    return of(follower).release(epoch, options == null ? null : parsed(options));
  }

  private static Map<String, Map<String, String>> parsed(String options)
      throws JsonProcessingException {
    return JSON.readValue(options, new TypeReference<Map<String, Map<String, String>>>() {});
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

  boolean release(long epoch, Map<String, Map<String, String>> options) {
    Place next = new Place(OptionalLong.of(epoch), options == null ? place().options() : options);
    if (options != null && !isPrepared(next)) {
      return false;
    }
    synchronized (this) {
      place = next;
      held = false;
      inBatch = false;
      notifyAll();
    }
    return true;
  }

  private boolean isPrepared(Place next) {
    List<Source> asked = isInBatch() ? sources() : Fixed.list();
    return asked.stream().allMatch(each -> each.prepare(next));
  }

  private synchronized List<Source> sources() {
    return Fixed.copy(sources.values());
  }

  synchronized void setInBatch(boolean kept) {
    inBatch = kept;
    notifyAll();
  }

  synchronized int waitingTasks() {
    return waitingTasks;
  }

  /** A task begins to wait. */
  synchronized void taskWaits() {
    waitingTasks++;
  }

  /** It continues with a record; not before a hold in its batch has ended. */
  synchronized void taskContinues() {
    passInBatch();
    waitingTasks--;
  }

  /** It was stopped, or has failed: it continues with nothing, and waits for no hold. */
  synchronized void taskEnds() {
    waitingTasks--;
  }

  /** Waits while the run is held in its batch; a stop interrupts that, undeclared. */
  synchronized void passInBatch() {
    while (inBatch) {
      rest();
    }
  }

  private void rest() {
    try {
      wait();
    } catch (InterruptedException stopped) {
      throw Companion.<RuntimeException>undeclared(stopped);
    }
  }

  synchronized boolean isInBatch() {
    return inBatch;
  }

  synchronized void join(String key, Source source) {
    sources.put(key, source);
  }

  synchronized void leave(String key) {
    sources.remove(key);
  }

  /** Where a source's tasks continue that were planned on this cluster; empty: where they are. */
  Optional<Elsewhere> elsewhere(String key, Cluster planned) {
    Source source;
    synchronized (this) {
      source = sources.get(key);
    }
    return Optional.ofNullable(source)
        .flatMap(Source::elsewhere)
        .filter(there -> !there.cluster().equals(planned));
  }

  /** Whether a source is the first one of the next batch. */
  synchronized boolean isFirst(String source) {
    if (answered.contains(source)) {
      answered.clear(); // the second call: a new round has begun
    }
    return answered.isEmpty();
  }

  /** A source has said what is new to it. */
  synchronized void answered(String source) {
    answered.add(source);
  }

  /** Waits while the run is held; a stop interrupts that, undeclared. */
  synchronized void await() {
    waiting = true;
    try {
      while (held) {
        rest();
      }
    } finally {
      waiting = false;
    }
  }
}
