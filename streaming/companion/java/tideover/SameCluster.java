package tideover;

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.ClusterResource;
import org.apache.kafka.common.ClusterResourceListener;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;

/**
 * Lets a consumer read from one cluster only. Kafka makes one for each client that has it among its
 * {@code metric.reporters}, on executors as well, and gives it the cluster's id with each metadata
 * answer. What it throws the poll of that consumer throws, before it returns a record of another
 * cluster: topics have other ids there, so no fetch is answered before metadata is.
 */
public final class SameCluster implements MetricsReporter, ClusterResourceListener {
  /** The setting by which a client gets one. */
  static final String SETTING = "metric.reporters";

  private String cluster;
  private String expected;
  private Map<String, String> others = Fixed.map();

  @Override
  public void configure(Map<String, ?> settings) {
    cluster = (String) settings.get(SwitchProvider.CLUSTER);
    expected = (String) settings.get(SwitchProvider.ID);
    others = NotHere.others(settings.get(SwitchProvider.ELSEWHERE));
  }

  @Override
  public void onUpdate(ClusterResource seen) {
    if (cluster != null && expected != null && seen.clusterId() != null) {
      NotHere.refuse(cluster, others, seen.clusterId());
      Identity.requireSame(cluster, expected, seen.clusterId());
    }
  }

  @Override
  public void init(List<KafkaMetric> metrics) {}

  @Override
  public void metricChange(KafkaMetric metric) {}

  @Override
  public void metricRemoval(KafkaMetric metric) {}

  @Override
  public void close() {}
}
