package tideover;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkConf;
import org.apache.spark.api.python.Py4JServer;

/**
 * The process beside the driver that answers for its queries: {@code tideover attend}. It may die,
 * and is started again; queries run on without it.
 *
 * <p>It reaches this JVM through a door on loopback that only knows a secret, which is new at each
 * start and is handed over in the environment.
 */
final class Attendant {
  private static final long PAUSE_MILLISECONDS = 1000;
  private static final long LONGEST_PAUSE_MILLISECONDS = 30_000;
  private static final long END_SECONDS = 15;

  /** From the job's environment to which its Python and its Spark belong, and not the attendant. */
  private static final List<String> THEIRS =
      Fixed.list(
          "PYTHONPATH",
          "PYTHONHOME",
          "SPARK_HOME",
          "SPARK_CONF_DIR",
          "PYSPARK_PYTHON",
          "PYSPARK_DRIVER_PYTHON",
          "PYSPARK_SUBMIT_ARGS");

  private static final File NOTHING = new File("/dev/null");

  private final SparkConf conf;
  private final List<String> command;
  private volatile boolean over;
  private volatile Process process;

  private Attendant(SparkConf conf, List<String> command) {
    this.conf = conf;
    this.command = command;
  }

  static Attendant of(SparkConf conf) {
    String config = conf.get("spark.tideover.config", "");
    if (config.isEmpty()) {
      throw new IllegalArgumentException(
          "tideover: spark.tideover.config is not set: name the configuration of Tideover");
    }
    String application =
        conf.get("spark.tideover.application", conf.get("spark.app.name", "unnamed"));
    DeclaredInFile.begin(config, application);
    String tideover = conf.get("spark.tideover.command", "tideover");
    return new Attendant(
        conf, Fixed.list(tideover, "-c", config, "attend", "--application", application));
  }

  /** Threads of the door are daemons as the one that opens it: a job that has ended ends. */
  void begin() {
    Thread keeper = new Thread(this::keep, "tideover attendant");
    keeper.setDaemon(true);
    keeper.start();
  }

  private void keep() {
    Py4JServer door = new Py4JServer(conf);
    door.start();
    long pause = PAUSE_MILLISECONDS;
    try {
      while (!over) {
        long began = System.nanoTime();
        int code = run(door);
        if (over) {
          break;
        }
        boolean lived = System.nanoTime() - began > 60_000_000_000L;
        pause = lived ? PAUSE_MILLISECONDS : Math.min(2 * pause, LONGEST_PAUSE_MILLISECONDS);
        Attached.say(
            "the attendant ended with code "
                + code
                + " and is started again in "
                + pause / 1000
                + " s; queries that run are not disturbed");
        Thread.sleep(pause);
      }
    } catch (InterruptedException ended) {
      Thread.currentThread().interrupt();
    } finally {
      door.shutdown();
    }
  }

  private int run(Py4JServer door) throws InterruptedException {
    ProcessBuilder builder = new ProcessBuilder(command);
    Map<String, String> environment = builder.environment();
    THEIRS.forEach(environment::remove);
    environment.put("PYSPARK_GATEWAY_PORT", Integer.toString(door.getListeningPort()));
    environment.put("PYSPARK_GATEWAY_SECRET", door.secret());
    environment.put("TIDEOVER_DRIVER_PID", pid());
    builder.redirectInput(NOTHING);
    builder.redirectOutput(NOTHING);
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    try {
      process = builder.start();
      return process.waitFor();
    } catch (IOException error) {
      Attached.say(
          "the attendant cannot be started: "
              + error.getMessage()
              + "; spark.tideover.command names the program tideover");
      return -1;
    }
  }

  /** Of this JVM, which Java 8 gives as {@code pid@host} only. */
  private static String pid() {
    return ManagementFactory.getRuntimeMXBean().getName().split("@")[0];
  }

  /** Waits until it has stored what was read last, and ends it where that takes too long. */
  void end() {
    over = true;
    Process last = process;
    if (last == null) {
      return;
    }
    try {
      if (!last.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
        Attached.say("the attendant did not end in " + END_SECONDS + " s, and is ended");
        last.destroy();
      }
    } catch (InterruptedException ended) {
      last.destroy();
      Thread.currentThread().interrupt();
    }
  }
}
