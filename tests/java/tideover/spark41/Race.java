package tideover.spark41;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Writers that race for the entries of a log, each through a checkpoint file manager of its own.
 */
public final class Race implements Function<String, String> {
  /**
   * Runs some rounds, an entry each.
   *
   * @param race the class of the manager, the folder, how many rounds, how many writers, and
   *     settings of Hadoop as {@code key=value}
   * @return in how many rounds two or more won, nobody won, and another's content was there
   */
  @Override
  public String apply(String race) {
    String[] words = race.split(" ");
    try {
      Configuration conf = new Configuration();
      for (String setting : List.of(words).subList(4, words.length)) {
        conf.set(setting.split("=", 2)[0], setting.split("=", 2)[1]);
      }
      int[] counted =
          run(words[0], words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), conf);
      return counted[0] + " " + counted[1] + " " + counted[2];
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static int[] run(
      String manager, String folder, int rounds, int writers, Configuration conf) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(writers);
    int[] counted = new int[3];
    try {
      Path log = new Path(folder, "offsets");
      List<CheckpointFileManager> managers = new ArrayList<>();
      for (int writer = 0; writer < writers; writer++) {
        managers.add(
            (CheckpointFileManager)
                Class.forName(manager)
                    .getConstructor(Path.class, Configuration.class)
                    .newInstance(log, conf));
      }
      managers.get(0).mkdirs(log);
      for (int round = 0; round < rounds; round++) {
        Path entry = new Path(log, String.valueOf(round));
        List<String> winners = race(pool, managers, entry);
        counted[0] += winners.size() > 1 ? 1 : 0;
        counted[1] += winners.isEmpty() ? 1 : 0;
        counted[2] += winners.size() == 1 && !holds(managers.get(0), entry, winners.get(0)) ? 1 : 0;
      }
    } finally {
      pool.shutdown();
    }
    return counted;
  }

  private static boolean holds(CheckpointFileManager manager, Path entry, String content) {
    try (FSDataInputStream held = manager.open(entry)) {
      return new String(held.readAllBytes(), StandardCharsets.UTF_8).equals(content);
    } catch (IOException damaged) {
      return false; // the content is one writer's, the checksum another's
    }
  }

  private static List<String> race(
      ExecutorService pool, List<CheckpointFileManager> managers, Path entry) throws Exception {
    CyclicBarrier together = new CyclicBarrier(managers.size());
    List<Future<String>> all = new ArrayList<>();
    for (int writer = 0; writer < managers.size(); writer++) {
      CheckpointFileManager manager = managers.get(writer);
      String name = "writer " + writer;
      all.add(pool.submit(() -> write(manager, entry, name, together) ? name : null));
    }
    List<String> winners = new ArrayList<>();
    for (Future<String> each : all) {
      if (each.get() != null) {
        winners.add(each.get());
      }
    }
    return winners;
  }

  private static boolean write(
      CheckpointFileManager manager, Path entry, String content, CyclicBarrier together)
      throws Exception {
    CheckpointFileManager.CancellableFSDataOutputStream stream = manager.createAtomic(entry, false);
    stream.write(content.getBytes(StandardCharsets.UTF_8));
    together.await();
    try {
      stream.close();
      return true;
    } catch (Exception taken) {
      stream.cancel();
      return false;
    }
  }
}
