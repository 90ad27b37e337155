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
 * {@code spark.tideover.config}, the path of the configuration. In a Spark in which the companion
 * does not fit, the plugin switches itself off and says why: Spark's own source refuses the offsets
 * of a query that was moved.
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
      String theirs = conf.get(AttachExtensions.MANAGER, "");
      if (!theirs.isEmpty()) {
        AttachExtensions.requireOurManager(theirs);
      }
      String misfit = SparkBuild.misfit();
      if (!misfit.isEmpty()) {
        Attached.say(
            "OFF: "
                + misfit
                + ". This application runs on Spark "
                + context.version()
                + " without Tideover: no query of it can be moved, and one that is on another"
                + " cluster does not start");
        return Fixed.map();
      }
      application = context;
      conf.set(AttachExtensions.MANAGER, SparkBuild.manager());
      conf.set(EXTENSIONS, extensions(conf.get(EXTENSIONS, "")));
      Attached.begin(conf.getTimeAsMs("spark.tideover.admission.timeout", "60s"));
      attendant = Attendant.of(conf);
      attendant.begin();
      StatusPage.begin(conf.get("spark.tideover.desk", ""));
      UiPages.begin(context);
      return Fixed.map();
    }

    /** The application has its id by now. */
    @Override
    public void registerMetrics(String application, PluginContext plugin) {
      if (attendant != null) {
        Attached.run(this.application);
      }
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
    if (Fixed.list(theirs.split(",")).contains(ours)) {
      return theirs;
    }
    return theirs.isEmpty() ? ours : theirs + "," + ours;
  }
}
