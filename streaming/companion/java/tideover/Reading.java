package tideover;

import java.io.IOException;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source on one cluster, and what leads there from the offset in the log of the
 * checkpoint.
 */
final class Reading {
  private final MicroBatchStream kafka;
  private final Mappings mappings;
  private final Patience patience;
  private final Naming naming;
  private final HomeColumns columns;
  private final Identity identity;
  private final CatchUp catchUp;

  Reading(
      MicroBatchStream kafka,
      Mappings mappings,
      Patience patience,
      Naming naming,
      HomeColumns columns,
      Identity identity,
      CatchUp catchUp) {
    this.kafka = kafka;
    this.mappings = mappings;
    this.patience = patience;
    this.naming = naming;
    this.columns = columns;
    this.identity = identity;
    this.catchUp = catchUp;
  }

  MicroBatchStream kafka() {
    return kafka;
  }

  Mappings mappings() {
    return mappings;
  }

  Patience patience() {
    return patience;
  }

  Naming naming() {
    return naming;
  }

  HomeColumns columns() {
    return columns;
  }

  Identity identity() {
    return identity;
  }

  CatchUp catchUp() {
    return catchUp;
  }

  /** The options of a declared source, checked for those that are ours. */
  static final class Options {
    private final String cluster;
    private final long placed;
    private final Patience patience;
    private final Map<String, Naming> topics;
    private final CaseInsensitiveStringMap all;

    Options(
        String cluster,
        long placed,
        Patience patience,
        Map<String, Naming> topics,
        CaseInsensitiveStringMap all) {
      this.cluster = cluster;
      this.placed = placed;
      this.patience = patience;
      this.topics = topics;
      this.all = all;
    }

    String cluster() {
      return cluster;
    }

    long placed() {
      return placed;
    }

    Patience patience() {
      return patience;
    }

    Map<String, Naming> topics() {
      return topics;
    }

    CaseInsensitiveStringMap all() {
      return all;
    }

    static Options of(CaseInsensitiveStringMap all) {
      String cluster = all.get(SwitchProvider.CLUSTER);
      long placed = all.getLong(SwitchProvider.PLACED, -1);
      if (cluster == null || placed < SwitchOffset.HOME) {
        throw new IllegalArgumentException(
            "options "
                + SwitchProvider.CLUSTER
                + " and "
                + SwitchProvider.PLACED
                + " are required");
      }
      Patience patience = new Patience(cluster, all.getLong(SwitchProvider.PATIENCE, 0));
      Map<String, Naming> topics = Naming.parse(all.get(SwitchProvider.TOPICS));
      return new Options(cluster, placed, patience, topics, all);
    }

    Scan scan(SupportsRead table) {
      return table.newScanBuilder(all).build();
    }
  }

  /**
   * Opens it.
   *
   * @param folder {@code <checkpoint>/sources/<key>}, by Spark's own convention
   */
  static Reading open(Scan scan, Options options, String folder) {
    Path checkpoint = checkpointOf(folder);
    Configuration conf = SparkContext.getOrCreate().hadoopConfiguration();
    try {
      Mappings mappings = Mappings.read(checkpoint, conf, options.cluster(), options.placed());
      Cluster active = mappings.active();
      // The first offsets of another cluster are kept there: they are no place on this one.
      String first = active.epoch() == SwitchOffset.HOME ? folder : folder + "-" + active.epoch();
      boolean offsets = options.all().getBoolean(SwitchProvider.HOME_OFFSETS, false);
      String source = new Path(folder).getName();
      return new Reading(
          scan.toMicroBatchStream(first),
          mappings,
          options.patience(),
          options.topics().getOrDefault(active.name(), Naming.SAME),
          HomeColumns.of(mappings, source, options.topics(), offsets),
          new Identity(options.cluster(), options.all()),
          new CatchUp(options.all().getLong(SwitchProvider.CATCH_UP, 0)));
    } catch (IOException error) {
      throw Companion.<RuntimeException>undeclared(error);
    }
  }

  /** The admission of the run that reads; {@code folder} as in {@link #open}. */
  static Admission admission(String folder) {
    try {
      return Admissions.of(checkpointOf(folder), SparkContext.getOrCreate().hadoopConfiguration());
    } catch (IOException error) {
      throw Companion.<RuntimeException>undeclared(error);
    }
  }

  private static Path checkpointOf(String folder) {
    return new Path(folder).getParent().getParent();
  }

  /** Gives up what it has of the cluster; it may wait for a client of a dead one. */
  void stop() {
    kafka.stop();
    identity.close();
  }

  /** Opens it elsewhere. */
  interface Opener {
    Reading open(Map<String, String> options);
  }
}
