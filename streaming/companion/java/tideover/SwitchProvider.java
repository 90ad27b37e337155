package tideover;

import java.util.Map;
import java.util.ServiceLoader;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code readStream.format("tideover.SwitchProvider")}: Spark's Kafka source, which continues from
 * a checkpoint that has another cluster's offsets. It knows Spark's by its public interfaces alone,
 * and takes all of its options, beside its own, which begin with {@code tideover}.
 */
public final class SwitchProvider implements TableProvider {
  /** The name of the cluster that {@code kafka.bootstrap.servers} leads to. */
  static final String CLUSTER = "tideover.cluster";

  /** The epoch under which the query came to that cluster. */
  static final String PLACED = "tideover.placed";

  /** For how many milliseconds a run waits for a cluster that has fallen silent; 0: not at all. */
  static final String PATIENCE = "tideover.patience.ms";

  /**
   * The name of the declared source: by it a run that continues elsewhere knows its options there.
   */
  static final String SOURCE = "tideover.source";

  /** The id that is pinned for that cluster; without it the first one that answers counts. */
  static final String ID = "tideover.cluster.id";

  /** The other clusters to which the same endpoint may lead: {@code id=name}, by commas. */
  static final String ELSEWHERE = "tideover.elsewhere";

  /** By cluster, how topics are renamed there, as in {@link Naming#parse}. */
  static final String TOPICS = "tideover.topics";

  /** Whether the query gets offsets that continue those of its home cluster. */
  static final String HOME_OFFSETS = "tideover.home.offsets";

  /** How many records a batch takes at most until a run has caught up; 0: as many as there are. */
  static final String CATCH_UP = "tideover.catch.up.batch";

  private static final String KAFKA = "kafka";

  private final TableProvider kafka = sparksOwn();

  private static TableProvider sparksOwn() {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    for (DataSourceRegister each : ServiceLoader.load(DataSourceRegister.class, loader)) {
      if (each.shortName().equals(KAFKA) && each instanceof TableProvider) {
        return (TableProvider) each;
      }
    }
    throw new IllegalStateException("Spark has no Kafka connector");
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return kafka.inferSchema(options);
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new SwitchTable(kafka.getTable(schema, partitioning, properties));
  }
}
