package tideover;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import scala.Function1;
import scala.Tuple2;
import scala.runtime.AbstractPartialFunction;

/**
 * Finds what reads or writes Kafka as a batch in a plan: {@code spark.read} and {@code df.write}
 * with the format kafka. Spark uses the older interfaces of its connector for both. Their classes
 * are known by name, as they are private.
 */
final class KafkaBatches extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
  private static final String PACKAGE = "org.apache.spark.sql.kafka010.";

  @Override
  public boolean isDefinedAt(LogicalPlan node) {
    String kind = node.getClass().getSimpleName();
    return kind.equals("LogicalRelation") && isKafkas(node.productElement(0), "KafkaRelation")
        || kind.equals("SaveIntoDataSourceCommand")
            && isKafkas(node.productElement(1), "KafkaSourceProvider");
  }

  static boolean isKafkas(Object each, String named) {
    return each.getClass().getName().equals(PACKAGE + named);
  }

  @Override
  @SuppressWarnings("unchecked")
  public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> otherwise) {
    if (!isDefinedAt(node)) {
      return otherwise.apply(node);
    }
    Object first = node.productElement(0);
    return (B)
        (first instanceof BaseRelation ? reading(node, (BaseRelation) first) : writing(node));
  }

  private static LogicalPlan reading(LogicalPlan node, BaseRelation read) {
    Optional<Map<String, String>> options = optionsOf(read);
    if (!options.isPresent()) {
      Beside.sayOnce(
          "the options of a batch read of Kafka cannot be read in this Spark: it stays on the"
              + " cluster that the code names");
      return node;
    }
    FollowingRead following = new FollowingRead(read, new JobOptions(options.get()));
    return AttachExtensions.exchanged(node, Fixed.map(read, following));
  }

  private static LogicalPlan writing(LogicalPlan node) {
    CreatableRelationProvider kafka = (CreatableRelationProvider) node.productElement(1);
    return AttachExtensions.exchanged(node, Fixed.map(kafka, new FollowingWrite(kafka)));
  }

  /** The options that a relation keeps in a private field, found by its type. */
  @SuppressWarnings("unchecked")
  private static Optional<Map<String, String>> optionsOf(BaseRelation relation) {
    for (Field field : relation.getClass().getDeclaredFields()) {
      if (field.getType().getSimpleName().equals("CaseInsensitiveMap")) {
        try {
          field.setAccessible(true);
          return Optional.of(
              asJava((scala.collection.immutable.Map<String, String>) field.get(relation)));
        } catch (ReflectiveOperationException | RuntimeException closed) {
          return Optional.empty();
        }
      }
    }
    return Optional.empty();
  }

  static Map<String, String> asJava(scala.collection.immutable.Map<String, String> given) {
    Map<String, String> found = new HashMap<>();
    for (scala.collection.Iterator<Tuple2<String, String>> each = given.iterator();
        each.hasNext(); ) {
      Tuple2<String, String> option = each.next();
      found.put(option._1(), option._2());
    }
    return found;
  }
}
