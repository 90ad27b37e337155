package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.junit.jupiter.api.Test;

final class ElsewhereTest {
  private static final KafkaRange WHOLE = new KafkaRange("orders", 0, 5, 9);
  private static final KafkaRange SECOND_HALF = WHOLE.beginningAt(7);
  private static final Shift SHIFT =
      new Shift(Map.of("orders", "orders"), Map.of("orders", Map.of(0, new Shift.Span(5, 9, 12))));

  /** The other cluster's source, which holds these records. */
  private record There(InternalRow... rows) implements MicroBatchStream {
    @Override
    public Offset deserializeOffset(String text) {
      return SwitchOffset.parse(text);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      long from = Mappings.parsed(start.json()).path("orders").path("0").asLong();
      long until = Mappings.parsed(end.json()).path("orders").path("0").asLong();
      return new InputPartition[] {
        KafkaRangeTest.planned(new KafkaRange("orders", 0, from, until))
      };
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return planned -> {
        KafkaRange range = KafkaRange.of(planned).orElseThrow();
        return new Records.Reader(
            false,
            List.of(rows).stream()
                .filter(each -> each.getLong(4) >= range.from() && each.getLong(4) < range.until())
                .toArray(InternalRow[]::new));
      };
    }

    @Override
    public Offset latestOffset() {
      throw new AssertionError("nobody asks for that");
    }

    @Override
    public Offset initialOffset() {
      throw new AssertionError("nobody asks for that");
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }

  private static Elsewhere elsewhere(MicroBatchStream there) {
    Cluster east = new Cluster("east", SwitchOffset.HOME);
    Cluster west = new Cluster("west", 4);
    Mappings mappings = Mappings.of(List.of(new Mapping(east, west, "op", 1, Map.of())), "west", 4);
    Reading reading =
        new Reading(
            there, mappings, new Patience("west", 0), Naming.SAME, HomeColumns.AS_READ, null, null);
    Hold.Place place = new Hold.Place(OptionalLong.of(4), Map.of());
    return new Elsewhere(place, reading, SHIFT);
  }

  private static String rest(Leg leg) throws IOException {
    StringBuilder read = new StringBuilder();
    while (leg.next()) {
      read.append(Records.value(leg.get()));
    }
    return read.toString();
  }

  private static final There MARKER_SECOND =
      new There(Records.row(17, "a"), Records.row(19, "b"), Records.row(20, "c"));

  @Test
  void aTaskThatReadsAllOfItsPartitionCountsWhatItWasGiven() throws IOException {
    // Here: a, b, marker, c. There: a, marker, b, c.
    Leg.Given two = new Leg.Given(Records.row(6, "b"), 2);
    assertEquals("c", rest(elsewhere(MARKER_SECOND).leg(Optional.of(WHOLE), two)));
    assertEquals("abc", rest(elsewhere(MARKER_SECOND).leg(Optional.of(WHOLE), Leg.Given.NOTHING)));
  }

  @Test
  void aTaskThatReadsAPieceGoesByTheOffset() throws IOException {
    There there =
        new There(
            Records.row(17, "a"), Records.row(18, "b"), Records.row(19, "c"), Records.row(20, "d"));
    Leg.Given one = new Leg.Given(Records.row(7, "c"), 1);
    assertEquals("d", rest(elsewhere(there).leg(Optional.of(SECOND_HALF), one)));
    assertEquals("cd", rest(elsewhere(there).leg(Optional.of(SECOND_HALF), Leg.Given.NOTHING)));
  }

  @Test
  void aTaskThatFoundAnotherRecordEndsEachOtherTryOfTheBatch() {
    Elsewhere elsewhere = elsewhere(MARKER_SECOND);
    Leg other = elsewhere.leg(Optional.of(WHOLE), new Leg.Given(Records.row(6, "x"), 2));
    assertThrows(IllegalStateException.class, other::next);
    assertThrows(
        IllegalStateException.class, () -> elsewhere.leg(Optional.of(WHOLE), Leg.Given.NOTHING));
  }

  @Test
  void aRangeThatNobodyKnowsIsNotGuessed() {
    Elsewhere elsewhere = elsewhere(MARKER_SECOND);
    assertThrows(
        IllegalStateException.class, () -> elsewhere.leg(Optional.empty(), Leg.Given.NOTHING));
  }

  @Test
  void aLogHoldsEachRecordOfARangeOrNot() {
    long later = System.nanoTime() + 60_000_000_000L;
    KafkaRange range = new KafkaRange("orders", 0, 17, 20);
    There dense = new There(Records.row(17, "a"), Records.row(18, "b"), Records.row(19, "c"));
    assertTrue(Elsewhere.holdsEach(dense, range, later));
    assertFalse(Elsewhere.holdsEach(dense, range, System.nanoTime() - 1), "it took too long");
    assertFalse(Elsewhere.holdsEach(MARKER_SECOND, range, later));
    There markerLast = new There(Records.row(17, "a"), Records.row(18, "b"));
    assertFalse(Elsewhere.holdsEach(markerLast, range, later));
  }

  /** Its first try passes without an answer. */
  private static final class Late implements PartitionReader<InternalRow> {
    private final PartitionReader<InternalRow> rows;
    private boolean isSilent = true;

    Late(PartitionReader<InternalRow> rows) {
      this.rows = rows;
    }

    @Override
    public boolean next() throws IOException {
      if (isSilent) {
        isSilent = false;
        throw new TimeoutException("nobody answered");
      }
      return rows.next();
    }

    @Override
    public InternalRow get() {
      return rows.get();
    }

    @Override
    public void close() {}
  }

  @Test
  void whatAnswersLateIsAskedAgain() {
    KafkaRange range = new KafkaRange("orders", 0, 17, 18);
    There dense = new There(Records.row(17, "a"));
    MicroBatchStream late =
        (MicroBatchStream)
            java.lang.reflect.Proxy.newProxyInstance(
                ElsewhereTest.class.getClassLoader(),
                new Class<?>[] {MicroBatchStream.class},
                (proxy, method, given) -> {
                  Object answer = method.invoke(dense, given);
                  return answer instanceof PartitionReaderFactory factory
                      ? (PartitionReaderFactory) each -> new Late(factory.createReader(each))
                      : answer;
                });
    assertTrue(Elsewhere.holdsEach(late, range, System.nanoTime() + 60_000_000_000L));
  }
}
