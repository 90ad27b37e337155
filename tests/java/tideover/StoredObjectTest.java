package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class StoredObjectTest {
  @TempDir private java.nio.file.Path folder;

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
}
