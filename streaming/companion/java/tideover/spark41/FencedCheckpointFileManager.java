package tideover.spark41;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import tideover.Companion;
import tideover.Draft;
import tideover.SparksOwnWay;

/**
 * Spark's access to a checkpoint, with a fence: a run of an older epoch than the one that was
 * planted beside the checkpoint does not start, and writes no entry of its logs. What must not
 * exist before is created for exactly one of several writers; all else is Spark's own way.
 *
 * <p>The setting is {@code spark.sql.streaming.checkpointFileManagerClass}. This source is compiled
 * twice: for Spark 4.1 and newer as it is here, and as {@code tideover.spark35} for those in which
 * the interface lies one package higher.
 */
public final class FencedCheckpointFileManager implements CheckpointFileManager {
  private final Path path;
  private final Companion companion;
  private final CheckpointFileManager spark;

  /** As Spark constructs it, for one folder. */
  public FencedCheckpointFileManager(Path path, Configuration conf) throws IOException {
    this.path = path;
    this.companion = new Companion(path, conf);
    this.spark = sparks(path, conf);
  }

  /** The manager that Spark would take, but where that one does not lead or costs too much. */
  private CheckpointFileManager sparks(Path path, Configuration conf) throws IOException {
    try {
      if (!companion.wantsOlderInterface(path)) {
        return new FileContextBasedCheckpointFileManager(path, conf);
      }
    } catch (UnsupportedFileSystemException onlyTheOlderInterface) {
      // of a sink's folder, for instance: such a checkpoint is refused when its query starts
    }
    return new FileSystemBasedCheckpointFileManager(path, conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path target, boolean overwrite) {
    try {
      return new Stream(
          overwrite
              ? companion.replace(target, () -> sparksOwn(target, true))
              : companion.create(target, () -> sparksOwn(target, false)));
    } catch (IOException error) {
      throw Companion.<RuntimeException>undeclared(error);
    }
  }

  private Draft.Way sparksOwn(Path target, boolean overwrite) {
    CancellableFSDataOutputStream stream = spark.createAtomic(target, overwrite);
    return new SparksOwnWay(stream, stream::cancel);
  }

  @Override
  public Path createCheckpointDirectory() {
    try {
      companion.requireStart(path);
    } catch (IOException refused) {
      throw Companion.<RuntimeException>undeclared(refused);
    }
    return spark.createCheckpointDirectory();
  }

  @Override
  public FSDataInputStream open(Path target) {
    return spark.open(target);
  }

  @Override
  public FileStatus[] list(Path folder, PathFilter filter) {
    return spark.list(folder, filter);
  }

  @Override
  public void mkdirs(Path folder) {
    spark.mkdirs(folder);
  }

  @Override
  public boolean exists(Path target) {
    return spark.exists(target);
  }

  @Override
  public void delete(Path target) {
    spark.delete(target);
  }

  @Override
  public boolean isLocal() {
    return spark.isLocal();
  }

  private static final class Stream extends CancellableFSDataOutputStream {
    private final Draft draft;

    Stream(Draft draft) {
      super(draft);
      this.draft = draft;
    }

    @Override
    public void cancel() {
      try {
        draft.discard();
      } catch (IOException error) {
        throw Companion.<RuntimeException>undeclared(error);
      }
    }
  }
}
