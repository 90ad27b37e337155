package tideover;

import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * {@code spark.plugins=tideover.AttachPlugin}: the queries of an application that starts them
 * itself are admitted, followed and moved. The application is not changed. It needs this jar and
 * {@code spark.tideover.config}, the path of the configuration.
 */
public final class AttachPlugin implements SparkPlugin {
  private static final String EXTENSIONS = "spark.sql.extensions";

  @Override
  public DriverPlugin driverPlugin() {
    return new Driver();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }

  private static final class Driver implements DriverPlugin {
    private SparkContext application;
    private Attendant attendant;

    /** Spark's sessions are made later, of the settings that are made here. */
    @Override
    public Map<String, String> init(SparkContext context, PluginContext plugin) {
      SparkConf conf = plugin.conf();
      application = context;
      conf.set(AttachExtensions.MANAGER, manager(conf, context.version()));
      conf.set(EXTENSIONS, extensions(conf.get(EXTENSIONS, "")));
      Attached.begin(conf.getTimeAsMs("spark.tideover.admission.timeout", "60s"));
      attendant = Attendant.of(conf);
      attendant.begin();
      return Map.of();
    }

    /** The application has its id by now. */
    @Override
    public void registerMetrics(String application, PluginContext plugin) {
      Attached.run(this.application);
    }

    /** A job that runs once an hour has no later moment: what it has read is stored first. */
    @Override
    public void shutdown() {
      Attached.close();
      if (attendant != null) {
        attendant.end();
      }
    }
  }

  /** The settings of others stay in front of ours. */
  static String extensions(String theirs) {
    String ours = AttachExtensions.class.getName();
    if (java.util.List.of(theirs.split(",")).contains(ours)) {
      return theirs;
    }
    return theirs.isEmpty() ? ours : theirs + "," + ours;
  }

  private static String manager(SparkConf conf, String version) {
    String theirs = conf.get(AttachExtensions.MANAGER, "");
    if (!theirs.isEmpty()) {
      AttachExtensions.requireOurManager(theirs);
    }
    return "tideover." + line(version) + ".FencedCheckpointFileManager";
  }

  /** The package of the classes that fit a Spark. */
  static String line(String version) {
    if (version.startsWith("3.5.") || version.startsWith("4.0.")) {
      return "spark35";
    }
    if (version.startsWith("4.1.") || version.startsWith("4.2.")) {
      return "spark41";
    }
    throw new IllegalArgumentException(
        "tideover: this is Spark "
            + version
            + ", and the jar fits 3.5, 4.0, 4.1 and 4.2: remove tideover.AttachPlugin from"
            + " spark.plugins");
  }
}
