package tideover;

import java.io.IOException;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's Kafka table, read in micro-batches only: no batch read, no continuous mode, no sink. */
record SwitchTable(Table kafka) implements SupportsRead {
  @Override
  public String name() {
    return "Tideover" + kafka.name();
  }

  @Override
  @SuppressWarnings("deprecation") // what replaces it is not in all versions
  public StructType schema() {
    return kafka.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.MICRO_BATCH_READ, TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    String cluster = options.get(SwitchProvider.CLUSTER);
    long placed = options.getLong(SwitchProvider.PLACED, 0);
    if (cluster == null || placed < 1) {
      throw new IllegalArgumentException(
          "options " + SwitchProvider.CLUSTER + " and " + SwitchProvider.PLACED + " are required");
    }
    Patience patience = new Patience(cluster, options.getLong(SwitchProvider.PATIENCE, 0));
    Scan scan = ((SupportsRead) kafka).newScanBuilder(options).build();
    return () -> new MicroBatchScan(scan, cluster, placed, patience);
  }

  private record MicroBatchScan(Scan kafka, String cluster, long placed, Patience patience)
      implements Scan {
    @Override
    public StructType readSchema() {
      return kafka.readSchema();
    }

    @Override
    public String description() {
      return "Tideover " + kafka.description();
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return kafka.supportedCustomMetrics();
    }

    /** The folder is {@code <checkpoint>/sources/<key>}, by Spark's own convention. */
    @Override
    public MicroBatchStream toMicroBatchStream(String folder) {
      Path own = new Path(folder);
      Path checkpoint = own.getParent().getParent();
      Configuration conf = SparkContext.getOrCreate().hadoopConfiguration();
      try {
        Mappings mappings = Mappings.read(checkpoint, conf, cluster, placed);
        Cluster active = mappings.active();
        // The first offsets of another cluster are kept there: they are no place on this one.
        String first = active.epoch() == SwitchOffset.HOME ? folder : folder + "-" + active.epoch();
        return new SwitchStream(kafka.toMicroBatchStream(first), own.getName(), mappings, patience);
      } catch (IOException error) {
        throw Companion.<RuntimeException>undeclared(error);
      }
    }
  }
}
