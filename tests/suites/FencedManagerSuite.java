package tideover.spark41;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.CheckpointFileManagerTestsOnLocalFs;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** What Spark's own suite asks of any checkpoint file manager, asked of the companion's. */
public final class FencedManagerSuite extends CheckpointFileManagerTestsOnLocalFs {
  private static final long serialVersionUID = 1L;

  @Override
  public CheckpointFileManager createManager(Path path) {
    try {
      return new FencedCheckpointFileManager(path, new Configuration());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }
}
