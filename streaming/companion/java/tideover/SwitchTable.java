package tideover;

import java.util.Set;
import org.apache.hadoop.fs.Path;
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
final class SwitchTable extends Value implements SupportsRead {
  private final Table kafka;
  private final JobOptions job;

  SwitchTable(Table kafka, JobOptions job) {
    this.kafka = kafka;
    this.job = job;
  }

  @Override
  Object[] parts() {
    return new Object[] {kafka, job};
  }

  /** Of a source of which we name all options. */
  SwitchTable(Table kafka) {
    this(kafka, JobOptions.NONE);
  }

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
    return Fixed.set(TableCapability.MICRO_BATCH_READ, TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    Reading.Options options = Reading.Options.of(given);
    SupportsRead table = (SupportsRead) kafka;
    Scan scan = options.scan(table);
    return () -> new MicroBatchScan(table, scan, options, job);
  }

  private static final class MicroBatchScan implements Scan {
    private final SupportsRead table;
    private final Scan kafka;
    private final Reading.Options options;
    private final JobOptions job;

    MicroBatchScan(SupportsRead table, Scan kafka, Reading.Options options, JobOptions job) {
      this.table = table;
      this.kafka = kafka;
      this.options = options;
      this.job = job;
    }

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

    @Override
    public MicroBatchStream toMicroBatchStream(String folder) {
      String declared = options.all().get(SwitchProvider.SOURCE);
      return new SwitchStream(
          new SwitchStream.Source(new Path(folder).getName(), declared),
          Reading.admission(folder),
          Reading.open(kafka, options, folder),
          elsewhere -> {
            Reading.Options there = Reading.Options.of(job.under(elsewhere));
            return Reading.open(there.scan(table), there, folder);
          });
    }
  }
}
