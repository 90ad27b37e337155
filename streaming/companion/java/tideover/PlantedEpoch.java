package tideover;

import java.util.Comparator;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * An epoch that an operation planted beside a checkpoint when it fenced it: every run with an older
 * one is over. It is a file named {@code <epoch>-<operation>.<attempt>}, so that planting creates
 * and never replaces, and of two operations the newer one counts whichever comes last.
 */
final class PlantedEpoch extends Value {
  /** The folder inside a checkpoint; Spark passes over it. */
  static final String FOLDER = "_tideover_epochs";

  private static final Pattern NAME =
      Pattern.compile("(?<epoch>\\d{1,18})-(?<operation>.+)\\.\\d+");

  private final long epoch;
  private final String operation;

  PlantedEpoch(long epoch, String operation) {
    this.epoch = epoch;
    this.operation = operation;
  }

  long epoch() {
    return epoch;
  }

  @Override
  Object[] parts() {
    return new Object[] {epoch, operation};
  }

  /** The newest epoch among the names in the folder; drafts and other names do not count. */
  static Optional<PlantedEpoch> newest(Stream<String> names) {
    return names
        .map(NAME::matcher)
        .filter(Matcher::matches)
        .map(each -> new PlantedEpoch(Long.parseLong(each.group("epoch")), each.group("operation")))
        .max(Comparator.comparingLong(PlantedEpoch::epoch));
  }

  /**
   * Whether a run may not write any more; one that has no epoch was never admitted, and may not.
   */
  boolean ends(RunName run) {
    return !run.epoch().isPresent() || run.epoch().getAsLong() < epoch;
  }

  /**
   * The sentence for the run.
   *
   * @param consequence what does not happen: {@code offsets/7 is not written}
   */
  String sentence(RunName run, String checkpoint, String consequence) {
    return run.text()
        + " is over: operation "
        + operation
        + " took "
        + checkpoint
        + " with epoch "
        + epoch
        + ", so "
        + consequence;
  }
}
