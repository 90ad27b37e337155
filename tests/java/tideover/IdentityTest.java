package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.ClusterResource;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

final class IdentityTest {
  private static Identity identity(String cluster, String id) {
    Map<String, String> options = new HashMap<>(Map.of("kafka.bootstrap.servers", "nowhere:1"));
    if (id != null) {
      options.put(SwitchProvider.ID, id);
    }
    return new Identity(cluster, new CaseInsensitiveStringMap(options));
  }

  @Test
  void anotherClusterThanThePinnedOneIsRefusedInOneSentence() {
    Identity identity = identity("e1", "A");
    identity.require("A");
    identity.require((String) null);
    Exception refused = assertThrows(WrongCluster.class, () -> identity.require("B"));
    assertEquals(
        "e1 leads to cluster B, but was cluster A until now: nothing is read from it; correct"
            + " bootstrap; if it was replaced on purpose: tideover accept-cluster e1",
        refused.getMessage());
    identity.require("A");
  }

  @Test
  void whatIsPinnedWhileARunLivesCountsForItAsWell() {
    Identity identity = identity("e2", null);
    Identity.pin("e2", "A");
    assertThrows(WrongCluster.class, () -> identity.require("B"));
    identity.require("A");
    Identity.pin("e2", "B");
    assertThrows(WrongCluster.class, () -> identity.require("A"), "the name has another cluster");
    assertThrows(
        WrongCluster.class, () -> identity.require("B"), "the run's offsets are of the old one");
    identity("e2", null).require("B");
  }

  @Test
  void aRunThatComesToAClusterBringsTheIdThatIsPinnedNow() {
    Identity before = identity("e5", "A");
    identity("e5", "B").require("B");
    assertThrows(WrongCluster.class, () -> before.require("B"));
    assertEquals("B", Identity.pinned("e5"));
  }

  @Test
  void withoutAPinTheFirstOneCounts() {
    Identity identity = identity("e3", null);
    identity.require("A");
    assertThrows(WrongCluster.class, () -> identity.require("B"));
  }

  @Test
  void anEndpointThatLeadsElsewhereIsWaitedForAndNotRefused() {
    Map<String, String> options = new HashMap<>(Map.of(SwitchProvider.ID, "A"));
    options.put(SwitchProvider.ELSEWHERE, "B=w6,C=n6");
    Identity identity = new Identity("e6", new CaseInsensitiveStringMap(options));
    NotHere away = assertThrows(NotHere.class, () -> identity.require("B"));
    assertEquals(
        "nothing is read from e6: its endpoint leads to w6 now, cluster B; it leads back, or the"
            + " query is moved: tideover failover",
        away.getMessage());
    assertTrue(NotHere.causes(new IllegalStateException("a task failed", away)));
    identity.require("A");
    Exception stranger = assertThrows(WrongCluster.class, () -> identity.require("D"));
    assertFalse(NotHere.causes(stranger));
    SameCluster consumer = new SameCluster();
    consumer.configure(
        Map.of(
            SwitchProvider.CLUSTER,
            "e6",
            SwitchProvider.ID,
            "A",
            SwitchProvider.ELSEWHERE,
            "B=w6"));
    assertThrows(NotHere.class, () -> consumer.onUpdate(new ClusterResource("B")));
    consumer.onUpdate(new ClusterResource("A"));
  }

  @Test
  void aConsumerIsToldByItsSettings() {
    SameCluster consumer = new SameCluster();
    consumer.onUpdate(new ClusterResource("A"));
    consumer.configure(Map.of(SwitchProvider.CLUSTER, "e4", SwitchProvider.ID, "A"));
    consumer.onUpdate(new ClusterResource("A"));
    consumer.onUpdate(new ClusterResource(null));
    assertThrows(WrongCluster.class, () -> consumer.onUpdate(new ClusterResource("B")));
  }
}
