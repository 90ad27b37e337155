package tideover;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * Which runs of this JVM wait for an answer of their cluster now, and since when. The runner reads
 * it: a run that waits commits nothing, plans nothing and says nothing, as one with nothing to read
 * does.
 */
public final class Silence {
  private static final String UNNAMED = "";
  private static final ConcurrentMap<String, Map<Object, Long>> WAITING = new ConcurrentHashMap<>();

  private Silence() {}

  /** For how long a run has waited, in milliseconds; 0 while it does not. */
  public static long milliseconds(String run) {
    long now = System.nanoTime();
    return WAITING.getOrDefault(run, Fixed.map()).values().stream()
        .mapToLong(since -> (now - since) / 1_000_000)
        .max()
        .orElse(0);
  }

  /**
   * Begins a wait of a run, by its id; {@code since} is on the clock of {@code System.nanoTime}. A
   * run without an id, because its own code has cleared it, waits as well, and is not seen.
   */
  static Wait begin(String id, long since) {
    String run = id == null ? UNNAMED : id;
    Object own = new Object();
    WAITING.compute(
        run,
        (key, waits) -> {
          Map<Object, Long> kept = waits == null ? new ConcurrentHashMap<>() : waits;
          kept.put(own, since);
          return kept;
        });
    return () ->
        WAITING.computeIfPresent(
            run,
            (key, waits) -> {
              waits.remove(own);
              return waits.isEmpty() ? null : waits;
            });
  }

  /** A wait of a run. */
  interface Wait {
    /** An answer came, or the run gave up. */
    void end();
  }
}
