package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * One move of a query: where each of its sources continues, for each place from which it may have
 * to. It lies beside the checkpoint as a file, which a runner writes once before the move is
 * committed.
 */
final class Mapping {
  /** The folder inside a checkpoint; Spark passes over it. */
  static final String FOLDER = "_tideover_mappings";

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int VERSION = 1;

  private final Cluster from;
  private final Cluster to;
  private final String operation;

  /** Which request of the operation wrote it; of several the last counts. */
  private final long attempt;

  /** By the source's key in the log: the ends of the last batch, and of the one in flight. */
  private final Map<String, List<Place>> places;

  Mapping(
      Cluster from, Cluster to, String operation, long attempt, Map<String, List<Place>> places) {
    this.from = from;
    this.to = to;
    this.operation = operation;
    this.attempt = attempt;
    this.places = places;
  }

  Cluster from() {
    return from;
  }

  Cluster to() {
    return to;
  }

  String operation() {
    return operation;
  }

  long attempt() {
    return attempt;
  }

  Map<String, List<Place>> places() {
    return places;
  }

  /** The offsets of all partitions there, and those that stand for them here. */
  static final class Place {
    private final JsonNode there;
    private final JsonNode here;

    Place(JsonNode there, JsonNode here) {
      this.there = there;
      this.here = here;
    }

    JsonNode there() {
      return there;
    }

    JsonNode here() {
      return here;
    }
  }

  /** As the file says; {@code where} names it in the error. */
  static Mapping parse(String text, String where) {
    try {
      JsonNode file = JSON.readTree(text);
      if (file.path("version").asInt() != VERSION) {
        throw new IllegalArgumentException(
            where + " is of version " + file.path("version") + ", and this companion knows 1");
      }
      JsonNode from = file.required("left");
      Cluster left = new Cluster(from.required("cluster").asText(), number(from, "epoch"));
      Cluster to = new Cluster(file.required("to").asText(), number(file, "epoch"));
      Map<String, List<Place>> places = new HashMap<>();
      JsonNode told = file.required("places");
      told.fieldNames().forEachRemaining(key -> places.put(key, list(told.get(key))));
      long attempt = file.has("attempt") ? number(file, "attempt") : 1;
      return new Mapping(left, to, file.required("operation").asText(), attempt, places);
    } catch (JsonProcessingException | IllegalArgumentException error) {
      throw new IllegalArgumentException(where + " cannot be read: " + error.getMessage(), error);
    }
  }

  private static long number(JsonNode of, String name) {
    JsonNode found = of.required(name);
    if (!found.isIntegralNumber() || found.longValue() < 0) {
      throw new IllegalArgumentException(name + " is " + found + ", not a number");
    }
    return found.longValue();
  }

  private static List<Place> list(JsonNode told) {
    List<Place> places = new ArrayList<>();
    for (JsonNode each : told) {
      places.add(new Place(each.required("there"), each.required("here")));
    }
    return places;
  }

  /** The offsets here that stand for those of a source there; empty where the move names none. */
  Optional<JsonNode> here(String source, JsonNode there) {
    return places.getOrDefault(source, Fixed.list()).stream()
        .filter(each -> each.there().equals(there))
        .map(Place::here)
        .findFirst();
  }
}
