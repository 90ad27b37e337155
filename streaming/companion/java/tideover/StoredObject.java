package tideover;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.VersionInfo;

/**
 * An object of a store, which appears whole when its stream is closed, so that neither a draft nor
 * a rename is needed, which is a copy there. One that must not exist yet is put on the condition
 * that there is none: the store decides between writers, at the moment when it has all of it.
 *
 * <p>Such an object carries the name of its writer. The store may have taken it and its answer be
 * lost; the client tries again then, and is refused because of its own object.
 */
public final class StoredObject implements Draft.Way {
  /** Hadoop's name for such a condition (HADOOP-19256). */
  private static final String EXCLUSIVE = "fs.option.create.conditional.overwrite";

  /** By which a configuration forbids it. */
  private static final String ENABLED = "fs.s3a.create.conditional.enabled";

  private static final String CONNECTOR = "org.apache.hadoop.fs.s3a.S3AFileSystem";
  private static final String WRITER = "tideover-writer";
  private static final String METADATA = "fs.s3a.create.header." + WRITER;
  private static final String ATTRIBUTE = "header." + WRITER;

  /** How what must not exist yet gets to the store. */
  private interface Put {
    void put(byte[] content) throws IOException;

    void discard();
  }

  private final FileSystem store;
  private final Path target;
  private final String writer = UUID.randomUUID().toString();
  private final OutputStream stream;
  private final Put put;

  StoredObject(FileSystem store, Path target, boolean exclusive) throws IOException {
    this.store = store;
    this.target = target;
    if (exclusive) {
      Optional<String> refused = refusal(store, target);
      if (refused.isPresent()) {
        throw new IOException(target + " cannot be put where there is none: " + refused.get());
      }
      stream = new ByteArrayOutputStream();
      put = GoogleStorage.is(store) ? byGeneration() : byHeader();
    } else {
      FSDataOutputStream plain = (FSDataOutputStream) builder().build();
      stream = plain;
      put = streamed(plain);
    }
  }

  /** On S3. */
  private Put byHeader() throws IOException {
    return hasCondition(store, target) ? byConnector() : bySdk();
  }

  private FSDataOutputStreamBuilder<?, ?> builder() throws IOException {
    return store.createFile(target).overwrite(true).recursive();
  }

  private Put byConnector() throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = builder().must(EXCLUSIVE, "true");
    return streamed((FSDataOutputStream) builder.must(METADATA, writer).build());
  }

  private static Put streamed(FSDataOutputStream stream) {
    return new Put() {
      @Override
      public void put(byte[] content) throws IOException {
        stream.write(content);
        stream.close();
      }

      @Override
      public void discard() {
        stream.abort();
      }
    };
  }

  private Put bySdk() throws IOException {
    ConditionalPut client = ConditionalPut.by(store).get(); // as there was no refusal
    return whole(content -> client.put(store, target, content, Fixed.map(WRITER, writer)));
  }

  private Put byGeneration() {
    return whole(content -> GoogleStorage.put(store, target, content, WRITER, writer));
  }

  /** What one request sends. */
  private interface Request {
    void send(byte[] content) throws IOException;
  }

  private static Put whole(Request request) {
    return new Put() {
      @Override
      public void put(byte[] content) throws IOException {
        request.send(content);
      }

      @Override
      public void discard() {}
    };
  }

  /** Whether a file system is Hadoop's connector of S3 or Google's, whatever its scheme is. */
  public static boolean isStore(FileSystem system) {
    return GoogleStorage.is(system) || isA(system, CONNECTOR);
  }

  /** Whether a file system is of the class of this name, or of one below it. */
  static boolean isA(FileSystem system, String name) {
    for (Class<?> each = system.getClass(); each != null; each = each.getSuperclass()) {
      if (each.getName().equals(name)) {
        return true;
      }
    }
    return false;
  }

  /**
   * Why an object cannot be put on that condition, in words that follow a colon; empty where it
   * can. Whether the store obeys it is unknown. Throws where that cannot be found out now.
   */
  static Optional<String> refusal(FileSystem store, Path path) throws IOException {
    if (GoogleStorage.is(store)) {
      return GoogleStorage.refusal(store);
    }
    if (!store.getConf().getBoolean(ENABLED, true)) {
      return Optional.of(ENABLED + " is false");
    }
    if (hasCondition(store, path) || ConditionalPut.by(store).isPresent()) {
      return Optional.empty();
    }
    return Optional.of(
        "the connector of Hadoop "
            + VersionInfo.getVersion()
            + " cannot put an object on the condition that there is none, and gives no client of"
            + " Amazon's SDK that can");
  }

  /** The same for other languages: empty where it can. */
  public static String whyNotExclusive(FileSystem store, Path path) throws IOException {
    return refusal(store, path).orElse("");
  }

  private static boolean hasCondition(FileSystem store, Path path) throws IOException {
    return store.hasPathCapability(path, EXCLUSIVE);
  }

  /** Begins an object, there or not. */
  static Draft.Way replacing(FileSystem store, Path target) throws IOException {
    return GoogleStorage.is(store)
        ? new SpooledObject(store, target)
        : new StoredObject(store, target, false);
  }

  /** Puts an object whose name is free; false where another writer has it. */
  public static boolean create(FileSystem store, Path target, byte[] content) throws IOException {
    StoredObject created = new StoredObject(store, target, true);
    created.stream.write(content);
    try {
      created.publish();
      return true;
    } catch (FileAlreadyExistsException taken) {
      return false;
    }
  }

  /** What must not exist yet is small, and kept until it is put. */
  @Override
  public OutputStream stream() {
    return stream;
  }

  @Override
  public void publish() throws IOException {
    if (!(stream instanceof ByteArrayOutputStream)) {
      stream.close();
      return;
    }
    try {
      put.put(((ByteArrayOutputStream) stream).toByteArray());
    } catch (IOException refused) {
      if (!writerThere(refused).equals(writer)) {
        FileAlreadyExistsException taken =
            new FileAlreadyExistsException(target + " exists already");
        taken.initCause(refused);
        throw taken;
      }
    }
  }

  /**
   * The writer of what is there, empty where it has no name; throws {@code refused} for nothing.
   */
  private String writerThere(IOException refused) throws IOException {
    try {
      byte[] found = store.getXAttr(target, GoogleStorage.is(store) ? WRITER : ATTRIBUTE);
      return found == null ? "" : new String(found, StandardCharsets.UTF_8);
    } catch (FileNotFoundException nothing) {
      throw refused;
    }
  }

  @Override
  public void discard() {
    put.discard();
  }
}
