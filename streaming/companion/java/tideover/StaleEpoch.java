package tideover;

import java.io.IOException;

/** The query was moved: this run, of an older epoch, writes nothing more into its checkpoint. */
public final class StaleEpoch extends IOException {
  private static final long serialVersionUID = 1L;

  StaleEpoch(String sentence) {
    super(sentence);
  }
}
