package tideover;

import java.io.File;
import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Which run may write a checkpoint, by the checkpoint's folder. One session of Spark can run many
 * queries, so a setting of a session cannot name the run; its checkpoint can.
 *
 * <p>An admission is looked up when a part of the run is made, and that part keeps it. So a former
 * run on the same checkpoint stays what it was when a newer one is admitted.
 */
public final class Admissions {
  private static final ConcurrentMap<String, Admission> GRANTED = new ConcurrentHashMap<>();

  private Admissions() {}

  /**
   * Admits a run, before it starts. The newest admission of a checkpoint counts.
   *
   * @param conf finds the file system of the checkpoint
   * @param checkpoint the folder, as Spark gets it
   * @param follower by which the run's entries and its hold are known
   */
  public static void grant(
      Configuration conf, String checkpoint, String query, long epoch, String follower)
      throws IOException {
    GRANTED.put(key(new Path(checkpoint), conf), Admission.of(query, epoch, follower));
  }

  /** Forgets the admission of a run that is over. */
  static void withdraw(String follower) {
    GRANTED.values().removeIf(each -> each.follower().equals(Optional.of(follower)));
  }

  /**
   * The admission for a checkpoint, or for a folder directly below it. Of what was never admitted
   * it is {@link Admission#NEVER}.
   */
  static Admission of(Path given, Configuration conf) throws IOException {
    if (GRANTED.isEmpty()) {
      return Admission.NEVER; // as on every executor
    }
    Path folder = new Path(given.toString()); // one that was made of a URI keeps a last slash
    Admission own = GRANTED.get(key(folder, conf));
    if (own != null || folder.getParent() == null) {
      return own == null ? Admission.NEVER : own;
    }
    return GRANTED.getOrDefault(key(folder.getParent(), conf), Admission.NEVER);
  }

  /** One name for a folder, however it was written: whole, and without links on a local disk. */
  static String key(Path folder, Configuration conf) throws IOException {
    Path whole = folder.getFileSystem(conf).makeQualified(folder);
    if (whole.toUri().getScheme().equals("file")) {
      return new File(whole.toUri().getPath()).getCanonicalPath();
    }
    return whole.toString();
  }
}
