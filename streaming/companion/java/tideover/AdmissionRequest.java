package tideover;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Optional;
import java.util.function.Consumer;
import java.util.function.LongSupplier;

/** A start that waits for its admission. */
final class AdmissionRequest {
  private static final long REPEAT_NANOSECONDS = 30_000_000_000L;

  private final long patience;
  private final LongSupplier clock;
  private long heard;
  private String why;
  private JsonNode answer;

  /** For so many milliseconds it waits behind the last word that it got. */
  AdmissionRequest(long patience) {
    this(patience, System::nanoTime);
  }

  /** By a clock of nanoseconds. */
  AdmissionRequest(long patience, LongSupplier clock) {
    this.patience = patience;
    this.clock = clock;
    this.heard = clock.getAsLong();
  }

  /** False where there is an answer already. */
  synchronized boolean answer(JsonNode given) {
    boolean isFirst = answer == null;
    answer = isFirst ? given : answer;
    notifyAll();
    return isFirst;
  }

  /** Whether it still needs an answer. */
  synchronized boolean isOpen() {
    return answer == null;
  }

  synchronized void delay(String reason) {
    heard = clock.getAsLong();
    why = reason;
    notifyAll();
  }

  /** What it waits for, as far as it was said. */
  synchronized String why() {
    return why == null ? "for the attendant" : why;
  }

  /** The answer; empty where nothing was heard for too long. Undeclared: a stop interrupts it. */
  synchronized Optional<JsonNode> await(Consumer<String> progress) {
    String said = null;
    long saidAt = 0;
    while (answer == null) {
      long now = clock.getAsLong();
      long left = patience - (now - heard) / 1_000_000;
      if (left <= 0) {
        return Optional.empty();
      }
      if (why != null && (!why.equals(said) || now - saidAt > REPEAT_NANOSECONDS)) {
        progress.accept("the start waits: " + why);
        said = why;
        saidAt = now;
      }
      try {
        wait(Math.min(left, 1000));
      } catch (InterruptedException stopped) {
        throw Companion.<RuntimeException>undeclared(stopped);
      }
    }
    return Optional.of(answer);
  }
}
