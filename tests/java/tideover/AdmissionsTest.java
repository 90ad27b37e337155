package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class AdmissionsTest {
  @TempDir private Path folder;
  private final Configuration conf = new Configuration(false);

  @AfterEach
  void nothingIsAdmitted() {
    Admissions.withdraw("admitted first");
    Admissions.withdraw("admitted next");
  }

  private static org.apache.hadoop.fs.Path hadoop(Path path) {
    return new org.apache.hadoop.fs.Path(path.toUri());
  }

  @Test
  void twoQueriesOfOneSessionHaveAnAdmissionEach() throws IOException {
    Admissions.grant(conf, folder.resolve("x").toString(), "revenue", 3, "admitted first");
    Admissions.grant(conf, folder.resolve("y").toString(), "archive", 5, "admitted next");
    assertEquals(
        Admission.of("revenue", 3, "admitted first"),
        Admissions.of(hadoop(folder.resolve("x/offsets")), conf));
    assertEquals(
        Admission.of("archive", 5, "admitted next"),
        Admissions.of(hadoop(folder.resolve("y/commits")), conf));
    assertSame(Admission.NEVER, Admissions.of(hadoop(folder.resolve("z")), conf));
    assertSame(Admission.NEVER, Admissions.of(hadoop(folder.resolve("x/state/0/1")), conf));
  }

  @Test
  void aCheckpointIsTheSameHoweverItsFolderIsWritten() throws IOException {
    Files.createDirectories(folder.resolve("real/x"));
    Files.createSymbolicLink(folder.resolve("link"), folder.resolve("real"));
    Admissions.grant(conf, folder.resolve("link/x") + "/", "revenue", 3, "admitted first");
    assertEquals(
        Admission.of("revenue", 3, "admitted first"),
        Admissions.of(hadoop(folder.resolve("real/x")), conf));
  }

  @Test
  void aFormerRunKeepsItsEpochWhenANewerOneIsAdmitted() throws IOException {
    Files.createDirectories(folder.resolve(PlantedEpoch.FOLDER).resolve("4-op.1"));
    Admissions.grant(conf, folder.toString(), "revenue", 3, "admitted first");
    Companion former = new Companion(hadoop(folder), conf);
    Admissions.grant(conf, folder.toString(), "revenue", 4, "admitted next");
    new Companion(hadoop(folder), conf).requireStart(hadoop(folder));
    assertThrows(StaleEpoch.class, () -> former.requireStart(hadoop(folder)));
  }

  @Test
  void whatIsWithdrawnIsNobodys() throws IOException {
    Admissions.grant(conf, folder.toString(), "revenue", 3, "admitted first");
    Admissions.withdraw("admitted next");
    assertNotSame(Admission.NEVER, Admissions.of(hadoop(folder), conf));
    Admissions.withdraw("admitted first");
    assertSame(Admission.NEVER, Admissions.of(hadoop(folder), conf));
  }
}
