package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class ShiftTest {
  private static final Shift.Ends HERE =
      new Shift.Ends("{'orders':{'0':100,'1':40}}", "{'orders':{'0':130,'1':40}}");

  private static Shift.Ends ends(String start, String end) {
    return new Shift.Ends(start.replace('\'', '"'), end.replace('\'', '"'));
  }

  private static Optional<Shift> shift(Shift.Ends here, String start, String end) {
    return Shift.between(ends(here.start(), here.end()), ends(start, end));
  }

  @Test
  void itMovesARangeByWhatBothEndsOfItsPartitionDiffer() {
    Shift shift =
        shift(HERE, "{'orders':{'0':117,'1':23}}", "{'orders':{'1':23,'0':147}}").orElseThrow();
    assertEquals(
        Optional.of(new KafkaRange("orders", 0, 127, 147)),
        shift.of(new KafkaRange("orders", 0, 110, 130)));
    assertEquals(
        Optional.of(new KafkaRange("orders", 1, 23, 23)),
        shift.of(new KafkaRange("orders", 1, 40, 40)));
    assertEquals(Optional.empty(), shift.of(new KafkaRange("orders", 2, 0, 1)));
    assertEquals(Optional.empty(), shift.of(new KafkaRange("parcels", 0, 0, 1)));
  }

  @Test
  void aPartitionMoreFromWhichTheBatchReadsNothingIsInNobodysWay() {
    Shift shift =
        shift(HERE, "{'orders':{'0':117,'1':23,'2':5}}", "{'orders':{'0':147,'1':23,'2':5}}")
            .orElseThrow();
    assertEquals(Optional.empty(), shift.of(new KafkaRange("orders", 2, 5, 5)));
  }

  @Test
  void theOneTopicOfABatchMayBeCalledOtherwise() {
    Shift shift =
        shift(HERE, "{'east.orders':{'0':0,'1':0}}", "{'east.orders':{'0':30,'1':0}}")
            .orElseThrow();
    assertEquals(
        Optional.of(new KafkaRange("east.orders", 0, 0, 30)),
        shift.of(new KafkaRange("orders", 0, 100, 130)));
  }

  @Test
  void ofTwoTopicsThatAreCalledOtherwiseNobodyKnowsWhichIsWhich() {
    Shift.Ends two = new Shift.Ends("{'a':{'0':1},'b':{'0':1}}", "{'a':{'0':2},'b':{'0':2}}");
    assertEquals(
        Optional.empty(), shift(two, "{'c':{'0':1},'d':{'0':1}}", "{'c':{'0':2},'d':{'0':2}}"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {
        "one span is longer | {'orders':{'0':117,'1':23}} | {'orders':{'0':148,'1':23}}",
        "one span is shorter | {'orders':{'0':117,'1':23}} | {'orders':{'0':147,'1':22}}",
        "a partition more | {'orders':{'0':117,'1':23}} | {'orders':{'0':147,'1':23,'2':5}}",
        "another one more | {'orders':{'0':117,'1':23,'2':4}} | {'orders':{'0':147,'1':23,'2':5}}",
        "a partition less | {'orders':{'0':117,'1':23}} | {'orders':{'0':147}}",
        "an unknown begin | {'orders':{'0':117}} | {'orders':{'0':147,'1':23}}",
        "nothing | {} | {}",
      })
  void thereIsNoneWhereTheBatchIsNotTheSameNumberOfOffsets(String why, String start, String end) {
    assertEquals(Optional.empty(), shift(HERE, start, end), why);
  }

  @Test
  void aPartitionThatABatchBeginsWithHasNoKnownBegin() {
    Shift.Ends grown = new Shift.Ends("{'orders':{'0':1}}", "{'orders':{'0':2,'1':3}}");
    assertEquals(
        Optional.empty(), shift(grown, "{'orders':{'0':1,'1':0}}", "{'orders':{'0':2,'1':3}}"));
  }
}
