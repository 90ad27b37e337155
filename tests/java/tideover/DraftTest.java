package tideover;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class DraftTest {
  private static final byte[] CONTENT = "v1\n{}\n".getBytes(StandardCharsets.UTF_8);

  @TempDir private Path checkpoint;
  private Path offsets;
  private Configuration conf;

  @BeforeEach
  void aRunOfEpochThree() throws IOException {
    offsets = checkpoint.resolve("offsets");
    conf = new Configuration(false);
    conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem");
    conf.setBoolean("fs.file.impl.disable.cache", true); // which other tests fill with another one
    Admissions.grant(conf, checkpoint.toString(), "revenue", 3, checkpoint.toString());
    start();
  }

  @AfterEach
  void nothingIsAdmitted() {
    Admissions.withdraw(checkpoint.toString());
  }

  private void start() throws IOException {
    org.apache.hadoop.fs.Path folder = new org.apache.hadoop.fs.Path(checkpoint.toUri());
    new Companion(folder, conf).requireStart(folder);
  }

  private Path runFile() {
    return checkpoint.resolve(PlantedEpoch.FOLDER).resolve(RunName.file());
  }

  private Draft draft(Path path) throws IOException {
    Draft draft =
        new Companion(new org.apache.hadoop.fs.Path(path.getParent().toUri()), conf)
            .create(
                new org.apache.hadoop.fs.Path(path.toUri()),
                () -> {
                  throw new AssertionError("a local file needs no way of Spark's");
                });
    draft.write(CONTENT);
    return draft;
  }

  private void plant(String name) throws IOException {
    Files.createDirectories(checkpoint.resolve(PlantedEpoch.FOLDER));
    Files.createFile(checkpoint.resolve(PlantedEpoch.FOLDER).resolve(name));
  }

  private List<String> names() throws IOException {
    try (Stream<Path> held = Files.list(offsets)) {
      return held.map(each -> each.getFileName().toString()).sorted().toList();
    }
  }

  @Test
  void aFileHasItsNameWhenItIsClosedAndNothingElseIsLeft() throws IOException {
    Draft draft = draft(offsets.resolve("7"));
    assertFalse(Files.exists(offsets.resolve("7")));
    draft.close();
    draft.close();
    draft.discard();
    assertArrayEquals(CONTENT, Files.readAllBytes(offsets.resolve("7")));
    assertEquals(List.of("7"), names());
  }

  @Test
  void aTakenNameIsRefusedAndKeepsItsContent() throws IOException {
    Files.createDirectories(offsets);
    Files.writeString(offsets.resolve("7"), "planted");
    Draft draft = draft(offsets.resolve("7"));
    assertThrows(FileAlreadyExistsException.class, draft::close);
    assertEquals("planted", Files.readString(offsets.resolve("7")));
    assertEquals(List.of("7"), names());
  }

  @Test
  void aDiscardedDraftLeavesNothing() throws IOException {
    Draft draft = draft(offsets.resolve("7"));
    draft.discard();
    draft.close();
    assertEquals(List.of(), names());
  }

  @Test
  void aRunThatIsOverPublishesNothing() throws IOException {
    Draft draft = draft(offsets.resolve("7"));
    plant("4-op.1");
    StaleEpoch refused = assertThrows(StaleEpoch.class, draft::close);
    assertTrue(refused.getMessage().contains("offsets/7 is not written"), refused.getMessage());
    assertEquals(List.of(), names());
  }

  @Test
  void aRunWhoseFileIsGoneIsOverAndGoesOnBehindAStart() throws IOException {
    Draft draft = draft(offsets.resolve("7"));
    Files.delete(runFile());
    StaleEpoch refused = assertThrows(StaleEpoch.class, draft::close);
    assertTrue(refused.getMessage().contains("is gone, because another process"));
    assertTrue(refused.getMessage().endsWith("so offsets/7 is not written"), refused.getMessage());
    Files.delete(runFile().getParent());
    assertThrows(StaleEpoch.class, draft(offsets.resolve("7"))::close);
    start();
    draft(offsets.resolve("7")).close();
    assertEquals(List.of("7"), names());
  }

  @Test
  void aStartEndsTheRunOfEveryOtherProcess() throws IOException {
    plant("run-of-another-process");
    plant("2-op.1");
    start();
    try (Stream<Path> left = Files.list(runFile().getParent())) {
      assertEquals(
          List.of("2-op.1", RunName.file()),
          left.map(each -> each.getFileName().toString()).sorted().toList());
    }
  }

  @Test
  void aStartThatIsRefusedEndsNobody() throws IOException {
    plant("run-of-another-process");
    plant("4-op.1");
    assertThrows(StaleEpoch.class, this::start);
    assertTrue(Files.exists(runFile().resolveSibling("run-of-another-process")));
  }

  @Test
  void aRunWithoutAnEpochHasNoFileAndNeedsNone() throws IOException {
    Files.delete(runFile());
    Admissions.withdraw(checkpoint.toString());
    start();
    draft(offsets.resolve("7")).close();
    assertFalse(Files.exists(runFile()));
  }

  @Test
  void aNameThatIsTakenByOurOwnDraftIsOurs() throws IOException {
    Draft draft = draft(offsets.resolve("7"));
    draft.flush();
    try (Stream<Path> drafts = Files.list(offsets)) {
      Files.createLink(offsets.resolve("7"), drafts.findFirst().orElseThrow());
    }
    draft.close();
    assertEquals(List.of("7"), names());
  }

  @Test
  void anOldChecksumOfTheNameGoes() throws IOException {
    Files.createDirectories(offsets);
    Files.writeString(offsets.resolve(".7.crc"), "of an earlier file");
    draft(offsets.resolve("7")).close();
    assertEquals(List.of("7"), names());
  }

  @Test
  void whoFollowsIsToldOfEntriesOnlyAndOnlyOncePublished() throws Exception {
    BatchNews.follow(checkpoint.toString());
    draft(offsets.resolve("7")).close();
    draft(checkpoint.resolve("sources").resolve("0")).close();
    draft(offsets.resolve("8")).discard();
    assertEquals("offsets/7\nv1\n{}\n", BatchNews.take(checkpoint.toString(), 0));
    assertNull(BatchNews.take(checkpoint.toString(), 0));
    BatchNews.leave(checkpoint.toString());
    draft(offsets.resolve("9")).close();
    assertNull(BatchNews.take(checkpoint.toString(), 0));
  }

  @Test
  void aStartIsRefusedUnderAnEpochThatIsOver() throws IOException {
    start();
    plant("3-op.1");
    start();
    plant("4-op.1");
    StaleEpoch refused = assertThrows(StaleEpoch.class, this::start);
    assertTrue(refused.getMessage().endsWith("so it is not started"), refused.getMessage());
  }

  @Test
  void aStopWhileAnEntryWaitsForAHoldLeavesNothing() throws Exception {
    BatchNews.follow(checkpoint.toString());
    Hold.keepInBatch(checkpoint.toString());
    Draft draft = draft(offsets.resolve("7"));
    Thread.currentThread().interrupt();
    assertThrows(InterruptedException.class, draft::close);
    BatchNews.leave(checkpoint.toString());
    assertEquals(List.of(), names());
  }
}
