package tideover;

import java.io.IOException;
import java.util.Optional;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Azure Data Lake by Hadoop's own client. It renames in one step, on the condition that the name is
 * free, where the account has a hierarchical namespace. So Spark's way to write an entry, a draft
 * and a rename, has one winner there, as on HDFS.
 */
final class DataLake {
  private static final String CLIENT = "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem";

  /** What the client says that it is able to do, by the namespace alone. */
  private static final String HAS_FOLDERS = "fs.capability.paths.acls";

  private DataLake() {}

  /** Whether a file system is that client, with or without TLS. */
  static boolean is(FileSystem system) {
    String name = system.getClass().getName();
    return name.equals(CLIENT) || name.equals(CLIENT.replace(".Azure", ".SecureAzure"));
  }

  /** Why two could create one entry there; empty where they cannot. */
  static Optional<String> refusal(FileSystem lake, Path path) throws IOException {
    return lake.hasPathCapability(path, HAS_FOLDERS)
        ? Optional.empty()
        : Optional.of("its account has no hierarchical namespace, where a rename is one step");
  }
}
