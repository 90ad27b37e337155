package tideover;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * By how much the offsets of one batch differ between two clusters: one number per partition, the
 * same at both ends of the batch.
 *
 * <p>A move's plan promises by the same rule that a batch continues in its run ({@code
 * streaming.resume.shift}); both are tested with the cases of {@code tests/cases/shift.json}.
 */
final class Shift {
  /** By name what a topic is called there. */
  private final Map<String, String> topics;

  /** By topic and partition. */
  private final Map<String, Map<Integer, Span>> spans;

  Shift(Map<String, String> topics, Map<String, Map<Integer, Span>> spans) {
    this.topics = topics;
    this.spans = spans;
  }

  Map<String, Map<Integer, Span>> spans() {
    return spans;
  }

  /** A batch by its two ends, as Kafka's source writes offsets. */
  static final class Ends {
    private final String start;
    private final String end;

    Ends(String start, String end) {
      this.start = start;
      this.end = end;
    }

    String start() {
      return start;
    }

    String end() {
      return end;
    }
  }

  /** What a batch reads of a partition, and what is added to its offsets. */
  static final class Span {
    private final long from;
    private final long until;
    private final long by;

    Span(long from, long until, long by) {
      this.from = from;
      this.until = until;
      this.by = by;
    }

    long from() {
      return from;
    }

    long until() {
      return until;
    }

    long by() {
      return by;
    }
  }

  /**
   * Empty where a partition spans another number of offsets there: holes that transactions or
   * compaction left, a place that was found by time, a partition more from which the batch would
   * read. Topics are the same where they have the same name at home.
   */
  static Optional<Shift> between(Ends here, Naming named, Ends there, Naming namedThere) {
    JsonNode start = Mappings.parsed(here.start());
    JsonNode end = Mappings.parsed(here.end());
    JsonNode startThere = Mappings.parsed(there.start());
    JsonNode endThere = Mappings.parsed(there.end());
    Map<String, String> topics = names(end, named, endThere, namedThere);
    Map<String, Map<Integer, Span>> spans = new HashMap<>();
    for (Map.Entry<String, String> topic : topics.entrySet()) {
      Optional<Map<Integer, Span>> ours =
          spans(
              start.path(topic.getKey()),
              end.path(topic.getKey()),
              startThere.path(topic.getValue()),
              endThere.path(topic.getValue()));
      if (!ours.isPresent()) {
        return Optional.empty();
      }
      spans.put(topic.getKey(), ours.get());
    }
    return topics.isEmpty() ? Optional.empty() : Optional.of(new Shift(topics, spans));
  }

  private static Optional<Map<Integer, Span>> spans(
      JsonNode starts, JsonNode ends, JsonNode startsThere, JsonNode endsThere) {
    Map<Integer, Span> ours = new HashMap<>();
    for (String partition : fields(ends)) {
      JsonNode from = starts.path(partition);
      JsonNode fromThere = startsThere.path(partition);
      long by = fromThere.asLong() - from.asLong();
      long until = ends.get(partition).asLong();
      boolean isKnown = from.isIntegralNumber() && fromThere.isIntegralNumber();
      if (!isKnown
          || !endsThere.path(partition).isIntegralNumber()
          || endsThere.path(partition).asLong() - until != by) {
        return Optional.empty();
      }
      ours.put(Integer.valueOf(partition), new Span(from.asLong(), until, by));
    }
    for (String partition : fields(endsThere)) {
      boolean isOurs = ours.containsKey(Integer.valueOf(partition));
      if (!isOurs && !endsThere.get(partition).equals(startsThere.path(partition))) {
        return Optional.empty();
      }
    }
    return Optional.of(ours);
  }

  /** None where a topic has no counterpart there, or two topics have one name at home. */
  private static Map<String, String> names(
      JsonNode here, Naming named, JsonNode there, Naming namedThere) {
    Map<String, String> ours = byHome(here, named);
    Map<String, String> theirs = byHome(there, namedThere);
    Map<String, String> names = new HashMap<>();
    if (ours.size() == here.size()
        && theirs.size() == there.size()
        && ours.keySet().equals(theirs.keySet())) {
      ours.forEach((home, topic) -> names.put(topic, theirs.get(home)));
    }
    return names;
  }

  private static Map<String, String> byHome(JsonNode of, Naming named) {
    Map<String, String> names = new HashMap<>();
    fields(of).forEach(topic -> names.put(named.home(topic), topic));
    return names;
  }

  private static Set<String> fields(JsonNode of) {
    Set<String> names = new HashSet<>();
    of.fieldNames().forEachRemaining(names::add);
    return names;
  }

  /** The same records there; empty for a partition that the batch does not read. */
  Optional<KafkaRange> of(KafkaRange range) {
    return span(range).map(known -> range.shifted(topics.get(range.topic()), known.by()));
  }

  /**
   * Whether a range is all that the batch reads of its partition: both its ends are known there.
   */
  boolean isWhole(KafkaRange range) {
    return whole(range).filter(range::equals).isPresent();
  }

  /** All that the batch reads of the partition of a range. */
  Optional<KafkaRange> whole(KafkaRange range) {
    return span(range)
        .map(
            known -> new KafkaRange(range.topic(), range.partition(), known.from(), known.until()));
  }

  private Optional<Span> span(KafkaRange range) {
    return Optional.ofNullable(
        spans.getOrDefault(range.topic(), Fixed.map()).get(range.partition()));
  }
}
