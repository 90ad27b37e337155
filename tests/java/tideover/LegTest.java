package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

final class LegTest {
  private static final int CREATE_TIME = 0;
  private static final int APPEND_TIME = 1;
  private static final KafkaRange RANGE = new KafkaRange("orders", 0, 17, 20);

  private static Leg leg(Leg.Begin begin, List<? extends PartitionReader<InternalRow>> readers) {
    return new Leg(
        new Cluster("west", 4),
        new Patience("west", 0),
        Records.opening(readers),
        Records.partitions(readers.size()),
        () -> Optional.of(RANGE),
        HomeColumns.AS_READ,
        begin);
  }

  private static Leg leg(Leg.Begin begin, InternalRow... rows) {
    return leg(begin, List.of(new Records.Reader(false, rows)));
  }

  private final AtomicBoolean refuted = new AtomicBoolean();

  /** Behind so many records, of which this is the last one. */
  private Leg.Begin behind(InternalRow last, long records) {
    Leg.Given given = new Leg.Given(last, records);
    return new Leg.Begin(records, OptionalLong.empty(), given, () -> refuted.set(true));
  }

  @Test
  void theFirstLegIsAWholeRange() throws IOException {
    Leg leg = leg(Leg.Begin.FIRST, Records.row(17, "a"), Records.row(18, "b"));
    assertEquals(Leg.Given.NOTHING, leg.given());
    assertEquals(Optional.of(RANGE), leg.range());
    assertTrue(leg.next());
    assertEquals("a", Records.value(leg.get()));
    assertEquals("a", Records.value(leg.given().last()));
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.given().last()));
    assertEquals(2, leg.given().records());
    assertFalse(leg.next());
  }

  @Test
  void aLaterOneBeginsBehindTheRecordsThatWereGiven() throws IOException {
    Leg.Begin begin = behind(Records.row(6, "b"), 2);
    Leg leg = leg(begin, Records.row(17, "a"), Records.row(18, "b"), Records.row(19, "c"));
    assertEquals(begin.given(), leg.given(), "the run may be held before the leg has begun");
    assertTrue(leg.next());
    assertEquals("c", Records.value(leg.get()));
    assertEquals(3, leg.given().records());
    assertFalse(leg.next());
    assertFalse(refuted.get());
  }

  @Test
  void markersOfTransactionsAtOtherPlacesAreNoRecords() throws IOException {
    // There: a, marker, b, c. Here: a, b, marker, c.
    Leg leg =
        leg(
            behind(Records.row(6, "b"), 2),
            Records.row(17, "a"),
            Records.row(19, "b"),
            Records.row(20, "c"));
    assertTrue(leg.next());
    assertEquals("c", Records.value(leg.get()));
  }

  static List<InternalRow> others() {
    return List.of(
        Records.row(18, "b"),
        Records.row(17, null, 1097, CREATE_TIME),
        Records.row(17, "a", 1098, CREATE_TIME));
  }

  @ParameterizedTest
  @MethodSource("others")
  void whereAnotherRecordIsThereNobodyKnowsWhereToGoOn(InternalRow other) {
    Leg leg = leg(behind(Records.row(5, "a"), 1), other, Records.row(18, "b"));
    Exception failure = assertThrows(IllegalStateException.class, leg::next);
    assertEquals(
        "west does not hold, as record 1 behind {\"orders\":{\"0\":17}}, the record that was read"
            + " last: the batch is read again",
        failure.getMessage());
    assertTrue(refuted.get());
  }

  @Test
  void aPieceOfAPartitionBeginsAtAnOffset() throws IOException {
    Leg.Given given = new Leg.Given(Records.row(5, "a"), 7);
    Leg.Begin begin = new Leg.Begin(1, OptionalLong.of(17), given, () -> {});
    Leg leg = leg(begin, Records.row(17, "a"), Records.row(18, "b"));
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.get()));
    Leg other = leg(begin, Records.row(18, "a"));
    assertThrows(IllegalStateException.class, other::next);
  }

  @Test
  void whereThereAreFewerRecordsNobodyKnowsEither() {
    assertThrows(
        IllegalStateException.class,
        leg(behind(Records.row(6, "b"), 2), Records.row(17, "b"))::next);
    assertTrue(refuted.get());
  }

  @Test
  void aBrokersTimeIsNoMarkOfARecord() throws IOException {
    Leg leg =
        leg(
            behind(Records.row(5, "a"), 1),
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
    Leg leg = leg(behind(Records.row(5, "a"), 1), List.of(first, empty, last));
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.get()));
    assertEquals(0, first.closed.getCount() + empty.closed.getCount());
    assertFalse(leg.next());
    leg.close();
    assertEquals(0, last.closed.getCount());
  }

  /** Spark's reader has no row before its first record: it fails where it is asked for one. */
  private static final class AtItsStart implements PartitionReader<InternalRow> {
    private final Records.Reader rows = new Records.Reader(false, Records.row(18, "b"));
    private boolean isSilent = true;

    @Override
    public boolean next() {
      if (isSilent) {
        throw new TimeoutException("nobody answered");
      }
      return rows.next();
    }

    @Override
    public InternalRow get() {
      if (rows.get() == null) {
        throw new AssertionError("there is no row yet");
      }
      return rows.get();
    }

    @Override
    public void close() {}
  }

  @Test
  void whereALaterPieceIsSilentTheTaskHasTheLastRecordOfThePieceBefore() throws IOException {
    AtItsStart second = new AtItsStart();
    Leg leg =
        leg(
            behind(Records.row(5, "a"), 1),
            List.of(new Records.Reader(false, Records.row(17, "a"), Records.row(18, "c")), second));
    assertTrue(leg.next());
    assertThrows(TimeoutException.class, leg::next);
    assertEquals("c", Records.value(leg.given().last()));
    assertEquals(2, leg.given().records());
    second.isSilent = false;
    assertTrue(leg.next());
    assertEquals("b", Records.value(leg.get()));
    assertEquals(3, leg.given().records());
  }
}
