package tideover;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/**
 * The declarations of an application as its configuration has them, for a driver without an
 * attendant. Only topics and checkpoints are read: they show whether a batch may be left alone.
 *
 * <p>The parser of YAML comes with Spark, and not with each build of it.
 */
final class DeclaredInFile {
  private static volatile String path = "";
  private static volatile String application = "";

  private DeclaredInFile() {}

  static void begin(String config, String named) {
    path = config;
    application = named;
  }

  /**
   * Each query of the application, without a place.
   *
   * @throws IllegalStateException where that cannot be read
   */
  static List<Beside.Query> queries(String topics) {
    try {
      List<Beside.Query> found = new ArrayList<>();
      JsonNode queries = parsed().path("queries");
      for (Iterator<String> names = queries.fieldNames(); names.hasNext(); ) {
        String name = names.next();
        if (queries.get(name).path("attach").asText().equals(application)) {
          found.add(query(name, queries.get(name)));
        }
      }
      return found;
    } catch (IOException | ReflectiveOperationException | LinkageError unreadable) {
      throw new IllegalStateException(
          "tideover: the attendant did not answer, and "
              + path
              + " cannot be read, so it is unknown on which cluster "
              + topics
              + " is: the batch fails",
          unreadable);
    }
  }

  private static JsonNode parsed() throws IOException, ReflectiveOperationException {
    JsonFactory yaml =
        (JsonFactory)
            Class.forName("com.fasterxml.jackson.dataformat.yaml.YAMLFactory")
                .getDeclaredConstructor()
                .newInstance();
    return new ObjectMapper(yaml).readTree(new File(path));
  }

  private static Beside.Query query(String name, JsonNode declared) {
    ObjectNode given = new ObjectMapper().createObjectNode();
    given.put("query", name);
    given.set("reads", declared.path("batch_reads"));
    if (declared.path("output").has("topic")) {
      given.putArray("writes").add(declared.path("output").get("topic"));
    }
    given.put("checkpoint", absolute(declared.path("checkpoint").asText()));
    return Beside.Query.of(given, new Hold(), () -> false);
  }

  /** A folder as the attendant finds it; empty where a part of it is named elsewhere. */
  private static String absolute(String checkpoint) {
    if (checkpoint.isEmpty() || checkpoint.contains("${") || checkpoint.startsWith("~")) {
      return "";
    }
    if (checkpoint.split("/", 2)[0].contains(":")) {
      return checkpoint;
    }
    File folder = new File(path).getAbsoluteFile().getParentFile();
    return folder.toPath().resolve(checkpoint).normalize().toString();
  }
}
