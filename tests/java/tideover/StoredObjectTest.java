package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class StoredObjectTest {
  @TempDir private java.nio.file.Path folder;
  private final Draft.Way sparksOwn = new SparksOwnWay(new ByteArrayOutputStream(), () -> {});

  /** A store that takes an object and whose answer is lost, or that refuses it before it has it. */
  private static final class Forgetful extends RawLocalFileSystem {
    private boolean takes = true;

    private String writer;

    @Override
    public FSDataOutputStreamBuilder<?, ?> createFile(Path path) {
      return new Builder(this, path);
    }

    @Override
    public boolean hasPathCapability(Path path, String capability) {
      return capability.equals("fs.option.create.conditional.overwrite");
    }

    @Override
    public byte[] getXAttr(Path path, String name) throws IOException {
      if (!Files.exists(java.nio.file.Path.of(path.toUri().getPath()))) {
        throw new FileNotFoundException(path.toString());
      }
      return writer == null ? null : writer.getBytes(StandardCharsets.UTF_8);
    }
  }

  private static final class Builder
      extends FSDataOutputStreamBuilder<FSDataOutputStream, Builder> {
    private final java.nio.file.Path target;
    private final Forgetful store;

    Builder(Forgetful store, Path path) {
      super((FileSystem) store, path);
      this.store = store;
      this.target = java.nio.file.Path.of(path.toUri().getPath());
    }

    @Override
    public Builder getThisBuilder() {
      return this;
    }

    @Override
    public FSDataOutputStream build() throws IOException {
      ByteArrayOutputStream sent =
          new ByteArrayOutputStream() {
            @Override
            public void close() throws IOException {
              if (store.takes && !Files.exists(target)) {
                Files.write(target, toByteArray());
                store.writer = getOptions().get("fs.s3a.create.header.tideover-writer");
              }
              throw new IOException("412, or no answer at all");
            }
          };
      return new FSDataOutputStream(sent, null);
    }
  }

  private void put(Forgetful store, String content) throws IOException {
    store.initialize(folder.toUri(), new Configuration(false));
    StoredObject object = new StoredObject(store, new Path(folder.toString(), "7"), true);
    object.stream().write(content.getBytes(StandardCharsets.UTF_8));
    object.publish();
  }

  @Test
  void anObjectWhoseAnswerWasLostIsOurs() throws IOException {
    put(new Forgetful(), "batch 7");
    assertEquals("batch 7", Files.readString(folder.resolve("7")));
  }

  @Test
  void anObjectOfAnotherWriterIsNot() throws IOException {
    Files.writeString(folder.resolve("7"), "planted");
    assertThrows(FileAlreadyExistsException.class, () -> put(new Forgetful(), "batch 7"));
    assertEquals("planted", Files.readString(folder.resolve("7")));
  }

  @Test
  void theSameWordsOfAnotherWriterAreNotOurs() throws IOException {
    Forgetful store = new Forgetful();
    put(store, "batch 7");
    assertThrows(FileAlreadyExistsException.class, () -> put(store, "batch 7"));
  }

  @Test
  void anObjectThatTheStoreDoesNotHaveIsAnError() {
    Forgetful store = new Forgetful();
    store.takes = false;
    IOException said = assertThrows(IOException.class, () -> put(store, "batch 7"));
    assertEquals("412, or no answer at all", said.getMessage());
    assertFalse(Files.exists(folder.resolve("7")));
  }

  /** A create in a checkpoint on S3, whose connector has no way to put on a condition. */
  private Draft.Way createOnS3(Configuration conf) throws IOException {
    Path offsets = new Path("s3a://bucket/revenue/offsets");
    AtomicReference<Draft.Way> begun = new AtomicReference<>();
    new Companion(offsets, conf)
        .create(
            new Path(offsets, "7"),
            () -> {
              begun.set(sparksOwn);
              return sparksOwn;
            });
    return begun.get();
  }

  private static Configuration s3(boolean fails) {
    Configuration conf = new Configuration(false);
    conf.setBoolean(S3AFileSystem.FAILS, fails);
    conf.set("fs.s3a.impl", S3AFileSystem.class.getName());
    conf.setBoolean("fs.s3a.impl.disable.cache", true);
    return conf;
  }

  private String refusedToAnAdmittedRun(Configuration conf) throws IOException {
    Admissions.grant(conf, "s3a://bucket/revenue", "revenue", 3, "one");
    try {
      return assertThrows(IOException.class, () -> createOnS3(conf)).getMessage();
    } finally {
      Admissions.withdraw("one");
    }
  }

  @Test
  void anAdmittedRunCreatesNothingInSparksWayWhileTheClientFails() throws IOException {
    String said = refusedToAnAdmittedRun(s3(true));
    assertTrue(said.endsWith("no credentials at this moment"), said);
  }

  @Test
  void anAdmittedRunCreatesNothingInSparksWayWithoutTheCondition() throws IOException {
    String said = refusedToAnAdmittedRun(s3(false));
    assertTrue(said.startsWith("s3a://bucket/revenue/offsets/7 cannot be put where"), said);
    Configuration forbidden = s3(false);
    forbidden.setBoolean("fs.s3a.create.conditional.enabled", false);
    said = refusedToAnAdmittedRun(forbidden);
    assertTrue(said.endsWith("fs.s3a.create.conditional.enabled is false"), said);
  }

  @Test
  void aQueryThatIsNotOursIsCreatedInSparksWay() throws IOException {
    assertSame(sparksOwn, createOnS3(s3(false)));
    assertThrows(IOException.class, () -> createOnS3(s3(true)));
  }

  @Test
  void theClientOfAConnectorIsLookedForOnceUnlessThatFailed() throws IOException {
    Path target = new Path("s3a://bucket/revenue/offsets/7");
    S3AFileSystem connector = new S3AFileSystem();
    connector.initialize(URI.create("s3a://bucket"), s3(true));
    assertThrows(IOException.class, () -> StoredObject.refusal(connector, target));
    assertThrows(IOException.class, () -> StoredObject.refusal(connector, target));
    assertEquals(2, connector.looks());
    connector.setConf(s3(false));
    assertTrue(StoredObject.refusal(connector, target).isPresent());
    assertTrue(StoredObject.refusal(connector, target).isPresent());
    assertEquals(3, connector.looks());
  }
}
