package tideover;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * Whether the companion works in the Spark of this JVM, by what is there: every class, method and
 * field that the companion uses, and no method that it had to have. The same of Spark's Kafka
 * connector, which may be that of another Scala or Spark. The version is not read: vendors name
 * their builds as they like, and change classes behind a known number.
 *
 * <p>It uses nothing but Java, so it runs in any Spark on Java 8 or newer.
 */
public final class SparkBuild {
  /** Where the jar lists its classes, one a line. */
  static final String CLASSES = "classes.txt";

  private static final String STREAMING = "org.apache.spark.sql.execution.streaming.";
  static final String CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider";

  /** The classes of ours that serve a line of Spark, and where that line has its own. */
  private enum Line {
    SPARK41("spark41", "checkpointing.CheckpointFileManager", "runtime.StreamingQueryWrapper"),
    SPARK35("spark35", "CheckpointFileManager", "StreamingQueryWrapper");

    private final String folder;
    private final String manager;
    private final String query;

    Line(String folder, String manager, String query) {
      this.folder = folder;
      this.manager = STREAMING + manager;
      this.query = STREAMING + query;
    }

    boolean has(String ours) {
      return ours.chars().filter(each -> each == '.').count() == 1
          || ours.startsWith("tideover." + folder + ".");
    }
  }

  private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();

  private final ClassLoader loader;
  private final Set<String> missing = new LinkedHashSet<>();

  private SparkBuild(ClassLoader loader) {
    this.loader = loader;
  }

  /**
   * The class for {@code spark.sql.streaming.checkpointFileManagerClass}; empty where the companion
   * does not fit, for the reason that {@link #misfit} gives.
   */
  public static String manager() {
    return Found.HERE.manager;
  }

  /** Why the companion does not fit, in one sentence; empty where it does. */
  public static String misfit() {
    return Found.HERE.misfit;
  }

  /** What was found; one of the two is empty. */
  private static final class Answer {
    private final String manager;
    private final String misfit;

    Answer(String manager, String misfit) {
      this.manager = manager;
      this.misfit = misfit;
    }
  }

  /** Looked for once: it reads a hundred classes. */
  private static final class Found {
    static final Answer HERE = look();
  }

  private static Answer look() {
    for (Line line : Line.values()) {
      if (misfits(line).isEmpty()) {
        return withConnector("tideover." + line.folder + ".FencedCheckpointFileManager");
      }
    }
    for (Line line : Line.values()) {
      if (isThere(line.manager)) {
        String lacks = summary(misfits(line));
        return new Answer("", "this Spark lacks " + lacks + ", which the companion needs");
      }
    }
    return new Answer(
        "", "this Spark has no " + Line.SPARK41.manager + " and no " + Line.SPARK35.manager);
  }

  private static Answer withConnector(String manager) {
    List<String> found = connectorMisfits();
    return found.isEmpty()
        ? new Answer(manager, "")
        : new Answer(
            "",
            "the Kafka connector is not for this Spark and its Scala, which lacks "
                + summary(found));
  }

  private static String summary(List<String> found) {
    return found.size() > 1
        ? found.get(0) + " (and " + (found.size() - 1) + " more)"
        : found.get(0);
  }

  /**
   * {@code java -cp "companion.jar:$SPARK_HOME/jars/*" tideover.SparkBuild}: prints the manager and
   * ends with 0, or the reason and ends with 1.
   */
  public static void main(String[] none) {
    String misfit = misfit();
    System.out.println(misfit.isEmpty() ? manager() : misfit);
    System.exit(misfit.isEmpty() ? 0 : 1);
  }

  private static boolean isThere(String name) {
    return new SparkBuild(SparkBuild.class.getClassLoader()).find(name) != null;
  }

  private static List<String> misfits(Line line) {
    SparkBuild probed = new SparkBuild(SparkBuild.class.getClassLoader());
    if (probed.find(line.manager) == null) {
      return Fixed.list(line.manager);
    }
    try {
      for (String ours : ours()) {
        if (line.has(ours)) {
          probed.probe(ours);
        }
      }
    } catch (IOException unreadable) {
      probed.missing.add("readable classes of the companion: " + unreadable.getMessage());
    }
    probed.probeQuery(line.query);
    return new ArrayList<>(probed.missing);
  }

  /**
   * What the class lacks by which Spark loads the connector. Another Scala shows there. The other
   * classes of the connector are not read, as that takes 0.4 s.
   */
  private static List<String> connectorMisfits() {
    SparkBuild probed = new SparkBuild(SparkBuild.class.getClassLoader());
    try {
      probed.probe(CONNECTOR);
    } catch (IOException unreadable) {
      probed.missing.add("readable classes of the connector: " + unreadable.getMessage());
    }
    return new ArrayList<>(probed.missing);
  }

