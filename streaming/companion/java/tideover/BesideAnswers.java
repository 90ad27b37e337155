package tideover;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * What the attendant has last declared, and the batches that wait for its next word. A batch of a
 * query that does not run here needs one from after its begin: the query may have been moved
 * without this JVM.
 */
final class BesideAnswers {
  private static final Object LOCK = new Object();
  private static final long LOOK_MILLISECONDS = 100;
  private static final long AGAIN_MILLISECONDS = 1000;
  private static final long REPEAT_NANOSECONDS = 30_000_000_000L;
  private static Map<String, Beside.Query> declared;
  private static long wanted;
  private static long answered;

  /** A batch has waited without effect since the last word: the next one does not wait again. */
  private static boolean silent;

  private static long patience;

  private BesideAnswers() {}

  static void begin(long milliseconds) {
    synchronized (LOCK) {
      declared = null;
      wanted = 0;
      answered = 0;
      silent = false;
      patience = milliseconds;
    }
  }

  static void declare(Map<String, Beside.Query> queries, long answers) {
    synchronized (LOCK) {
      declared = queries;
      answered = Math.max(answered, answers);
      silent = silent && answers == 0;
      LOCK.notifyAll();
    }
  }

  /** The newest request that has no answer; 0: there is none. */
  static long wanted() {
    synchronized (LOCK) {
      return wanted > answered ? wanted : 0;
    }
  }

  static long seconds() {
    synchronized (LOCK) {
      return patience / 1000;
    }
  }

  /** One batch that has to know where its topics are. */
  static final class Waiting {
    private final String topics;
    private long heard = System.nanoTime();
    private long ticket;
    private String why = "";
    private boolean isHeld;
    private String said = "";
    private long saidAt;

    Waiting(String topics) {
      this.topics = topics;
    }

    /** The declarations; empty before the first of them. */
    Optional<List<Beside.Query>> known() {
      synchronized (LOCK) {
        return Optional.ofNullable(declared).map(each -> Fixed.copy(each.values()));
      }
    }

    /** Whether they came behind the begin of this wait. */
    boolean isAnswered() {
      synchronized (LOCK) {
        return ticket > 0 && answered >= ticket;
      }
    }

    void why(String reason) {
      why = reason;
    }

    /** A run that lives waits between two batches for its move, which ends in any case. */
    void hold() {
      isHeld = true;
    }

    /** Waits for the next word; false where none came for too long. */
    boolean hears() {
      try {
        if (isHeld) {
          isHeld = false;
          say();
          heard = System.nanoTime();
          Thread.sleep(LOOK_MILLISECONDS);
          return true;
        }
        if (isAnswered()) {
          say();
          Thread.sleep(AGAIN_MILLISECONDS);
          heard = System.nanoTime();
          ticket = 0;
        }
        return isInTime();
      } catch (InterruptedException stopped) {
        throw Companion.<RuntimeException>undeclared(stopped);
      }
    }

    private boolean isInTime() throws InterruptedException {
      synchronized (LOCK) {
        ticket = ticket == 0 ? ++wanted : ticket;
        long left = patience - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - heard);
        if (silent || left <= 0) {
          silent = true;
          return false;
        }
        if (answered < ticket) {
          LOCK.wait(Math.min(left, LOOK_MILLISECONDS));
        }
        return true;
      }
    }

    private void say() {
      long now = System.nanoTime();
      if (!why.equals(said) || now - saidAt > REPEAT_NANOSECONDS) {
        Attached.say("a batch of " + topics + " waits: " + why);
        said = why;
        saidAt = now;
      }
    }

    /** What is known where no word came: of an attendant before, or of the configuration. */
    List<Beside.Query> last() {
      return known().orElseGet(() -> DeclaredInFile.queries(topics));
    }
  }
}
