package tideover.ui4;

import org.apache.spark.SparkContext;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;

/** The tab in Spark's own UI; its name there is made of the prefix. */
public final class TideoverTab extends SparkUITab {
  private TideoverTab(SparkUI ui) {
    super(ui, "tideover");
  }

  /** Adds the tab; nothing where this application has no UI. */
  public static void attach(SparkContext context) {
    if (context.ui().isDefined()) {
      SparkUI ui = context.ui().get();
      TideoverTab tab = new TideoverTab(ui);
      tab.attachPage(new TideoverPage(tab));
      ui.attachTab(tab);
    }
  }
}
