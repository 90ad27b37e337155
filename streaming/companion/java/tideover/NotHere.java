package tideover;

import java.util.HashMap;
import java.util.Map;

/**
 * The endpoint of a cluster leads to another of its declared clusters now. A run waits then, as for
 * a silent cluster, until it is moved or the endpoint leads back.
 */
final class NotHere extends WrongCluster {
  private static final long serialVersionUID = 1;

  private NotHere(String text) {
    super(text);
  }

  /** Throws it where the cluster that was seen is one of the others. */
  static void refuse(String cluster, Map<String, String> others, String seen) {
    String other = others.get(seen);
    if (other != null) {
      throw new NotHere(
          "nothing is read from "
              + cluster
              + ": its endpoint leads to "
              + other
              + " now, cluster "
              + seen
              + "; it leads back, or the query is moved: tideover failover");
    }
  }

  /** The other clusters by id, as {@link SwitchProvider#ELSEWHERE} has them. */
  static Map<String, String> others(Object text) {
    Map<String, String> found = new HashMap<>();
    for (String each : text == null ? new String[0] : text.toString().split(",")) {
      int at = each.lastIndexOf('=');
      found.put(each.substring(0, at), each.substring(at + 1));
    }
    return Fixed.copy(found);
  }

  /** Whether a failure is one, or comes of one. */
  static boolean causes(Throwable failure) {
    for (Throwable each = failure; each != null; each = each.getCause()) {
      if (each instanceof NotHere) {
        return true;
      }
    }
    return false;
  }
}
