package tideover;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * An extension of a session that reads each stream of Kafka by the companion's source. Spark's
 * suites ask for Spark's own by the name {@code kafka}, which no second source can have.
 */
public final class CompanionsSource extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  static final String SAID = "read by the companion's source: ";

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPostHocResolutionRule(
        new AbstractFunction1<SparkSession, Rule<LogicalPlan>>() {
          @Override
          public Rule<LogicalPlan> apply(SparkSession session) {
            return new Exchange();
          }
        });
    return BoxedUnit.UNIT;
  }

  private static final class Exchange extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      return plan.resolveOperatorsUp(
          new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
            @Override
            public boolean isDefinedAt(LogicalPlan node) {
              return node instanceof StreamingRelationV2 relation && isKafka(relation);
            }

            @Override
            @SuppressWarnings("unchecked")
            public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
              return isDefinedAt(node)
                  ? (B) byCompanion((StreamingRelationV2) (LogicalPlan) node)
                  : otherwise.apply(node);
            }
          });
    }

    private static boolean isKafka(StreamingRelationV2 relation) {
      return relation.sourceName().equals("kafka") && !(relation.table() instanceof SwitchTable);
    }

    /** The same relation with another table and our options; its other fields differ by version. */
    private static LogicalPlan byCompanion(StreamingRelationV2 relation) {
      Map<String, String> options = new HashMap<>(relation.extraOptions().asCaseSensitiveMap());
      options.put(SwitchProvider.CLUSTER, "east");
      options.put(SwitchProvider.PLACED, "1");
      Object[] fields = new Object[relation.productArity()];
      for (int index = 0; index < fields.length; index++) {
        Object field = relation.productElement(index);
        if (field == relation.table()) {
          field = new SwitchTable(relation.table());
        } else if (field == relation.extraOptions()) {
          field = new CaseInsensitiveStringMap(options);
        }
        fields[index] = field;
      }
      System.out.println(SAID + options.get("subscribe") + options.get("subscribePattern"));
      return relation.makeCopy(fields);
    }
  }
}
