package tideover;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.IOUtils;

/**
 * The moves by which a query came to where it is, oldest first: each begins where the one before it
 * ended. What an operation left behind that was given up leads nowhere, and is passed over.
 */
final class Mappings {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String DRAFT = ".";
  private static final int BUFFER = 4096;

  private final Cluster active;
  private final List<Mapping> chain;

  private Mappings(Cluster active, List<Mapping> chain) {
    this.active = active;
    this.chain = chain;
  }

  /**
   * The moves that lead to where a run is to read: the rule that {@code mapping.chain_of} applies
   * too. There must be one of the epoch under which the query came there, and it must end there.
   * Each must begin where the one before it ended, back to the cluster on which the checkpoint
   * began.
   *
   * @param found all mappings beside the checkpoint
   * @param cluster the cluster that the run is to read
   * @param placed the epoch of the move by which the query came there; 0 where the checkpoint began
   *     there
   * @throws IllegalStateException where they lead elsewhere, or one is missing
   */
  static Mappings of(Collection<Mapping> found, String cluster, long placed) {
    Optional<Mapping> newest = latest(found.stream().filter(each -> each.to().epoch() == placed));
    if (!newest.isPresent() && placed != SwitchOffset.HOME) {
      throw new IllegalStateException(
          "the query came to "
              + cluster
              + " by a mapping of epoch "
              + placed
              + ", and there is none of it beside this checkpoint: it is not started");
    }
    if (!newest.isPresent()) {
      requireHome(found, cluster);
      return new Mappings(new Cluster(cluster, SwitchOffset.HOME), Fixed.list());
    }
    Cluster to = newest.get().to();
    if (!to.name().equals(cluster)) {
      throw new IllegalStateException(
          "operation "
              + newest.get().operation()
              + " moved this checkpoint to "
              + to.text()
              + ", but this run is to read "
              + cluster
              + ": it is not started");
    }
    Deque<Mapping> chain = new ArrayDeque<>(Fixed.list(newest.get()));
    while (chain.getFirst().from().epoch() != SwitchOffset.HOME) {
      chain.addFirst(before(chain.getFirst(), found));
    }
    return new Mappings(to, new ArrayList<>(chain));
  }

  private static Mapping before(Mapping mapping, Collection<Mapping> found) {
    return latest(found.stream().filter(each -> each.to().equals(mapping.from())))
        .filter(each -> each.to().epoch() < mapping.to().epoch())
        .orElseThrow(
            () ->
                new IllegalStateException(
                    "operation "
                        + mapping.operation()
                        + " left "
                        + mapping.from().text()
                        + ", and no mapping leads there"));
  }

  private static Optional<Mapping> latest(Stream<Mapping> moves) {
    return moves.max(
        Comparator.comparingLong((Mapping each) -> each.to().epoch())
            .thenComparingLong(Mapping::attempt));
  }

  /** A mapping that leaves the first cluster names it, be it of an operation that was given up. */
  private static void requireHome(Collection<Mapping> found, String cluster) {
    for (Mapping each : found) {
      boolean began = each.from().epoch() == SwitchOffset.HOME;
      if (began && !each.from().name().equals(cluster)) {
        throw new IllegalStateException(
            "this checkpoint began on "
                + each.from().name()
                + ", and no mapping leads to "
                + cluster
                + ", which this run is to read: it is not started");
      }
    }
  }

  /** Reads those beside a checkpoint. */
  static Mappings read(Path checkpoint, Configuration conf, String cluster, long placed)
      throws IOException {
    FileSystem system = checkpoint.getFileSystem(conf);
    List<Mapping> found = new ArrayList<>();
    try {
      for (FileStatus each : system.listStatus(new Path(checkpoint, Mapping.FOLDER))) {
        if (!each.getPath().getName().startsWith(DRAFT)) {
          found.add(Mapping.parse(text(system, each.getPath()), each.getPath().toString()));
        }
      }
    } catch (FileNotFoundException neverMoved) {
      return of(Fixed.list(), cluster, placed);
    }
    return of(found, cluster, placed);
  }

  private static String text(FileSystem system, Path path) throws IOException {
    try (FSDataInputStream stream = system.open(path)) {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      IOUtils.copyBytes(stream, all, BUFFER);
      return new String(all.toByteArray(), StandardCharsets.UTF_8);
    }
  }

  /** The moves that lead there, oldest first. */
  List<Mapping> chain() {
    return chain;
  }

  /** The cluster that the run reads. */
  Cluster active() {
    return active;
  }

  /**
   * The same place in the offsets of the cluster that the run reads, as Kafka's source writes it.
   *
   * @throws IllegalStateException where no move names that place: it is refused, never guessed
   */
  String onActive(String source, SwitchOffset offset) {
    if (offset.epoch() == active.epoch()) {
      return offset.kafka();
    }
    int first = 0;
    while (first < chain.size() && chain.get(first).from().epoch() != offset.epoch()) {
      first++;
    }
    if (first == chain.size()) {
      throw new IllegalStateException(
          "source " + source + " is at " + offset.json() + ", and no mapping leads from there");
    }
    JsonNode at = parsed(offset.kafka());
    for (Mapping mapping : chain.subList(first, chain.size())) {
      JsonNode there = at;
      at =
          mapping
              .here(source, there)
              .orElseThrow(
                  () ->
                      new IllegalStateException(
                          "source "
                              + source
                              + " is at "
                              + there
                              + " on "
                              + mapping.from().text()
                              + ", and operation "
                              + mapping.operation()
                              + " found no resume offset on "
                              + mapping.to().text()
                              + " for that"));
    }
    return at.toString();
  }

  /** What Kafka's source writes. */
  static JsonNode parsed(String kafka) {
    try {
      return JSON.readTree(kafka);
    } catch (JsonProcessingException error) {
      throw new IllegalArgumentException(kafka + " is no offset of a Kafka source", error);
    }
  }
}
