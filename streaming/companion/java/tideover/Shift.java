package tideover;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * By how much the offsets of one batch differ between two clusters: one number per partition, the
 * same at both ends of the batch. Without that no record in the middle has a known offset there.
 *
 * @param topics by name what a topic is called there
 * @param by by topic and partition, what is added to an offset
 */
record Shift(Map<String, String> topics, Map<String, Map<Integer, Long>> by) {
  /** A batch by its two ends, as Kafka's source writes offsets. */
  record Ends(String start, String end) {}

  /**
   * Empty where a partition spans another number of offsets there: holes that transactions or
   * compaction left, a place that was found by time, a partition more from which the batch would
   * read.
   */
  static Optional<Shift> between(Ends here, Ends there) {
    JsonNode start = Mappings.parsed(here.start());
    JsonNode end = Mappings.parsed(here.end());
    JsonNode startThere = Mappings.parsed(there.start());
    JsonNode endThere = Mappings.parsed(there.end());
    Map<String, String> topics = names(end, endThere);
    Map<String, Map<Integer, Long>> by = new HashMap<>();
    for (Map.Entry<String, String> topic : topics.entrySet()) {
      JsonNode ends = end.path(topic.getKey());
      JsonNode endsThere = endThere.path(topic.getValue());
      Map<Integer, Long> ours = new HashMap<>();
      for (String partition : fields(ends)) {
        JsonNode from = start.path(topic.getKey()).path(partition);
        JsonNode fromThere = startThere.path(topic.getValue()).path(partition);
        long shift = fromThere.asLong() - from.asLong();
        boolean isKnown = from.isIntegralNumber() && fromThere.isIntegralNumber();
        if (!isKnown
            || endsThere.path(partition).asLong() - ends.get(partition).asLong() != shift) {
          return Optional.empty();
        }
        ours.put(Integer.valueOf(partition), shift);
      }
      JsonNode startsThere = startThere.path(topic.getValue());
      for (String partition : fields(endsThere)) {
        boolean isOurs = ours.containsKey(Integer.valueOf(partition));
        if (!isOurs && !endsThere.get(partition).equals(startsThere.path(partition))) {
          return Optional.empty();
        }
      }
      by.put(topic.getKey(), ours);
    }
    return topics.isEmpty() ? Optional.empty() : Optional.of(new Shift(topics, by));
  }

  /** None where more than one topic is called otherwise: nobody knows then which is which. */
  private static Map<String, String> names(JsonNode here, JsonNode there) {
    Set<String> ours = fields(here);
    Set<String> theirs = fields(there);
    Map<String, String> names = new HashMap<>();
    if (ours.equals(theirs)) {
      ours.forEach(each -> names.put(each, each));
    } else if (ours.size() == 1 && theirs.size() == 1) {
      names.put(only(ours), only(theirs));
    }
    return names;
  }

  private static String only(Collection<String> one) {
    return one.iterator().next();
  }

  private static Set<String> fields(JsonNode of) {
    Set<String> names = new HashSet<>();
    of.fieldNames().forEachRemaining(names::add);
    return names;
  }

  /** The same records there; empty for a partition that the batch does not read. */
  Optional<KafkaRange> of(KafkaRange range) {
    Long shift = by.getOrDefault(range.topic(), Map.of()).get(range.partition());
    return Optional.ofNullable(shift).map(known -> range.shifted(topics.get(range.topic()), known));
  }
}
