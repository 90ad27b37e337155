package tideover.ui4;

import jakarta.servlet.http.HttpServletRequest;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.WebUIPage;
import tideover.UiPages;

/**
 * The page of the tab. Before Spark 4 its request is of {@code javax.servlet}, and Scala 2.12 has
 * another {@code Seq}; by that {@link UiPages} chooses.
 */
@SuppressWarnings({"rawtypes", "unchecked"}) // of XML, which is not needed to compile this
final class TideoverPage extends WebUIPage {
  private final SparkUITab tab;

  TideoverPage(SparkUITab tab) {
    super("");
    this.tab = tab;
  }

  @Override
  public scala.collection.immutable.Seq render(HttpServletRequest request) {
    return (scala.collection.immutable.Seq) UiPages.render(request, tab);
  }
}
