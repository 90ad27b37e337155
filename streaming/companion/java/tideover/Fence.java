package tideover;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Checks, before anything counts, whether this run may still write: one listing of a folder beside
 * the checkpoint. It holds the epochs that operations planted, of which none may be newer than the
 * run's, and the file of the run that began last, which must be this one's. So a run is over as
 * well where files were removed from that folder: what is missing was never "nothing happened".
 *
 * <p>Between the look and the write an operation may plant its epoch. Such an entry is one that was
 * written before the fence; planting the log itself is what makes it meet the taken name.
 */
final class Fence {
  private final Configuration conf;
  private final RunName began;
  private final Hold hold;

  Fence(Configuration conf, Admission admission) {
    this.conf = conf;
    this.began = admission.run();
    this.hold = admission.hold();
  }

  /** Whether the run has an epoch; one without was never admitted, and is Spark's alone. */
  boolean isAdmitted() {
    return began.epoch().isPresent();
  }

  /** Before a query starts: a start runs a planned batch again before it writes any entry. */
  void requireStart(Path checkpoint) throws IOException {
    require(checkpoint, names(checkpoint), "it is not started");
  }

  /**
   * Says which process runs the checkpoint from now on, and ends every other one that may do so. A
   * run without an epoch was never admitted and has no such file.
   */
  void begin(Path checkpoint) throws IOException {
    Path folder = new Path(checkpoint, PlantedEpoch.FOLDER);
    FileSystem system = checkpoint.getFileSystem(conf);
    system.mkdirs(folder);
    if (!isAdmitted()) {
      return;
    }
    try (OutputStream file = system.create(new Path(folder, RunName.file()), true)) {
      file.write(began.text().getBytes(StandardCharsets.UTF_8));
    }
    for (String other : names(checkpoint)) {
      if (other.startsWith(RunName.FILE) && !other.equals(RunName.file())) {
        system.delete(new Path(folder, other), false);
      }
    }
    requireStart(checkpoint);
  }

  /** Before an entry is published; none is while the run is held in its batch. */
  void requireEntry(LogEntry entry) throws IOException {
    hold.passInBatch();
    List<String> names = names(entry.checkpoint());
    String consequence = entry.name() + " is not written";
    require(entry.checkpoint(), names, consequence);
    if (isAdmitted() && !names.contains(RunName.file())) {
      throw new StaleEpoch(
          began.after(hold).text()
              + " is over: "
              + new Path(new Path(entry.checkpoint(), PlantedEpoch.FOLDER), RunName.file())
              + " is gone, because another process runs this checkpoint, or because the file was"
              + " deleted, so "
              + consequence);
    }
  }

  private void require(Path checkpoint, List<String> names, String consequence) throws StaleEpoch {
    RunName run = began.after(hold);
    Optional<PlantedEpoch> newest = PlantedEpoch.newest(names.stream());
    if (newest.isPresent() && newest.get().ends(run)) {
      throw new StaleEpoch(newest.get().sentence(run, checkpoint.toString(), consequence));
    }
  }

  /** Whether a checkpoint was fenced or moved by an operation, as the folders beside it show. */
  static boolean wasMoved(Path checkpoint, Configuration conf) throws IOException {
    return PlantedEpoch.newest(names(checkpoint, PlantedEpoch.FOLDER, conf).stream()).isPresent()
        || !names(checkpoint, Mapping.FOLDER, conf).isEmpty();
  }

  private List<String> names(Path checkpoint) throws IOException {
    return names(checkpoint, PlantedEpoch.FOLDER, conf);
  }

  private static List<String> names(Path checkpoint, String folder, Configuration conf)
      throws IOException {
    FileStatus[] held;
    try {
      held = checkpoint.getFileSystem(conf).listStatus(new Path(checkpoint, folder));
    } catch (FileNotFoundException nobodyRanOrFencedIt) {
      return Fixed.list();
    }
    return Arrays.stream(held).map(each -> each.getPath().getName()).collect(Collectors.toList());
  }
}
