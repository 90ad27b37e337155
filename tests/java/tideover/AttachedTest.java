package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.NullNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class AttachedTest {
  @TempDir private Path folder;
  private final Configuration conf = new Configuration(false);

  @Test
  void aStartThatNobodyAnswersEndsItsWait() {
    assertEquals(Optional.empty(), new AdmissionRequest(10).await(line -> {}));
  }

  @Test
  void theFirstAnswerOfAStartCounts() {
    AdmissionRequest request = new AdmissionRequest(60_000);
    assertTrue(request.answer(BooleanNode.TRUE));
    assertFalse(request.answer(NullNode.instance));
    assertEquals(Optional.of(BooleanNode.TRUE), request.await(line -> {}));
  }

  @Test
  void aStartThatIsDelayedWaitsAgainAndSaysWhyOnce() throws Exception {
    AtomicLong clock = new AtomicLong();
    AdmissionRequest request = new AdmissionRequest(400, clock::get);
    List<String> said = new ArrayList<>();
    List<Optional<JsonNode>> answers = new ArrayList<>();
    Thread start = new Thread(() -> answers.add(request.await(said::add)));
    start.start();
    for (int each = 0; each < 8; each++) {
      clock.addAndGet(300_000_000);
      request.delay("operation op holds revenue");
      while (start.getState() != Thread.State.TIMED_WAITING && start.isAlive()) {
        Thread.sleep(1);
      }
    }
    request.answer(BooleanNode.TRUE);
    start.join();
    assertEquals(List.of(Optional.of(BooleanNode.TRUE)), answers);
    assertEquals(List.of("the start waits: operation op holds revenue"), said);
  }

  @Test
  void aCheckpointWasMovedIfAnEpochOrAMappingIsBesideIt() throws Exception {
    var checkpoint = new org.apache.hadoop.fs.Path(folder.toUri());
    assertFalse(Fence.wasMoved(checkpoint, conf));
    Files.createDirectories(folder.resolve(PlantedEpoch.FOLDER).resolve("run-of-a-process"));
    assertFalse(Fence.wasMoved(checkpoint, conf), "it was admitted, and never moved");
    Files.createDirectories(folder.resolve(PlantedEpoch.FOLDER).resolve("4-op.1"));
    assertTrue(Fence.wasMoved(checkpoint, conf));
    Files.delete(folder.resolve(PlantedEpoch.FOLDER).resolve("4-op.1"));
    Files.createDirectories(folder.resolve(Mapping.FOLDER).resolve("4-op"));
    assertTrue(Fence.wasMoved(checkpoint, conf));
  }

  @Test
  void ourExtensionIsAppendedToThoseOfOthers() {
    assertEquals("tideover.AttachExtensions", AttachPlugin.extensions(""));
    String both = "io.delta.sql.DeltaSparkSessionExtension,tideover.AttachExtensions";
    assertEquals(both, AttachPlugin.extensions("io.delta.sql.DeltaSparkSessionExtension"));
    assertEquals(both, AttachPlugin.extensions(both));
  }

  @Test
  void anotherManagerIsRefusedByName() {
    String said =
        assertThrows(
                IllegalArgumentException.class,
                () -> AttachExtensions.requireOurManager("com.example.Manager"))
            .getMessage();
    assertTrue(said.contains("is com.example.Manager in this session"), said);
  }
}
