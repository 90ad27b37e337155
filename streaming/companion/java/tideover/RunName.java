package tideover;

import java.util.OptionalLong;
import org.apache.hadoop.conf.Configuration;

/** Which run this is: a query under one epoch, as the runner has set it in the session. */
record RunName(String query, OptionalLong epoch) {
  static RunName of(Configuration conf) {
    String epoch = conf.get("spark.tideover.epoch");
    return new RunName(
        conf.get("spark.tideover.query", "this query"),
        epoch == null ? OptionalLong.empty() : OptionalLong.of(Long.parseLong(epoch)));
  }

  /** As it is told to people. */
  String text() {
    return epoch.isEmpty() ? "a run without an epoch" : query + " with epoch " + epoch.getAsLong();
  }
}
