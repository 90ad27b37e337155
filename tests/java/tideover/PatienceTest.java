package tideover;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.junit.jupiter.api.Test;

final class PatienceTest {
  private static final Patience PATIENCE = new Patience("east", 5000);

  private static long ago(long milliseconds) {
    return System.nanoTime() - milliseconds * 1_000_000;
  }

  @Test
  void timeOutsAreSilenceHoweverTheyAreWrapped() {
    Throwable late = new TimeoutException("Timed out", new DisconnectException("Cancelled"));
    assertTrue(Patience.isSilence(late));
    assertTrue(Patience.isSilence(new ExecutionException(late)));
    assertTrue(Patience.isSilence(new java.util.concurrent.TimeoutException("Cannot fetch")));
    assertTrue(Patience.isSilence(new KafkaException("wrapped", late)));
  }

  @Test
  void answersAreNotSilence() {
    Throwable refused = new SaslAuthenticationException("Authentication failed");
    assertFalse(Patience.isSilence(refused));
    assertFalse(Patience.isSilence(new ExecutionException(refused)));
    assertFalse(Patience.isSilence(new TimeoutException("Timed out", refused)));
    assertFalse(Patience.isSilence(new UnknownTopicOrPartitionException("gone")));
    assertFalse(Patience.isSilence(new KafkaException("Failed to construct")));
    assertFalse(Patience.isSilence(new IllegalStateException("some data may have been missed")));
    assertFalse(Patience.isSilence(new InterruptedException()));
  }

  @Test
  void itEndsAndSaysAfterHowLong() {
    assertTrue(PATIENCE.lasts(ago(4000)));
    assertFalse(PATIENCE.lasts(ago(5001)));
    assertFalse(new Patience("east", 0).lasts(ago(0)));
    Throwable told = PATIENCE.over(ago(6000), new TimeoutException("Timed out"));
    String start = "east has not answered for 6 s, and policy.outage_patience is 5 s: ";
    assertEquals(start, told.getMessage().substring(0, start.length()));
    Throwable lost = new IllegalStateException("some data may have been missed");
    assertSame(lost, PATIENCE.over(ago(6000), lost));
  }

  @Test
  void theLongestWaitOfARunIsToldUntilItEnds() {
    assertEquals(0, Silence.milliseconds("run"));
    Silence.Wait longer = Silence.begin("run", ago(4000));
    Silence.Wait shorter = Silence.begin("run", ago(1000));
    Silence.begin("another", ago(9000));
    assertTrue(Silence.milliseconds("run") >= 4000 && Silence.milliseconds("run") < 9000);
    longer.end();
    assertTrue(Silence.milliseconds("run") < 4000);
    shorter.end();
    assertEquals(0, Silence.milliseconds("run"));
  }
}
