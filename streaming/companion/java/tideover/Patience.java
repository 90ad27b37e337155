package tideover;

import java.io.Serializable;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;

/**
 * For how long a run waits for a cluster that has answered it before and does not answer now.
 *
 * <p>Only silence is waited for. Records that are gone, credentials that are refused and a topic
 * that was deleted are answers, and fail at once.
 */
final class Patience implements Serializable {
  private static final long serialVersionUID = 1;

  /** Kafka's own are known by name: its clients are loaded beside the companion, not under it. */
  private static final Set<String> SILENCE =
      Fixed.set(
          TimeoutException.class.getName(),
          "org.apache.kafka.common.errors.TimeoutException",
          "org.apache.kafka.common.errors.DisconnectException");

  private static final Set<String> WRAPPERS =
      Fixed.set(
          ExecutionException.class.getName(),
          RuntimeException.class.getName(),
          "org.apache.kafka.common.KafkaException");

  private final String cluster;
  private final long milliseconds;

  Patience(String cluster, long milliseconds) {
    this.cluster = cluster;
    this.milliseconds = milliseconds;
  }

  /** Whether the cluster was silent: a time-out, and nothing else among its causes. */
  static boolean isSilence(Throwable failure) {
    boolean silent = false;
    for (Throwable each = failure; each != null; each = each.getCause()) {
      String name = each.getClass().getName();
      if (SILENCE.contains(name)) {
        silent = true;
      } else if (!WRAPPERS.contains(name)) {
        return false;
      }
    }
    return silent;
  }

  /** Whether a wait that began then, on the clock of {@code System.nanoTime}, may continue. */
  boolean lasts(long since) {
    return waited(since) < milliseconds;
  }

  /** What a run fails with that has waited long enough, or the failure itself if it never did. */
  Throwable over(long since, Throwable failure) {
    if (milliseconds == 0 || !isSilence(failure)) {
      return failure;
    }
    // No cause: the innermost one is what people see.
    Throwable told =
        new IllegalStateException(
            cluster
                + " has not answered for "
                + waited(since) / 1000
                + " s, and policy.outage_patience is "
                + milliseconds / 1000
                + " s: "
                + failure);
    told.addSuppressed(failure);
    return told;
  }

  private static long waited(long since) {
    return (System.nanoTime() - since) / 1_000_000;
  }
}
