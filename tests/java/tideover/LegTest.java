package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

final class LegTest {
  private static final int CREATE_TIME = 0;
  private static final int APPEND_TIME = 1;
  private static final KafkaRange RANGE = new KafkaRange("orders", 0, 17, 20);

  private static Leg leg(InternalRow given, List<? extends PartitionReader<InternalRow>> readers) {
    return new Leg(
        new Cluster("west", 4),
        new Patience("west", 0),
        Records.opening(readers),
        Records.partitions(readers.size()),
        () -> Optional.of(RANGE),
        given);
  }

  private static Leg leg(InternalRow given, InternalRow... rows) {
    return leg(given, List.of(new Records.Reader(false, rows)));
  }

  @Test
  void theFirstLegIsAWholeRange() throws IOException {
    Leg leg = leg(null, Records.row(17, "a"), Records.row(18, "b"));
    assertNull(leg.given());
    assertEquals(Optional.of(RANGE), leg.rest());
    assertTrue(leg.next());
    assertEquals("a", Records.value(leg.get()));
    assertEquals("a", Records.value(leg.given()));
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.given()));
    assertEquals(Optional.of(RANGE.beginningAt(18)), leg.rest());
    assertFalse(leg.next());
  }

  @Test
  void aLaterOneBeginsBehindTheRecordThatWasGivenLast() throws IOException {
    InternalRow given = Records.row(5, "a");
    Leg leg = leg(given, Records.row(17, "a"), Records.row(18, "b"));
    assertEquals(given, leg.given(), "it may have to go on elsewhere before it has begun");
    assertEquals(Optional.of(RANGE), leg.rest());
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.get()));
    assertFalse(leg.next());
  }

  static List<InternalRow> others() {
    return List.of(
        Records.row(17, "b"),
        Records.row(18, "a"),
        Records.row(17, null, 1097, CREATE_TIME),
        Records.row(17, "a", 1098, CREATE_TIME));
  }

  @ParameterizedTest
  @MethodSource("others")
  void whereAnotherRecordStandsThereNobodyKnowsWhereToGoOn(InternalRow other) {
    Leg leg = leg(Records.row(5, "a"), other, Records.row(18, "b"));
    Exception failure = assertThrows(IllegalStateException.class, leg::next);
    assertEquals(
        "west does not hold the record that was read last at {\"orders\":{\"0\":17}}: the batch is"
            + " read again",
        failure.getMessage());
  }

  @Test
  void whereNoRecordStandsThereNobodyKnowsEither() {
    assertThrows(IllegalStateException.class, leg(Records.row(5, "a"))::next);
  }

  @Test
  void aBrokersTimeIsNoMarkOfARecord() throws IOException {
    Leg leg =
        leg(
            Records.row(5, "a"),
            Records.row(17, "a", 99_999, APPEND_TIME),
            Records.row(18, "b", 99_999, APPEND_TIME));
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.get()));
  }

  @Test
  void aRangeThatWasPlannedInPiecesIsReadOneAfterTheOther() throws IOException {
    Records.Reader first = new Records.Reader(false, Records.row(17, "a"));
    Records.Reader empty = new Records.Reader(false);
    Records.Reader last = new Records.Reader(false, Records.row(18, "b"));
    Leg leg = leg(Records.row(5, "a"), List.of(first, empty, last));
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.get()));
    assertEquals(0, first.closed.getCount() + empty.closed.getCount());
    assertFalse(leg.next());
    leg.close();
    assertEquals(0, last.closed.getCount());
  }
}
