package tideover;

import java.io.IOException;
import java.io.OutputStream;

/**
 * Spark's own stream, which publishes when it is closed: by a rename that HDFS does in one step.
 */
public record SparksOwnWay(OutputStream stream, Runnable cancel) implements Draft.Way {
  @Override
  public void publish() throws IOException {
    stream.close();
  }

  @Override
  public void discard() {
    cancel.run();
  }
}
