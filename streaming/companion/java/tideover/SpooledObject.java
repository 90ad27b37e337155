package tideover;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * An object, there or not, of a store whose connector cannot give up an upload that it has begun:
 * closing the stream publishes it. So what was written is kept in a local file until then.
 */
final class SpooledObject implements Draft.Way {
  private static final int TRIES = 3;

  private final FileSystem store;
  private final Path target;
  private final java.nio.file.Path kept;
  private final OutputStream stream;

  SpooledObject(FileSystem store, Path target) throws IOException {
    this.store = store;
    this.target = target;
    this.kept = Files.createTempFile("tideover-", ".object");
    this.stream = new BufferedOutputStream(Files.newOutputStream(kept));
  }

  @Override
  public OutputStream stream() {
    return stream;
  }

  /** The connector overwrites the generation that it has seen, so another writer may be first. */
  @Override
  public void publish() throws IOException {
    try {
      stream.close();
      for (int attempt = 1; ; attempt++) {
        try {
          put();
          return;
        } catch (IOException failed) {
          if (attempt == TRIES) {
            throw failed;
          }
        }
      }
    } finally {
      Files.deleteIfExists(kept);
    }
  }

  private void put() throws IOException {
    OutputStream object = store.create(target, true); // not closed after a failure: it would appear
    Files.copy(kept, object);
    object.close();
  }

  @Override
  public void discard() throws IOException {
    try {
      stream.close();
    } finally {
      Files.deleteIfExists(kept);
    }
  }
}
