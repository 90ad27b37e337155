package tideover;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * An object of a store, which appears whole when its stream is closed, so that neither a draft nor
 * a rename is needed, which is a copy there. One that must not exist yet is put on the condition
 * that there is none: the store decides between writers, at the moment when it has all of it.
 */
final class StoredObject implements Draft.Way {
  /** Hadoop's name for such a condition (HADOOP-19256). */
  private static final String EXCLUSIVE = "fs.option.create.conditional.overwrite";

  private final FileSystem store;
  private final Path target;
  private final boolean exclusive;
  private final FSDataOutputStream stream;
  private final ByteArrayOutputStream written = new ByteArrayOutputStream();

  StoredObject(FileSystem store, Path target, boolean exclusive) throws IOException {
    this.store = store;
    this.target = target;
    this.exclusive = exclusive;
    FSDataOutputStreamBuilder<?, ?> builder = store.createFile(target).overwrite(true).recursive();
    if (exclusive) {
      builder.must(EXCLUSIVE, "true");
    }
    this.stream = (FSDataOutputStream) builder.build();
  }

  /** Whether the connector can put on that condition; whether the store obeys it is unknown. */
  static boolean canBeExclusive(FileSystem store, Path path) throws IOException {
    return store.hasPathCapability(path, EXCLUSIVE);
  }

  /** What must not exist yet is small, and remembered: it may have to be known again. */
  @Override
  public OutputStream stream() {
    return exclusive ? written : stream;
  }

  /**
   * The store may have taken the object and its answer be lost; the client then tries again, and
   * meets its own object. So what is there is read before it counts as another writer's.
   */
  @Override
  public void publish() throws IOException {
    try {
      stream.write(written.toByteArray());
      stream.close();
    } catch (IOException refused) {
      if (!exclusive || !store.exists(target)) {
        throw refused;
      }
      if (!Arrays.equals(content(), written.toByteArray())) {
        FileAlreadyExistsException taken =
            new FileAlreadyExistsException(target + " exists already");
        taken.initCause(refused);
        throw taken;
      }
    }
  }

  private byte[] content() throws IOException {
    try (FSDataInputStream there = store.open(target)) {
      return there.readAllBytes();
    }
  }

  @Override
  public void discard() {
    stream.abort();
  }
}
