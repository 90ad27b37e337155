package tideover;

import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.util.UninterruptibleThread;

/**
 * Spark's Kafka source of the cluster that a query reads now, behind offsets that may be of a
 * cluster that it read before: those are translated, end for end, and what has no translation is
 * refused. A run that was held may continue with that of another cluster: between two batches, or
 * in the middle of one whose tasks wait.
 *
 * <p>Calls to the cluster run in a thread of their own. A stop interrupts the thread that waits,
 * and no thread waits for a client of a dead cluster to close.
 */
final class SwitchStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics, Hold.Source {
  private static final long PAUSE_MILLISECONDS = 100;
  private static final long LOOK_MILLISECONDS = 20;
  private static final long SHOW_NANOSECONDS = 15_000_000_000L;

  /** The key by which the log names a source, and the name by which it was declared. */
  static final class Source {
    private final String key;
    private final String declared;

    Source(String key, String declared) {
      this.key = key;
      this.declared = declared;
    }

    String key() {
      return key;
    }

    String declared() {
      return declared;
    }
  }

  private final Source source;
  private final Reading.Opener opener;
  private final Admission admission;
  private final Hold hold;
  private volatile Reading reading;
  // Null where this source reads nothing in the batch under way.
  private volatile Batch batch;
  private volatile boolean isIdentified;
  private volatile Elsewhere elsewhere;
  private Hold.Place place = Hold.Place.START;
  private final String run = SparkContext.getOrCreate().getLocalProperty(PatientReaders.RUN);
  // A run that begins on a silent cluster fails at once: a wrong address is silent as well.
  private volatile boolean answered;
  // For calls of other threads than the query's: the workers have the session of that one.
  private static final ExecutorService ASIDE = Companion.daemons("tideover aside");
  // Made when a call comes, by the query's own thread, so that they have its session. Of the class
  // of that thread: Spark's source of 3.4 looks for its first offsets in no other.
  private final ExecutorService workers =
      Companion.daemons(task -> new UninterruptibleThread(task, "tideover source"));

  /** What was planned last, in the offsets of the cluster on which it was planned. */
  private static final class Batch {
    private final SwitchOffset start;
    private final SwitchOffset end;
    private final InputPartition[] pieces;

    Batch(SwitchOffset start, SwitchOffset end, InputPartition[] pieces) {
      this.start = start;
      this.end = end;
      this.pieces = pieces;
    }

    Shift.Ends on(Mappings mappings, String source) {
      return new Shift.Ends(mappings.onActive(source, start), mappings.onActive(source, end));
    }
  }

  SwitchStream(Source source, Admission admission, Reading reading, Reading.Opener opener) {
    this.admission = admission;
    this.hold = admission.hold();
    this.source = source;
    this.reading = reading;
    this.opener = opener;
    hold.join(source.key(), this);
  }

  /** Waits for the answer of a cluster that has answered before. */
  private <T> T ask(Callable<T> what) {
    return ask(what, false).get();
  }

  /**
   * The same; where a hold may begin during the call there is no answer then. The query's thread
   * stays here: it plans no batch and does not say that there is nothing new, which would be taken
   * for a sign of the cluster's life.
   */
  private <T> Optional<T> ask(Callable<T> what, boolean mayBeHeld) {
    Patience patience = reading.patience();
    long since = System.nanoTime();
    Future<T> asked = null;
    Silence.Wait silence = Silence.begin(run, since);
    try {
      while (true) {
        asked = workers.submit(what);
        try {
          T answer = mayBeHeld ? answerOf(asked) : asked.get();
          if (answer == null) {
            return Optional.empty();
          }
          answered = true;
          return Optional.of(answer);
        } catch (ExecutionException failed) {
          Throwable failure = failed.getCause();
          boolean isWaitedFor = Patience.isSilence(failure) || NotHere.causes(failure);
          if (!answered || !isWaitedFor || !patience.lasts(since)) {
            throw Companion.<RuntimeException>undeclared(
                answered ? patience.over(since, failure) : failure);
          }
          reading.catchUp().begin(); // what came during the silence comes at once
        }
        Thread.sleep(PAUSE_MILLISECONDS);
      }
    } catch (InterruptedException stopped) {
      asked.cancel(true);
      throw Companion.<RuntimeException>undeclared(stopped);
    } finally {
      silence.end();
    }
  }

