package tideover;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.Arrays;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Asks, before anything counts, whether this run may still write: one listing of a folder that is
 * not there unless somebody fenced the checkpoint.
 *
 * <p>Between the look and the write an operation may plant its epoch. Such an entry is one that was
 * written before the fence; planting the log itself is what makes it meet the taken name.
 */
final class Fence {
  private final Configuration conf;
  private final RunName began;
  private final Hold hold;

  Fence(Configuration conf) {
    this.conf = conf;
    this.began = RunName.of(conf);
    this.hold = Hold.of(conf.get(BatchNews.FOLLOWER));
  }

  /** Before a query starts: a start runs a planned batch again before it writes any entry. */
  void requireStart(Path checkpoint) throws IOException {
    require(checkpoint, "it is not started");
  }

  /**
   * Makes the folder: of a store it is listed by one request then, and by three if it is not there.
   */
  void prepare(Path checkpoint) throws IOException {
    checkpoint.getFileSystem(conf).mkdirs(new Path(checkpoint, PlantedEpoch.FOLDER));
  }

  /** Before an entry is published; none is while the run is held in its batch. */
  void requireEntry(LogEntry entry) throws IOException {
    hold.passInBatch();
    require(entry.checkpoint(), entry.name() + " is not written");
  }

  private void require(Path checkpoint, String consequence) throws IOException {
    RunName run = began.after(hold);
    Optional<PlantedEpoch> newest = newest(checkpoint);
    if (newest.isPresent() && newest.get().ends(run)) {
      throw new StaleEpoch(newest.get().sentence(run, checkpoint.toString(), consequence));
    }
  }

  private Optional<PlantedEpoch> newest(Path checkpoint) throws IOException {
    FileSystem system = checkpoint.getFileSystem(conf);
    FileStatus[] held;
    try {
      held = system.listStatus(new Path(checkpoint, PlantedEpoch.FOLDER));
    } catch (FileNotFoundException nobodyFencedIt) {
      return Optional.empty();
    }
    return PlantedEpoch.newest(Arrays.stream(held).map(each -> each.getPath().getName()));
  }
}
