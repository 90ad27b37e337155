package tideover.spark41;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class FencedCheckpointFileManagerTest {
  @TempDir private java.nio.file.Path folder;

  /** A file system that has Hadoop's older interface alone, as many connectors of stores have. */
  public static final class Lonely extends RawLocalFileSystem {
    @Override
    public URI getUri() {
      return URI.create("lonely:///");
    }
  }

  private static Configuration conf() {
    Configuration conf = new Configuration();
    conf.set("fs.lonely.impl", Lonely.class.getName());
    return conf;
  }

  private FencedCheckpointFileManager manager(String scheme) throws IOException {
    return new FencedCheckpointFileManager(new Path(scheme + ":" + folder), conf());
  }

  @Test
  void aSinksLogMayLieWhereOnlyTheOlderInterfaceLeads() throws IOException {
    Path entry = new Path("lonely:" + folder + "/_spark_metadata/0");
    try (FSDataOutputStream stream = manager("lonely").createAtomic(entry, false)) {
      stream.write("v1".getBytes(StandardCharsets.UTF_8));
    }
    assertEquals("v1", Files.readString(folder.resolve("_spark_metadata").resolve("0")));
  }

  @Test
  void aCheckpointMayNotLieWhereTwoCouldCreateOneEntry() throws IOException {
    FencedCheckpointFileManager lonely = manager("lonely");
    IOException refused = assertThrows(IOException.class, lonely::createCheckpointDirectory);
    assertTrue(refused.getMessage().contains("is where two drivers could"));
    assertTrue(refused.getMessage().endsWith("its file system is " + Lonely.class.getName()));
    assertEquals("file:" + folder, manager("file").createCheckpointDirectory().toString());
  }
}
