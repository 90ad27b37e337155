package tideover;

import java.io.IOException;
import java.nio.file.Paths;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * What the checkpoint file managers of all Spark versions share: which run this is, whether it may
 * write, and how a file is created for exactly one of those who race for its name.
 */
public final class Companion {
  private static final Set<String> SAFE = Set.of("file", "hdfs");

  private final Configuration conf;
  private final Fence fence;
  private final BatchNews news;

  /** For one folder of a checkpoint, with the settings of the run's session. */
  public Companion(Configuration conf) {
    this.conf = conf;
    this.fence = new Fence(conf);
    this.news = new BatchNews(conf);
  }

  /**
   * Whether local files are reached through another file system than Hadoop's own. Spark's usual
   * manager would pass it by, and only the one on the older {@code FileSystem} interface uses it.
   */
  public boolean hasOwnLocalFiles(Path path) throws IOException {
    return isLocal(path) && conf.get("fs.file.impl") != null;
  }

  /** Refuses a start under an epoch that is over, and one where two could create one entry. */
  public void requireStart(Path checkpoint) throws IOException {
    String scheme = schemeOf(checkpoint);
    if (!SAFE.contains(scheme)) {
      throw new IOException(
          checkpoint
              + " is on "
              + scheme
              + ", where two drivers could both create one entry of its log and run the query"
              + " twice");
    }
    fence.requireStart(checkpoint);
  }

  /** Begins a file that must not exist yet; {@code sparksOwn} begins it as Spark would. */
  public Draft create(Path path, Supplier<Draft.Way> sparksOwn) throws IOException {
    Draft.Way way =
        isLocal(path) ? new LinkedFile(Paths.get(path.toUri().getPath())) : sparksOwn.get();
    return new Draft(way, LogEntry.of(path), fence, news);
  }

  private boolean isLocal(Path path) throws IOException {
    return schemeOf(path).equals("file");
  }

  private String schemeOf(Path path) throws IOException {
    return path.getFileSystem(conf).getUri().getScheme();
  }

  /** Throws a checked exception through a method of Scala, which declares none. */
  @SuppressWarnings("unchecked")
  public static <T extends Throwable> T undeclared(Throwable error) throws T {
    throw (T) error;
  }
}
