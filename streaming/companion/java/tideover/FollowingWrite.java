package tideover;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A batch that is written to Kafka, on the cluster where the query is that declares its topic. The
 * plan keeps the options of the code: Spark shows those of each plan, and ours hold keys.
 */
final class FollowingWrite implements CreatableRelationProvider {
  private final CreatableRelationProvider kafka;

  FollowingWrite(CreatableRelationProvider kafka) {
    this.kafka = kafka;
  }

  @Override
  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map<String, String> given,
      Dataset<Row> data) {
    JobOptions job = new JobOptions(KafkaBatches.asJava(given));
    Map<String, String> options = new HashMap<>(job.under(ours(job)).asCaseSensitiveMap());
    return kafka.createRelation(context, mode, PythonUtils.toScalaMap(options), data);
  }

  /** What is laid over the options of the code. */
  static Map<String, String> ours(JobOptions job) {
    CaseInsensitiveStringMap given = job.under(Fixed.map());
    String topic = given.get("topic");
    String servers = given.get(JobOptions.SERVERS);
    Optional<Beside.Query> found =
        Beside.declaring(Beside.Way.WRITES, Beside.topics(topic), servers);
    if (!found.isPresent()) {
      Beside.sayOnce(
          "a batch writes "
              + (topic == null ? "to the topics of a column" : topic)
              + " to the cluster that the code names");
      return Fixed.map();
    }
    Beside.Query query = found.get();
    if (query.isElsewhere(Beside.Way.WRITES)) {
      Beside.sayOnce("a batch writes " + topic + " to " + query.cluster(Beside.Way.WRITES));
    }
    return query.options(Beside.Way.WRITES);
  }

  /** As Spark names it in its plans. */
  @Override
  public String toString() {
    return kafka.toString();
  }
}