  private static List<String> ours() throws IOException {
    try (InputStream list = SparkBuild.class.getResourceAsStream(CLASSES)) {
      if (list == null) {
        throw new IOException("tideover/" + CLASSES + " is not in the jar");
      }
      return new BufferedReader(new InputStreamReader(list, StandardCharsets.UTF_8))
          .lines()
          .collect(Collectors.toList());
    }
  }

  /** Notes what a class uses that is not there, or that it is not there itself. */
  private void probe(String name) throws IOException {
    Class<?> compiled = find(name);
    if (compiled == null) {
      return;
    }
    String file = name.replace('.', '/') + ".class";
    try (InputStream content = loader.getResourceAsStream(file)) {
      if (content == null) {
        throw new IOException(file + " is not in its jar");
      }
      References used = References.of(content);
      used.classes().stream().filter(SparkBuild::isForeign).forEach(this::find);
      used.members().stream().filter(each -> isForeign(each.owner())).forEach(this::require);
    }
    requireWhole(compiled);
  }

  /** Whether it is neither Java's own nor an array. */
  private static boolean isForeign(String name) {
    return !name.startsWith("java/") && !name.startsWith("[");
  }

  /** A class, as it is when it is not initialised yet; null and noted where it cannot be had. */
  private Class<?> find(String name) {
    String binary = name.replace('/', '.');
    try {
      return Class.forName(binary, false, loader);
    } catch (ClassNotFoundException absent) {
      missing.add(binary);
    } catch (LinkageError broken) {
      missing.add(reason(broken));
    }
    return null;
  }

  private void require(References.Member used) {
    Class<?> owner = find(used.owner());
    if (owner == null) {
      return;
    }
    try {
      if (used.isMethod()) {
        requireMethod(owner, used);
      } else {
        requireField(owner, used);
      }
    } catch (IllegalAccessException thereAndProtected) {
      // a class that extends the owner may use it
    } catch (ReflectiveOperationException | TypeNotPresentException | LinkageError absent) {
      missing.add(owner.getName() + "." + used.name() + " " + used.descriptor());
    }
  }

  private void requireMethod(Class<?> owner, References.Member used)
      throws ReflectiveOperationException {
    MethodType type = MethodType.fromMethodDescriptorString(used.descriptor(), loader);
    if (used.name().equals("<init>")) {
      LOOKUP.findConstructor(owner, type);
      return;
    }
    try {
      LOOKUP.findVirtual(owner, used.name(), type);
    } catch (IllegalAccessException isStatic) {
      LOOKUP.findStatic(owner, used.name(), type);
    }
  }

  private void requireField(Class<?> owner, References.Member used)
      throws ReflectiveOperationException {
    Class<?> type =
        MethodType.fromMethodDescriptorString("()" + used.descriptor(), loader).returnType();
    try {
      LOOKUP.findGetter(owner, used.name(), type);
    } catch (IllegalAccessException isStatic) {
      LOOKUP.findStaticGetter(owner, used.name(), type);
    }
  }

  /** Notes what a class of ours had to have, because an interface of this Spark requires it. */
  private void requireWhole(Class<?> ours) {
    if (ours.isInterface() || Modifier.isAbstract(ours.getModifiers())) {
      return;
    }
    try {
      for (Method each : ours.getMethods()) {
        if (Modifier.isAbstract(each.getModifiers())) {
          missing.add(
              "a " + each.getDeclaringClass().getName() + " without the method " + each.getName());
        }
      }
    } catch (LinkageError broken) {
      missing.add(reason(broken));
    }
  }

  /** By these names an attached query is found; see {@link Attached#query}. */
  private void probeQuery(String wrapper) {
    Class<?> found = find(wrapper);
    if (found == null) {
      return;
    }
    String name = wrapper + ".streamingQuery";
    try {
      Class<?> execution = found.getMethod("streamingQuery").getReturnType();
      name = execution.getName() + ".resolvedCheckpointRoot";
      execution.getMethod("resolvedCheckpointRoot");
    } catch (NoSuchMethodException | LinkageError absent) {
      missing.add(name);
    }
  }

  private static String reason(LinkageError broken) {
    return broken instanceof NoClassDefFoundError
        ? broken.getMessage().replace('/', '.')
        : broken.getClass().getSimpleName() + ": " + broken.getMessage();
  }
}
