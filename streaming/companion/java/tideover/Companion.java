package tideover;

import java.io.IOException;
import java.nio.file.Paths;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * What the checkpoint file managers of all Spark versions share: which run this is, whether it may
 * write, and how a file is created for exactly one of those who race for its name.
 */
public final class Companion {
  private static final Set<String> SAFE = Fixed.set("file", "hdfs");

  private final Configuration conf;
  private final Fence fence;
  private final BatchNews news;

  /** For one folder: a checkpoint, or one of a checkpoint's folders. */
  public Companion(Path folder, Configuration conf) throws IOException {
    Admission admission = Admissions.of(folder, conf);
    this.conf = conf;
    this.fence = new Fence(conf, admission);
    this.news = new BatchNews(admission);
  }

  /**
   * Whether Spark is to use the older {@code FileSystem} interface: for local files that are
   * reached through another file system than Hadoop's own, which the usual manager would pass by;
   * and for a store, of which the usual one would open another client for each folder.
   */
  public boolean wantsOlderInterface(Path path) throws IOException {
    return isLocal(path) ? conf.get("fs.file.impl") != null : isStore(path);
  }

  /**
   * Refuses a start under an epoch that is over, and one where two could create one entry. In an
   * application that starts its queries itself it waits for an admission first; of a query that is
   * not ours only the fence is looked at.
   */
  public void requireStart(Path checkpoint) throws IOException {
    if (!Attached.isActive()) {
      begin(checkpoint, fence);
    } else if (Attached.admit(checkpoint, conf)) {
      begin(checkpoint, new Fence(conf, Admissions.of(checkpoint, conf)));
    } else {
      fence.requireStart(checkpoint);
    }
  }

  private void begin(Path checkpoint, Fence admitted) throws IOException {
    requireSafe(checkpoint);
    admitted.requireStart(checkpoint);
    admitted.begin(checkpoint);
  }

  /** Whether the file system behind a scheme is that of another one. */
  private static boolean isElsewhere(Path path, FileSystem system) {
    String named = path.toUri().getScheme();
    return named != null && !named.equalsIgnoreCase(system.getUri().getScheme());
  }

  private void requireSafe(Path checkpoint) throws IOException {
    FileSystem system = systemOf(checkpoint);
    Optional<String> refused = Optional.empty();
    if (isStore(checkpoint)) {
      refused = StoredObject.refusal(system, checkpoint);
    } else if (DataLake.is(system)) {
      refused = DataLake.refusal(system, checkpoint);
    } else if (!SAFE.contains(schemeOf(checkpoint)) || isElsewhere(checkpoint, system)) {
      refused = Optional.of("its file system is " + system.getClass().getName());
    }
    if (refused.isPresent()) {
      throw new IOException(
          checkpoint
              + " is where two drivers could both create one entry of its log and run the query"
              + " twice: "
              + refused.get());
    }
  }

  /** Begins a file that must not exist yet; {@code sparksOwn} begins it as Spark would. */
  public Draft create(Path path, Supplier<Draft.Way> sparksOwn) throws IOException {
    return new Draft(exclusive(path, sparksOwn), LogEntry.of(path), fence, news);
  }

  /** On a store an admitted run has no other way than the condition; else it throws. */
  private Draft.Way exclusive(Path path, Supplier<Draft.Way> sparksOwn) throws IOException {
    if (isLocal(path)) {
      return new LinkedFile(Paths.get(path.toUri().getPath()));
    }
    if (isStore(path)
        && (fence.isAdmitted() || !StoredObject.refusal(systemOf(path), path).isPresent())) {
      return new StoredObject(systemOf(path), path, true);
    }
    return sparksOwn.get();
  }

  /** Begins a file, there or not. */
  public Draft replace(Path path, Supplier<Draft.Way> sparksOwn) throws IOException {
    Draft.Way way = isStore(path) ? StoredObject.replacing(systemOf(path), path) : sparksOwn.get();
    return new Draft(way, LogEntry.of(path), fence, news);
  }

  private boolean isStore(Path path) throws IOException {
    return StoredObject.isStore(systemOf(path));
  }

  private boolean isLocal(Path path) throws IOException {
    return schemeOf(path).equals("file");
  }

  private String schemeOf(Path path) throws IOException {
    return systemOf(path).getUri().getScheme();
  }

  private FileSystem systemOf(Path path) throws IOException {
    return path.getFileSystem(conf);
  }

  /** Threads of this name, as many as are needed, which keep no process alive. */
  static ExecutorService daemons(String name) {
    return daemons(task -> new Thread(task, name));
  }

  /** The same, of threads that are made so. */
  static ExecutorService daemons(ThreadFactory made) {
    return Executors.newCachedThreadPool(
        task -> {
          Thread thread = made.newThread(task);
          thread.setDaemon(true);
          return thread;
        });
  }

  /** Throws a checked exception through a method of Scala, which declares none. */
  @SuppressWarnings("unchecked")
  public static <T extends Throwable> T undeclared(Throwable error) throws T {
    throw (T) error;
  }
}
