package tideover;

import java.util.Optional;
import java.util.Set;
import org.apache.hadoop.fs.Path;

/**
 * An entry of one of a checkpoint's two logs: {@code <checkpoint>/offsets/7} says that batch 7 is
 * planned, {@code <checkpoint>/commits/7} that it is committed.
 */
final class LogEntry extends Value {
  private static final Set<String> LOGS = Fixed.set("offsets", "commits");
  private static final int MOST_DIGITS = 18;

  private final Path checkpoint;
  private final String log;
  private final long batch;

  LogEntry(Path checkpoint, String log, long batch) {
    this.checkpoint = checkpoint;
    this.log = log;
    this.batch = batch;
  }

  Path checkpoint() {
    return checkpoint;
  }

  @Override
  Object[] parts() {
    return new Object[] {checkpoint, log, batch};
  }

  /** The entry that a path names; empty for every other file of a checkpoint, drafts included. */
  static Optional<LogEntry> of(Path path) {
    Path log = path.getParent();
    if (log == null || log.getParent() == null || !LOGS.contains(log.getName())) {
      return Optional.empty();
    }
    String name = path.getName();
    if (name.length() > MOST_DIGITS || !name.chars().allMatch(each -> each >= '0' && each <= '9')) {
      return Optional.empty();
    }
    return Optional.of(new LogEntry(log.getParent(), log.getName(), Long.parseLong(name)));
  }

  /** As people see it: {@code offsets/7}. */
  String name() {
    return log + "/" + batch;
  }
}
