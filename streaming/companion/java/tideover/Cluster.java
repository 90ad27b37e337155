package tideover;

import java.io.Serializable;

/**
 * A cluster since a query came to it: its name, and the epoch of that move. A query that comes back
 * later comes to another one.
 */
record Cluster(String name, long epoch) implements Serializable {
  /** As people see it. */
  String text() {
    return epoch == SwitchOffset.HOME ? name : name + " since epoch " + epoch;
  }
}
