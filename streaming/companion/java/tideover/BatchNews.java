package tideover;

import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * Gives the follower of a run each entry that it published, the moment it is there. Without it the
 * folders of the checkpoint have to be looked at again and again.
 */
public final class BatchNews {
  private static final int MOST_KEPT = 1000;
  private static final ConcurrentMap<String, BlockingQueue<String>> FOLLOWED =
      new ConcurrentHashMap<>();

  private final Optional<String> follower;

  BatchNews(Admission admission) {
    follower = admission.follower();
  }

  /** Begins to keep what the run that is admitted with this follower publishes. */
  public static void follow(String follower) {
    FOLLOWED.putIfAbsent(follower, new LinkedBlockingQueue<>(MOST_KEPT));
    Hold.follow(follower);
  }

  /** Keeps nothing more for it: the run is over. */
  public static void leave(String follower) {
    FOLLOWED.remove(follower);
    Hold.forget(follower);
    Admissions.withdraw(follower);
  }

  /**
   * The next entry, waited for at most so long: {@code offsets/7}, a line break, its content. Null
   * when nothing came, or when it is not followed. What comes while a thousand entries wait to be
   * taken is lost: the checkpoint has it.
   */
  public static String take(String follower, long milliseconds) throws InterruptedException {
    BlockingQueue<String> kept = FOLLOWED.get(follower);
    return kept == null ? null : kept.poll(milliseconds, TimeUnit.MILLISECONDS);
  }

  void tell(LogEntry entry, String content) {
    BlockingQueue<String> kept = follower.map(FOLLOWED::get).orElse(null);
    if (kept != null) {
      kept.offer(entry.name() + "\n" + content);
    }
  }
}
