package tideover;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.junit.jupiter.api.Test;

final class CatchUpTest {
  private static Offset at(String json) {
    return SwitchOffset.parse(json);
  }

  @Test
  void aBatchIsLimitedUntilOneHasTakenAllThereIs() {
    CatchUp limit = new CatchUp(100);
    ReadLimit all = ReadLimit.allAvailable();
    assertEquals(ReadLimit.maxRows(100), limit.limited(all));
    limit.took(at("{\"t\":{\"0\":100}}"), at("{\"t\":{\"0\":150}}"));
    limit.took(at("{\"t\":{\"0\":100}}"), null);
    assertEquals(ReadLimit.maxRows(100), limit.limited(all));
    limit.took(at("{\"t\":{\"0\":150}}"), at("{\"t\":{\"0\":150}}"));
    assertEquals(all, limit.limited(all));
    limit.begin();
    assertEquals(ReadLimit.maxRows(100), limit.limited(all), "its cluster was silent since");
  }

  @Test
  void theQuerysOwnLimitHoldsAsWell() {
    CatchUp limit = new CatchUp(100);
    assertEquals(ReadLimit.maxRows(40), limit.limited(ReadLimit.maxRows(40)));
    assertEquals(ReadLimit.maxRows(100), limit.limited(ReadLimit.maxRows(400)));
    ReadLimit least = ReadLimit.minRows(10, 1000);
    ReadLimit both = ReadLimit.compositeLimit(new ReadLimit[] {least, ReadLimit.maxRows(400)});
    CompositeReadLimit found = (CompositeReadLimit) limit.limited(both);
    assertArrayEquals(new ReadLimit[] {least, ReadLimit.maxRows(100)}, found.getReadLimits());
  }

  @Test
  void withoutALimitNothingChanges() {
    ReadLimit all = ReadLimit.allAvailable();
    assertEquals(all, new CatchUp(0).limited(all));
  }
}
