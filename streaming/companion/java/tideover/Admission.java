package tideover;

import java.util.Optional;
import java.util.OptionalLong;

/** What a run was admitted as. */
final class Admission extends Value {
  /** Of a run that was never admitted: it has no epoch and is not followed. */
  static final Admission NEVER =
      new Admission(new RunName("this query", OptionalLong.empty()), Optional.empty());

  /** Its query and epoch. */
  private final RunName run;

  /** By which its entries and its hold are known; empty: it is not followed. */
  private final Optional<String> follower;

  Admission(RunName run, Optional<String> follower) {
    this.run = run;
    this.follower = follower;
  }

  RunName run() {
    return run;
  }

  Optional<String> follower() {
    return follower;
  }

  @Override
  Object[] parts() {
    return new Object[] {run, follower};
  }

  static Admission of(String query, long epoch, String follower) {
    return new Admission(new RunName(query, OptionalLong.of(epoch)), Optional.of(follower));
  }

  /** The hold of the run; a run that is not followed gets one that cannot begin. */
  Hold hold() {
    return Hold.of(follower.orElse(null));
  }
}
