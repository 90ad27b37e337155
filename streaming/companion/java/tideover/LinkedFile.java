package tideover;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;
import org.apache.hadoop.fs.FileAlreadyExistsException;

/**
 * A file on a local disk, or on a share that is mounted like one: a hard link gives a finished
 * draft its name, which the operating system refuses if the name is taken. Spark's own ways look
 * first and rename then.
 */
final class LinkedFile implements Draft.Way {
  private final Path target;
  private final Path draft;
  private final OutputStream stream;

  LinkedFile(Path target) throws IOException {
    this.target = target;
    this.draft =
        target.resolveSibling("." + target.getFileName() + "." + UUID.randomUUID() + ".tmp");
    Files.createDirectories(target.toAbsolutePath().getParent());
    this.stream = new BufferedOutputStream(Files.newOutputStream(draft));
  }

  @Override
  public OutputStream stream() {
    return stream;
  }

  @Override
  public void publish() throws IOException {
    try {
      stream.close();
      Files.createLink(target, draft);
    } catch (java.nio.file.FileAlreadyExistsException taken) {
      // A share may have linked it and lost the answer, and refuse the second request for it.
      if (!Files.isSameFile(target, draft)) {
        throw new FileAlreadyExistsException(target + " exists already");
      }
    } finally {
      Files.deleteIfExists(draft);
    }
    // Of a file that had this name before; a reader that checks sums would fail on it.
    Files.deleteIfExists(target.resolveSibling("." + target.getFileName() + ".crc"));
  }

  @Override
  public void discard() throws IOException {
    try {
      stream.close();
    } finally {
      Files.deleteIfExists(draft);
    }
  }
}
