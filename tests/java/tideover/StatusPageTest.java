package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

final class StatusPageTest {
  private static final String EVIL = "<script>alert('x')</script>";

  @BeforeEach
  void begin() {
    StatusPage.begin("");
  }

  private static void show(String query, String state) throws Exception {
    var one = new ObjectMapper().createObjectNode();
    one.put("key", "/data/" + query).put("query", query).put("reads", "west").put("epoch", "4");
    one.put("state", state).put("readiness", "READY for east").put("move", "none");
    StatusPage.show(new ObjectMapper().createArrayNode().add(one));
  }

  @Test
  void eachTextOfThePageIsEscaped() throws Exception {
    StatusPage.begin("https://desk/\"><script>");
    show(EVIL, EVIL);
    String page = StatusPage.html();
    assertFalse(page.contains("<script"), page);
    assertTrue(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"), page);
  }

  @Test
  void aQueryLinksToTheDeskOnlyWhereThatIsAWebAddress() throws Exception {
    show("archive", "running");
    assertFalse(StatusPage.html().contains("href"));
    StatusPage.begin("https://desk:8340/");
    show("archive", "running");
    assertTrue(
        StatusPage.html().contains("<a href=\"https://desk:8340/queries/archive\">archive</a>"));
    StatusPage.begin("javascript:alert(1)");
    show("archive", "running");
    assertFalse(StatusPage.html().contains("href"));
  }

  @Test
  void withoutAWordOfTheAttendantThePageSaysSo() {
    assertTrue(StatusPage.html().contains("The attendant has not said anything yet."));
  }

  @Test
  void aRowHasOneCellForEachColumn() throws Exception {
    show("archive", "running");
    String page = StatusPage.html();
    assertEquals(page.split("<th>").length, page.split("<td>").length);
    assertTrue(page.contains("<td>west</td><td></td><td>4</td><td>running</td>"), page);
  }
}
