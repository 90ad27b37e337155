package tideover;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * What the tab shows of the application's queries: where each reads, as what it was admitted, what
 * its start waits for, and what the attendant last said of it. Every text is escaped.
 */
final class StatusPage {
  private static final List<String> COLUMNS =
      Fixed.list("Query", "Reads", "Writes", "Epoch", "State", "Readiness", "Last move");

  private static volatile Words words = new Words(Fixed.map(), 0);
  private static volatile String desk = "";

  private StatusPage() {}

  /** What the attendant said. */
  private static final class Words {
    /** By key of a checkpoint. */
    private final Map<String, JsonNode> queries;

    /** When, by {@code System.nanoTime}. */
    private final long at;

    Words(Map<String, JsonNode> queries, long at) {
      this.queries = queries;
      this.at = at;
    }
  }

  /** Where people find the desk; anything but a web address is no link. */
  static void begin(String address) {
    words = new Words(Fixed.map(), 0);
    desk = address.matches("https?://\\S+") ? address.replaceAll("/+$", "") : "";
    if (!address.isEmpty() && desk.isEmpty()) {
      Attached.say("spark.tideover.desk is " + address + ", which is no web address: no link");
    }
  }

  /** What the attendant knows of each query. */
  static void show(JsonNode queries) {
    Map<String, JsonNode> found = new TreeMap<>();
    queries.forEach(each -> found.put(each.required("key").asText(), each));
    words = new Words(found, System.nanoTime());
  }

  /** The content of the page. */
  static String html() {
    Words said = words;
    StringBuilder html = new StringBuilder();
    html.append("<p>").append(escaped(age(said))).append("</p>");
    html.append("<table class=\"table table-bordered table-sm\"><thead><tr>");
    COLUMNS.forEach(each -> html.append("<th>").append(each).append("</th>"));
    html.append("</tr></thead><tbody>");
    Set<String> keys = new TreeSet<>(said.queries.keySet());
    keys.addAll(Attached.keys());
    for (String key : keys) {
      html.append("<tr>");
      cells(key, said.queries.get(key))
          .forEach(each -> html.append("<td>").append(each).append("</td>"));
      html.append("</tr>");
    }
    return html.append("</tbody></table>").toString();
  }

  private static String age(Words said) {
    if (said.at == 0) {
      return "The attendant has not said anything yet.";
    }
    long seconds = (System.nanoTime() - said.at) / 1_000_000_000L;
    return "State, readiness and last move as the attendant saw them " + seconds + " s ago.";
  }

  /** What this JVM knows counts: the attendant may be behind it. */
  private static List<String> cells(String key, JsonNode said) {
    Optional<JsonNode> runs = Attached.known(key);
    Optional<JsonNode> either = runs.isPresent() ? runs : Optional.ofNullable(said);
    Optional<String> query = either.map(each -> each.path("query").asText());
    return Fixed.list(
        query.map(StatusPage::link).orElseGet(() -> escaped(key)),
        escaped(
            runs.map(each -> each.path("cluster").asText()).orElseGet(() -> text(said, "reads"))),
        escaped(query.flatMap(Beside::written).orElse("")),
        escaped(runs.map(each -> each.path("epoch").asText()).orElseGet(() -> text(said, "epoch"))),
        escaped(Attached.waits(key).orElseGet(() -> text(said, "state"))),
        escaped(text(said, "readiness")),
        escaped(text(said, "move")));
  }

  private static String text(JsonNode said, String name) {
    return said == null ? "unknown" : said.path(name).asText("unknown");
  }

  private static String link(String query) {
    String name = escaped(query);
    return desk.isEmpty()
        ? name
        : "<a href=\"" + escaped(desk) + "/queries/" + name + "\">" + name + "</a>";
  }

  /** As text of a page or the value of an attribute. */
  static String escaped(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;")
        .replace("'", "&#39;");
  }
}
