package tideover;

import java.util.OptionalLong;
import java.util.UUID;

/** Which run this is: a query under one epoch, as the runner has named it. */
final class RunName extends Value {
  /** What begins the name of the file by which a run is known to be the one that counts. */
  static final String FILE = "run-";

  /** The same for all of a process, whichever loader of classes calls. */
  private static final String PROCESS = "tideover.run";

  /** The setting of the run's session from which its own code reads the epoch. */
  static final String EPOCH = "spark.tideover.epoch";

  private final String query;
  private final OptionalLong epoch;

  RunName(String query, OptionalLong epoch) {
    this.query = query;
    this.epoch = epoch;
  }

  OptionalLong epoch() {
    return epoch;
  }

  @Override
  Object[] parts() {
    return new Object[] {query, epoch};
  }

  /** As it is now: a run that was held may have continued under a newer epoch. */
  RunName after(Hold hold) {
    OptionalLong later = hold.place().epoch();
    return later.isPresent() ? new RunName(query, later) : this;
  }

  /**
   * The file beside the checkpoint that says which process runs it. A query of one process waits
   * for its own former run; this distinguishes that of another one.
   */
  static String file() {
    Object process =
        System.getProperties().computeIfAbsent(PROCESS, unset -> UUID.randomUUID().toString());
    return FILE + process;
  }

  /** As people see it. */
  String text() {
    return !epoch.isPresent()
        ? "a run without an epoch"
        : query + " with epoch " + epoch.getAsLong();
  }
}
