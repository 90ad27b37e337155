package tideover;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;

/**
 * What is written of a file before it has its name. Closing publishes it, whole and once;
 * discarding leaves nothing behind.
 */
public final class Draft extends OutputStream {
  /** How a file gets its name. */
  public interface Way {
    OutputStream stream();

    /** Publishes what was written to the stream, and closes it. */
    void publish() throws IOException;

    void discard() throws IOException;
  }

  private final Way way;
  private final Fence fence;
  private final Optional<LogEntry> entry;
  private final ByteArrayOutputStream content = new ByteArrayOutputStream();
  private final BatchNews news;
  private boolean done;

  Draft(Way way, Optional<LogEntry> entry, Fence fence, BatchNews news) {
    this.way = way;
    this.fence = fence;
    this.entry = entry;
    this.news = news;
  }

  @Override
  public void write(int each) throws IOException {
    if (entry.isPresent()) {
      content.write(each);
    }
    way.stream().write(each);
  }

  @Override
  public void write(byte[] from, int start, int length) throws IOException {
    if (entry.isPresent()) {
      content.write(from, start, length);
    }
    way.stream().write(from, start, length);
  }

  @Override
  public void flush() throws IOException {
    if (!done) {
      way.stream().flush();
    }
  }

  @Override
  public synchronized void close() throws IOException {
    if (done) {
      return;
    }
    done = true;
    try {
      if (entry.isPresent()) {
        fence.requireEntry(entry.get());
      }
    } catch (Throwable refused) { // a stop interrupts the wait for a hold, undeclared
      way.discard();
      throw refused;
    }
    way.publish();
    entry.ifPresent(
        each -> news.tell(each, new String(content.toByteArray(), StandardCharsets.UTF_8)));
  }

  public synchronized void discard() throws IOException {
    if (!done) {
      done = true;
      way.discard();
    }
  }
}