  /** Null when the run is held before the cluster has answered. */
  private <T> T answerOf(Future<T> asked) throws InterruptedException, ExecutionException {
    while (true) {
      try {
        return asked.get(LOOK_MILLISECONDS, TimeUnit.MILLISECONDS);
      } catch (TimeoutException notYet) {
        if (hold.isHeld()) {
          asked.cancel(true);
          return null;
        }
      }
    }
  }

  /** Waits while the run is held, and continues where it is sent. */
  private void obey(boolean first) {
    if (first) {
      hold.await();
    }
    Hold.Place now = hold.place();
    if (now == place) {
      return;
    }
    Map<String, String> options = now.options().get(source.declared());
    if (options != null && !options.equals(place.options().get(source.declared()))) {
      Reading before = reading;
      reading = elsewhere().map(Elsewhere::reading).orElseGet(() -> opener.open(options));
      answered = false;
      workers.execute(before::stop);
    }
    drop(elsewhere);
    elsewhere = null;
    // What the user's own code reads: this thread has the session of the run.
    SQLConf.get().setConfString(RunName.EPOCH, Long.toString(now.epoch().getAsLong()));
    place = now;
  }

  /** What was prepared and is not read from. */
  private void drop(Elsewhere prepared) {
    if (prepared != null && prepared.reading() != reading) {
      ASIDE.execute(prepared.reading()::stop);
    }
  }

  /**
   * Its tasks have records of one cluster; of a batch that moved already they may have of two. A
   * source that reads nothing in the batch has nothing to find.
   */
  @Override
  public synchronized boolean prepare(Hold.Place there) {
    Map<String, String> options = there.options().get(source.declared());
    Batch under = batch;
    Elsewhere known = elsewhere;
    if (options == null) {
      return false;
    }
    if (under == null || (known != null && known.place().options().equals(there.options()))) {
      return true;
    }
    if (!mayLeave()) {
      return false;
    }
    drop(known);
    elsewhere = null;
    Reading next = opener.open(options);
    Optional<Shift> shift = shiftOf(under, next).filter(found -> isShown(found, under, next));
    if (!shift.isPresent()) {
      ASIDE.execute(next::stop);
      return false;
    }
    elsewhere = new Elsewhere(there, next, shift.get());
    return true;
  }

  @Override
  public boolean mayLeave() {
    return batch == null || !elsewhere().isPresent();
  }

  private Optional<Shift> shiftOf(Batch under, Reading next) {
    try {
      return Shift.between(
          under.on(reading.mappings(), source.key()),
          reading.naming(),
          under.on(next.mappings(), source.key()),
          next.naming());
    } catch (IllegalStateException noPlaceForIt) {
      return Optional.empty();
    }
  }

  /**
   * Whether each task finds its records there. A task that reads all that the batch reads of its
   * partition counts them; any other one, and a query that is given offsets that continue those of
   * home, goes by offsets, and needs a record at each.
   */
  private boolean isShown(Shift shift, Batch under, Reading next) {
    boolean byOffset = next.columns().movesOffsets() || reading.columns().movesOffsets();
    Set<KafkaRange> ranges = new HashSet<>();
    for (InputPartition each : under.pieces) {
      Optional<KafkaRange> piece = KafkaRange.of(each);
      Optional<KafkaRange> all = piece.flatMap(shift::whole).flatMap(shift::of);
      if (!all.isPresent()) {
        return false;
      }
      if (byOffset || !shift.isWhole(piece.get())) {
        ranges.add(all.get());
      }
    }
    long deadline = System.nanoTime() + SHOW_NANOSECONDS;
    return ranges.stream()
        .map(each -> ASIDE.submit(() -> Elsewhere.holdsEach(next.kafka(), each, deadline)))
        .collect(Collectors.toList())
        .stream()
        .allMatch(SwitchStream::isTrue);
  }

  private static boolean isTrue(Future<Boolean> answer) {
    try {
      return answer.get();
    } catch (InterruptedException | ExecutionException unknown) {
      return false;
    }
  }

