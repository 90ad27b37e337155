package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;

final class HomeColumnsTest {
  private static final Cluster EAST = new Cluster("east", SwitchOffset.HOME);
  private static final Cluster WEST = new Cluster("west", 4);
  private static final Cluster BACK = new Cluster("east", 6);
  private static final Map<String, Naming> NAMED = Map.of("west", new Naming(null, "east."));

  private static Mapping.Place place(String there, String here) {
    return new Mapping.Place(
        Mappings.parsed(there.replace('\'', '"')), Mappings.parsed(here.replace('\'', '"')));
  }

  private static Mapping move(Cluster from, Cluster to, Mapping.Place... places) {
    return new Mapping(from, to, "op", 1, Map.of("0", List.of(places)));
  }

  private static Mappings mappings(Mapping... moves) {
    Cluster to = moves[moves.length - 1].to();
    return Mappings.of(List.of(moves), to.name(), to.epoch());
  }

  private static InternalRow row(String topic, int partition, long offset) {
    return new GenericInternalRow(
        new Object[] {
          new byte[] {1},
          null,
          CatalystTypeConverters.convertToCatalyst(topic),
          partition,
          offset,
          1000L,
          0
        });
  }

  private static String seen(HomeColumns columns, String topic, int partition, long offset) {
    InternalRow row = columns.of(row(topic, partition, offset));
    assertTrue(row.isNullAt(1));
    assertEquals(1, row.getBinary(0)[0]);
    assertEquals(1000L, row.getLong(5));
    assertEquals(0, row.getInt(6));
    return row.get(2, DataTypes.StringType) + "-" + row.getInt(3) + "@" + row.getLong(4);
  }

  private static final Mapping THERE =
      move(EAST, WEST, place("{'orders':{'0':100,'1':7}}", "{'east.orders':{'0':17,'1':9}}"));

  @Test
  void aTopicHasItsNameOfHomeAndItsOffsetUnlessTheQueryWantsAnother() {
    HomeColumns columns = HomeColumns.of(mappings(THERE), "0", NAMED, false);
    assertEquals("orders-0@17", seen(columns, "east.orders", 0, 17));
    assertFalse(columns.movesOffsets());
  }

  @Test
  void offsetsGoOnFromTheHomePosition() {
    HomeColumns columns = HomeColumns.of(mappings(THERE), "0", NAMED, true);
    assertEquals("orders-0@100", seen(columns, "east.orders", 0, 17));
    assertEquals("orders-1@8", seen(columns, "east.orders", 1, 10));
    assertEquals("orders-2@5", seen(columns, "east.orders", 2, 5), "a partition that is new there");
    assertTrue(columns.movesOffsets());
  }

  @Test
  void theyGoOnBehindAFailbackAsWell() {
    // 50 records were read on the west, and its place at home lies behind 30 others.
    Mapping back = move(WEST, BACK, place("{'east.orders':{'0':67}}", "{'orders':{'0':180}}"));
    HomeColumns columns = HomeColumns.of(mappings(THERE, back), "0", NAMED, true);
    assertEquals("orders-0@150", seen(columns, "orders", 0, 180));
  }

  @Test
  void behindABatchThatIsNotReadThereNoOffsetComesAgain() {
    String here = "{'east.orders':{'0':17}}";
    Mapping bridged =
        move(EAST, WEST, place("{'orders':{'0':100}}", here), place("{'orders':{'0':130}}", here));
    HomeColumns columns = HomeColumns.of(mappings(bridged), "0", NAMED, true);
    assertEquals("orders-0@130", seen(columns, "east.orders", 0, 17));
  }

  @Test
  void atHomeARowIsWhatSparkReads() {
    HomeColumns columns = HomeColumns.of(Mappings.of(List.of(), "east", 0), "0", NAMED, true);
    InternalRow row = row("orders", 0, 5);
    assertSame(row, columns.of(row));
    assertSame(row, HomeColumns.AS_READ.of(row));
  }

  @Test
  void anOffsetIsUniqueAndGrowsOverManyMoves() {
    List<Mapping> moves = new ArrayList<>();
    Cluster at = EAST;
    long position = 10;
    long last = -1;
    for (int epoch = 2; epoch < 12; epoch += 2) {
      HomeColumns columns =
          moves.isEmpty()
              ? HomeColumns.AS_READ
              : HomeColumns.of(mappings(moves.toArray(Mapping[]::new)), "0", Map.of(), true);
      for (int i = 0; i < 3; i++) {
        long seen = columns.of(row("t", 0, position)).getLong(4);
        assertTrue(seen > last, seen + " comes behind " + last);
        last = seen;
        position++;
      }
      Cluster next = new Cluster(epoch % 4 == 2 ? "west" : "east", epoch);
      long there = (position * 7919) % 50;
      moves.add(move(at, next, place("{'t':{'0':" + position + "}}", "{'t':{'0':" + there + "}}")));
      at = next;
      position = there;
    }
  }
}
