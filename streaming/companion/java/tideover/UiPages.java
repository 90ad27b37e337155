package tideover;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Optional;
import org.apache.spark.SparkContext;
import scala.runtime.AbstractFunction0;

/**
 * Puts a tab into Spark's own UI, whose classes are private to Spark and differ by version. It is
 * compiled for both kinds of them; everything else is found by its name. Where anything does not
 * fit there is no tab: a line of the log says so, and the application is not disturbed.
 */
public final class UiPages {
  private static final String PAGE = "org.apache.spark.ui.WebUIPage";
  private static final String UTILITIES = "org.apache.spark.ui.UIUtils$";
  private static final String HEADER = "headerSparkPage";

  /** The request, the title, the content and the tab. */
  private static final int GIVEN = 4;

  private UiPages() {}

  /** A kind of Spark's UI: the classes of ours for it, and what its pages get and give. */
  private enum Kind {
    UI4(
        "tideover.ui4",
        "jakarta.servlet.http.HttpServletRequest",
        "scala.collection.immutable.Seq"),
    UI3("tideover.ui3", "javax.servlet.http.HttpServletRequest", "scala.collection.Seq");

    private final String folder;
    private final String request;
    private final String nodes;

    Kind(String folder, String request, String nodes) {
      this.folder = folder;
      this.request = request;
      this.nodes = nodes;
    }

    boolean fits(Method render) {
      return render.getParameterCount() == 1
          && render.getParameterTypes()[0].getName().equals(request)
          && render.getReturnType().getName().equals(nodes);
    }
  }

  /** Adds the tab, or says why there is none. */
  static void begin(SparkContext context) {
    try {
      Class<?> page = Class.forName(PAGE);
      Method render =
          Arrays.stream(page.getMethods())
              .filter(each -> each.getName().equals("render"))
              .findFirst()
              .orElseThrow(() -> new NoSuchMethodException(PAGE + ".render"));
      Kind kind =
          Arrays.stream(Kind.values())
              .filter(each -> each.fits(render))
              .findFirst()
              .orElseThrow(() -> new NoSuchMethodException("a known form of " + render));
      header();
      Class.forName(kind.folder + ".TideoverTab")
          .getMethod("attach", SparkContext.class)
          .invoke(null, context);
    } catch (InvocationTargetException refused) {
      sayNone(refused.getCause());
    } catch (ReflectiveOperationException | RuntimeException | LinkageError misfit) {
      sayNone(misfit);
    }
  }

  private static void sayNone(Throwable why) {
    Attached.say("no tab in Spark's UI, as it does not fit: " + why);
  }

  /** The page around a content, which Spark completes by the defaults of this version. */
  public static Object render(Object request, Object tab) {
    try {
      Object utilities = Class.forName(UTILITIES).getField("MODULE$").get(null);
      Method header = header();
      Object[] given = new Object[header.getParameterCount()];
      given[0] = request;
      given[1] = "Tideover";
      Object content =
          Class.forName("scala.xml.Unparsed")
              .getConstructor(String.class)
              .newInstance(StatusPage.html());
      given[2] =
          new AbstractFunction0<Object>() {
            @Override
            public Object apply() {
              return content; // a node is a sequence of nodes
            }
          };
      given[3] = tab;
      for (int index = GIVEN; index < given.length; index++) {
        given[index] =
            utilities.getClass().getMethod(HEADER + "$default$" + (index + 1)).invoke(utilities);
      }
      return header.invoke(utilities, given);
    } catch (ReflectiveOperationException misfit) {
      throw new IllegalStateException("tideover: the page does not fit this Spark", misfit);
    }
  }

  private static Method header() throws ReflectiveOperationException {
    Class<?> utilities = Class.forName(UTILITIES);
    Optional<Method> found =
        Arrays.stream(utilities.getMethods())
            .filter(each -> each.getName().equals(HEADER) && each.getParameterCount() >= GIVEN)
            .findFirst();
    Method header = found.orElseThrow(() -> new NoSuchMethodException(UTILITIES + "." + HEADER));
    for (int index = GIVEN; index < header.getParameterCount(); index++) {
      utilities.getMethod(HEADER + "$default$" + (index + 1));
    }
    return header;
  }
}
