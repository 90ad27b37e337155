package tideover;

import java.io.IOException;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * The extension of an application's session: each Kafka source of a query that was admitted is read
 * by the companion's, and no other query changes. Spark has requested the admission before this
 * rule sees the query, when it made the folder of the checkpoint.
 */
public final class AttachExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  static final String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPostHocResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new AtStart(session);
          }
        });
    return BoxedUnit.UNIT;
  }

  private static final class AtStart extends Rule<LogicalPlan> {
    private final transient SparkSession session;

    AtStart(SparkSession session) {
      this.session = session;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      if (!Attached.isActive()) {
        return plan;
      }
      if (!(plan instanceof WriteToStream)) {
        return plan.transformUp(new KafkaBatches());
      }
      WriteToStream write = (WriteToStream) plan;
      requireOurManager(session.conf().get(MANAGER, ""));
      try {
        Optional<JobOptions.Sources> sources =
            Attached.sources(new Path(write.resolvedCheckpointLocation()), session);
        return sources.isPresent() ? switched(write, sources.get()) : plan;
      } catch (IOException error) {
        throw Companion.<RuntimeException>undeclared(error);
      }
    }

    private static LogicalPlan switched(WriteToStream write, JobOptions.Sources sources) {
      LogicalPlan query = write.inputQuery();
      LogicalPlan changed = query.transformUp(new ByCompanion(sources));
      Map<Object, Object> fields = new IdentityHashMap<>();
      fields.put(query, changed);
      fields.put(write.sink(), sink(write.sink(), sources.query()));
      return exchanged(write, fields);
    }

    /** A Kafka sink follows its query where that is declared; of others nothing changes. */
    private static Table sink(Table sink, String name) {
      Optional<Beside.Query> query =
          Beside.of(name).filter(each -> !each.topics().get(Beside.Way.WRITES).isEmpty());
      boolean isNew = KafkaBatches.isKafkas(sink, "KafkaSourceProvider$KafkaTable");
      if (!isNew && !KafkaBatches.isKafkas(sink, "KafkaSink")) {
        return sink;
      }
      if (!query.isPresent()) {
        Attached.say(
            name
                + " writes to the Kafka that its code names, whichever cluster it reads: declare"
                + " output to let its sink follow");
        return sink;
      }
      if (!isNew) {
        throw new IllegalArgumentException(
            "tideover: "
                + name
                + " has an output that follows it, and spark.sql.streaming.disabledV2Writers keeps"
                + " its sink from that: remove one of them");
      }
      return new FollowingKafkaSink((SupportsWrite) sink, query.get());
    }
  }

  /** Refuses a session whose checkpoints are not reached through the companion. */
  static void requireOurManager(String manager) {
    if (!manager.startsWith("tideover.")) {
      throw new IllegalArgumentException(
          "tideover: "
              + MANAGER
              + " is "
              + (manager.isEmpty() ? "not set" : manager)
              + " in this session, so no query of it can be admitted: remove that setting, or"
              + " remove tideover.AttachPlugin from spark.plugins");
    }
  }

  private static final class ByCompanion extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private final JobOptions.Sources sources;

    ByCompanion(JobOptions.Sources sources) {
      this.sources = sources;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      if (!(node instanceof StreamingRelationV2)) {
        return false;
      }
      StreamingRelationV2 relation = (StreamingRelationV2) node;
      return relation.sourceName().equals("kafka") && !(relation.table() instanceof SwitchTable);
    }

    @Override
    @SuppressWarnings("unchecked")
    public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
      return isDefinedAt(node)
          ? (B) byCompanion((StreamingRelationV2) (LogicalPlan) node)
          : otherwise.apply(node);
    }

    private LogicalPlan byCompanion(StreamingRelationV2 relation) {
      CaseInsensitiveStringMap given = relation.extraOptions();
      Map.Entry<String, JobOptions.Declared> declared = sources.of(given);
      JobOptions job = new JobOptions(new HashMap<>(given.asCaseSensitiveMap()));
      Beside.reads(sources.query(), given.get(JobOptions.SERVERS));
      CaseInsensitiveStringMap options = job.under(declared.getValue().options());
      Attached.say(
          sources.query()
              + " reads source "
              + declared.getKey()
              + " on "
              + options.get(SwitchProvider.CLUSTER));
      return exchanged(
          relation,
          Fixed.map(relation.table(), new SwitchTable(relation.table(), job), given, options));
    }
  }

  /** A node with some fields exchanged; how many it has, and in which order, differs by version. */
  static LogicalPlan exchanged(LogicalPlan node, Map<Object, Object> fields) {
    Object[] made = new Object[node.productArity()];
    for (int index = 0; index < made.length; index++) {
      Object field = node.productElement(index);
      made[index] = field;
      for (Map.Entry<Object, Object> each : fields.entrySet()) {
        if (each.getKey() == field) {
          made[index] = each.getValue();
        }
      }
    }
    return node.makeCopy(made);
  }
}
