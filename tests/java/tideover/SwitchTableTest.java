package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.lang.reflect.Proxy;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.junit.jupiter.api.Test;

/** Spark compares the tables of a plan: what reads one source twice has one source. */
class SwitchTableTest {
  private static final JobOptions ORDERS = new JobOptions(Map.of("subscribe", "orders"));

  private static SupportsRead kafka() {
    return (SupportsRead)
        Proxy.newProxyInstance(
            SwitchTableTest.class.getClassLoader(),
            new Class<?>[] {SupportsRead.class},
            (proxy, method, given) ->
                switch (method.getName()) {
                  case "equals" -> proxy == given[0];
                  case "hashCode" -> System.identityHashCode(proxy);
                  default -> method.getName();
                });
  }

  @Test
  void twoOfOneTableWithTheSameOptionsAreOne() {
    SupportsRead kafka = kafka();
    SwitchTable table = new SwitchTable(kafka, ORDERS);
    SwitchTable again = new SwitchTable(kafka, new JobOptions(Map.of("subscribe", "orders")));
    assertEquals(table, again);
    assertEquals(table.hashCode(), again.hashCode());
    assertNotEquals(table, new SwitchTable(kafka, JobOptions.NONE));
    assertNotEquals(table, new SwitchTable(kafka(), ORDERS));
  }
}
