package tideover;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Which Kafka cluster a name leads to. One name may lead to another cluster from one moment to the
 * next, whose offsets mean other records: so the cluster is compared by its id before a batch is
 * planned, by the driver here and by each consumer in {@link SameCluster}.
 *
 * <p>A run belongs to the cluster whose id was pinned when it came there. The runner pins ids here
 * while runs live. What was never pinned is the cluster that answered first.
 */
public final class Identity {
  private static final ConcurrentMap<String, String> PINNED = new ConcurrentHashMap<>();
  private static final String PREFIX = "kafka.";

  private final String cluster;
  private final Map<String, Object> client;
  private final Map<String, String> others;
  private volatile String expected;
  private Admin admin;

  /** Makes it of the options of a source. */
  Identity(String cluster, CaseInsensitiveStringMap options) {
    this.cluster = cluster;
    String known = options.get(SwitchProvider.ID);
    if (known != null) {
      pin(cluster, known); // the runner has said it just now
    }
    this.expected = PINNED.get(cluster);
    this.others = NotHere.others(options.get(SwitchProvider.ELSEWHERE));
    this.client = new HashMap<>();
    options
        .asCaseSensitiveMap()
        .forEach(
            (key, value) -> {
              if (key.toLowerCase(java.util.Locale.ROOT).startsWith(PREFIX)) {
                client.put(key.substring(PREFIX.length()), value);
              }
            });
    client.remove(SameCluster.SETTING);
  }

  /** Says which id a cluster has; the runner calls it at each change. */
  public static void pin(String cluster, String id) {
    PINNED.put(cluster, id);
  }

  /** The id that is pinned now; null where none is. */
  public static String pinned(String cluster) {
    return PINNED.get(cluster);
  }

  /**
   * Requests the cluster's id. A client that may not do so is no reason to stop: then Spark's own
   * client says what is wrong.
   *
   * @throws WrongCluster where it is another one
   */
  void require() throws InterruptedException, ExecutionException {
    String seen;
    try {
      seen = admin().describeCluster().clusterId().get();
    } catch (ExecutionException failed) {
      if (Patience.isSilence(failed)) {
        throw failed;
      }
      return;
    }
    require(seen);
  }

  /**
   * What a call failed with, unless the endpoint leads to another declared cluster. That one knows
   * neither the topics nor the offsets, and its answer is no failure of the run.
   */
  Exception blame(Exception failure) throws InterruptedException {
    if (!others.isEmpty() && !Patience.isSilence(failure)) {
      requireUnlessSilent();
    }
    return failure;
  }

  /**
   * The same for what needs no answer of the cluster: a batch that an earlier run planned. Each
   * reader compares the id as well, and waits for a silent cluster as long as it may.
   */
  void requireUnlessSilent() throws InterruptedException {
    try {
      require();
    } catch (ExecutionException silent) {
      return;
    }
  }

  void require(String seen) {
    if (seen == null) {
      return; // brokers before 0.10.1 have none
    }
    NotHere.refuse(cluster, others, seen);
    String now = PINNED.get(cluster);
    if (expected == null) {
      expected = now == null ? seen : now;
    }
    requireSame(cluster, expected, seen);
    if (now != null) {
      requireSame(cluster, now, seen);
    }
  }

  /** Compares two ids of a cluster. */
  static void requireSame(String cluster, String expected, String seen) {
    if (!expected.equals(seen)) {
      throw new WrongCluster(
          cluster
              + " leads to cluster "
              + seen
              + ", but was cluster "
              + expected
              + " until now: nothing is read from it; correct bootstrap; if it was replaced on"
              + " purpose: tideover accept-cluster "
              + cluster);
    }
  }

  private synchronized Admin admin() {
    if (admin == null) {
      admin = Admin.create(client);
    }
    return admin;
  }

  synchronized void close() {
    if (admin != null) {
      admin.close(java.time.Duration.ZERO);
    }
  }
}
