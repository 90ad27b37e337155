package tideover;

import java.io.Serializable;

/**
 * A cluster since a query came to it: its name, and the epoch of that move. A query that comes back
 * later comes to another one.
 */
final class Cluster extends Value implements Serializable {
  private static final long serialVersionUID = 1;

  private final String name;
  private final long epoch;

  Cluster(String name, long epoch) {
    this.name = name;
    this.epoch = epoch;
  }

  String name() {
    return name;
  }

  long epoch() {
    return epoch;
  }

  @Override
  Object[] parts() {
    return new Object[] {name, epoch};
  }

  /** As people see it. */
  String text() {
    return epoch == SwitchOffset.HOME ? name : name + " since epoch " + epoch;
  }
}