  @Override
  public Optional<Elsewhere> elsewhere() {
    return Optional.ofNullable(elsewhere)
        .filter(known -> known.place().options().equals(hold.place().options()));
  }

  private Offset marked(Offset offset) {
    return SwitchOffset.of(reading.mappings().active(), offset.json());
  }

  /** What Spark hands over is ours, or its own copy of the text in its log. */
  private Offset unmarked(Offset offset) {
    SwitchOffset ours = SwitchOffset.parse(offset.json());
    Reading now = reading;
    return now.kafka().deserializeOffset(now.mappings().onActive(source.key(), ours));
  }

  private SupportsAdmissionControl admission() {
    return (SupportsAdmissionControl) reading.kafka();
  }

  @Override
  public Offset initialOffset() {
    return marked(
        ask(
            () -> {
              Offset first = reading.kafka().initialOffset();
              reading.identity().requireUnlessSilent();
              return first;
            }));
  }

  @Override
  public Offset deserializeOffset(String text) {
    return SwitchOffset.parse(text);
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return admission().getDefaultReadLimit();
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead");
  }

  /** Where nothing is new it is the very offset that was handed in: no batch for a mere mark. */
  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    batch = null;
    boolean first = hold.isFirst(source.key());
    while (true) {
      obey(first);
      Offset here = unmarked(start);
      Optional<Offset> latest = ask(() -> newest(here, limit), first);
      if (latest.isPresent()) {
        hold.answered(source.key());
        return latest.get().equals(here) ? start : marked(latest.get());
      }
    }
  }

  /** The cluster is compared behind its answer: so it is the one that gave it. */
  private Offset newest(Offset here, ReadLimit limit) throws Exception {
    Reading now = reading;
    SupportsAdmissionControl kafka = admission();
    Offset latest;
    try {
      latest = kafka.latestOffset(here, now.catchUp().limited(limit));
    } catch (Exception failure) {
      throw now.identity().blame(failure);
    }
    now.identity().require();
    isIdentified = true;
    Offset found = latest == null ? here : latest;
    now.catchUp().took(found, kafka.reportLatestOffset());
    return found;
  }

  @Override
  public Offset reportLatestOffset() {
    Offset latest = admission().reportLatestOffset();
    return latest == null ? null : marked(latest);
  }

  /** A batch that was planned on another cluster is planned again on this one, by both its ends. */
  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    Offset from = unmarked(start);
    Offset to = unmarked(end);
    InputPartition[] pieces = ask(() -> planned(from, to));
    batch = new Batch(SwitchOffset.parse(start.json()), SwitchOffset.parse(end.json()), pieces);
    return pieces;
  }

  /** A batch that was planned by an earlier run comes here without a question for what is new. */
  private InputPartition[] planned(Offset from, Offset to) throws Exception {
    if (!isIdentified) {
      reading.identity().requireUnlessSilent();
    }
    isIdentified = false;
    Reading now = reading;
    try {
      return now.kafka().planInputPartitions(from, to);
    } catch (Exception failure) {
      throw now.identity().blame(failure);
    }
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    Reading now = reading;
    return new PatientReaders(
        now.kafka().createReaderFactory(),
        new PatientReaders.Origin(
            now.mappings().active(),
            source.key(),
            run,
            admission.follower().orElse(null),
            now.patience(),
            now.columns()));
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    ask(
        () -> {
          ((SupportsTriggerAvailableNow) reading.kafka()).prepareForTriggerAvailableNow();
          return true;
        });
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return ((ReportsSourceMetrics) reading.kafka()).metrics(consumed.map(this::unmarked));
  }

  /** Kafka's source keeps nothing of it, and of another cluster's offsets it could not. */
  @Override
  public void commit(Offset end) {
    if (SwitchOffset.parse(end.json()).epoch() == reading.mappings().active().epoch()) {
      reading.kafka().commit(unmarked(end));
    }
  }

  @Override
  public void stop() {
    hold.leave(source.key());
    workers.execute(reading::stop);
    drop(elsewhere);
    workers.shutdown();
  }

  @Override
  public String toString() {
    return reading.kafka().toString();
  }
}
