"""Hosts one query under one epoch: starts it, watches it, starts it again with growing pauses, and lets go at once.

One thread per hosted query, because a start, a commit watch and a store that answers slowly must not wait for those of
another query. Letting go waits for nothing: the thread that is stuck in a dead client is Spark's, and is fenced.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from state.errors import StoreError, TideoverError
from state.messages import SinkState
from state.model.column_uses import ColumnUses
from state.model.entities import Assignment
from state.settings.canonical import are_one_folder
from streaming.spark.checkpoint.batch_news import RunName
from streaming.spark.checkpoint.follower import Follower
from streaming.spark.checkpoint.mapping import Placed
from streaming.spark.errors import (
    AssignmentMoved,
    CheckpointError,
    Contradicted,
    FormerRunGoesOn,
    HalfWritten,
    MovedOn,
    NoMapping,
    OtherCluster,
    RunFenced,
    SparkMissing,
)
from streaming.spark.hosting import Hosting, Subject, about, logger_about
from streaming.spark.jvm import cause_of, detach, one_line
from streaming.spark.known_files import find_files
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.launch import prepare_writer, switched_sources
from streaming.spark.query.plan_columns import UNREAD, uses_in_writer
from streaming.spark.query.query_report import QueryReport
from streaming.spark.query.query_run import Run
from streaming.spark.query.run_monitor import RunMonitor
from streaming.spark.query.sink_memory import Tables, WrittenTo, written_to
from streaming.spark.query.writers_ahead import WritersAhead
from streaming.spark.runner.permission import Permission
from streaming.spark.runner.unfinished import UnfinishedBatches

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 30.0


def pause_seconds(failures: int) -> float:
    """How long to wait after this many failures in a row: 0.5 s, doubled each time, at most 30 s."""
    if failures < 1:
        return 0.0
    return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(failures - 1, 16))


_LOOK_SECONDS = 0.1
_LOOK_CLOSELY_SECONDS = 0.02
"""Until the first commit of a run, which is what a move waits for."""
_SETTLE_SECONDS = 60.0
_READ_SECONDS = 5.0
"""How long a run that makes no progress may keep its plan from being read."""
_RESTLESS_LOOK_SECONDS = 1.0
_STORE_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run that waits between two batches for where to continue, with what belongs to it."""

    run: Run
    session: SparkSession
    gate: CallbackGate
    sink: WrittenTo | None
    cluster: str
    """That it reads."""


class QuerySupervisor:
    """One query under one epoch, from the row that wanted it to the proof that it is quiet."""

    def __init__(
        self,
        hosting: Hosting,
        assignment: Assignment,
        before: Sequence["QuerySupervisor"] = (),
        ahead: WritersAhead | None = None,
        look: Callable[[Assignment], None] = lambda row: None,
    ) -> None:
        """``before``: what this process hosted of the query under earlier epochs and has not seen quiet yet.

        ``look``: reports where the query is as its checkpoint shows it; for a row that cannot be obeyed.
        """
        self._look = look
        self._hosting = hosting
        self._ahead = WritersAhead(hosting) if ahead is None else ahead
        self._assignment = assignment
        self._before = tuple(before)
        self._subject = Subject(
            assignment.query,
            assignment.epoch,
            assignment.cluster,
            assignment.checkpoint,
            hosting.query(assignment.query).committed_only,
            Placed.of(assignment),
        )
        self._ledger = QueryReport(hosting, assignment)
        self._tables = Tables(hosting.session, hosting.files, hosting.now)
        self._log = logger_about({**about(assignment), "cluster": assignment.cluster})
        self._permission = Permission(hosting, assignment)
        self._unfinished = UnfinishedBatches(hosting, assignment, self._ledger, self._tables)
        self._name = RunName(assignment.query, assignment.epoch, assignment.checkpoint)
        self.sink: WrittenTo | None = None
        """What the query writes through; None before its writer was first built."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._quiet = threading.Event()
        self._held = threading.Event()
        """Its run was seen to wait in a hold, and is not followed any more."""
        self._unfollowed = threading.Event()
        self._holding = False
        """A hold was begun."""
        self._starting = False
        self._gate: CallbackGate | None = None
        """Of the newest start."""
        self._runs: list[Run] = []
        self._pinned: tuple[str, str] | None = None
        """The run that knows the id of its cluster, and that id."""
        self._session: SparkSession | None = None
        """Of the newest start."""
        self._unread: tuple[Callable[[], ColumnUses], float] | None = None
        """Reads the plan of the run, which was not read yet; and when that began, on the monotonic clock."""
        self._thread = threading.Thread(target=self._live, name=f"query {assignment.query}", daemon=True)

    @property
    def epoch(self) -> int:
        return self._assignment.epoch

    @property
    def row(self) -> Assignment:
        """Under which it is hosted."""
        return self._assignment

    @property
    def subject(self) -> Subject:
        return self._subject

    @property
    def has_committed(self) -> bool:
        """Whether its present run has committed a batch of its own."""
        return self._ledger.first_commit_seen

    @property
    def is_alive(self) -> bool:
        """Whether its thread still has something to do: until the last run is quiet."""
        return self._thread.is_alive()

    @property
    def is_finishing(self) -> bool:
        """Whether its batch under way may still be committed: it was not ordered to stop, and a run of it is active."""
        with self._lock:
            runs = list(self._runs)
        return not (self._closing.is_set() or self.is_held) and any(run.is_active for run in runs)

    @property
    def is_held(self) -> bool:
        """Whether its run waits, alive and quiet, for where to continue."""
        return self._held.is_set() and not self._closing.is_set()

    @property
    def is_quiet(self) -> bool:
        """Whether it was closed, and seen to be quiet since."""
        return self._quiet.is_set()

    def begin(self) -> None:
        """Start hosting, in the background."""
        self._thread.start()

    def close(self) -> None:
        """Start nothing more, let no callback in, order Spark to stop, a run of before included; returns at once."""
        for each in self._before:
            each.close()
        with self._lock:
            self._closing.set()
            if self._gate is not None:
                self._gate.close()
            runs = list(self._runs)
        for run in runs:
            run.begin_stop()

    def hold(self) -> bool:
        """Let its run plan no further batch and stay alive; False where there is not exactly one that can be held."""
        with self._lock:
            run = self._runs[0] if len(self._runs) == 1 else None
            if run is None or run.news is None or self._starting or self._closing.is_set() or not run.is_active:
                return False  # one that has ended never comes to rest in a hold, and a move would wait for it
            self._holding = True
        run.hold()
        return True

    def keep_in_batch(self) -> bool:
        """Hold its run in the middle of the batch, which waits for a silent cluster; False where it does not."""
        with self._lock:
            runs = list(self._runs)
        return self._holding and len(runs) == 1 and runs[0].keep_in_batch()

    @property
    def is_kept_in_batch(self) -> bool:
        """Whether its run is held in the middle of a batch."""
        with self._lock:
            return any(run.is_kept_in_batch for run in self._runs)

    def run_id_in_batch(self) -> str | None:
        """The run that is held in the middle of a batch which may continue elsewhere, by Spark's id. Py4j's errors."""
        with self._lock:
            runs = list(self._runs)
        return next((run.run_id for run in runs if self.is_held and run.may_leave_in_batch), None)

    def require_in_run(self, run_id: str, row: Assignment) -> None:
        """What a move counts on: that this run continues in its batch where ``row`` says.

        Raises ``MovedOn`` where it does not, ``CredentialRefused`` and py4j's errors.
        """
        with self._lock:
            run = next((run for run in self._runs if run.run_id == run_id), None)
        if run is None or not self.is_held or not run.can_go_on(row.epoch, self._sources(row)):
            raise MovedOn(f"the batch under way of run {run_id} cannot continue in its run on {row.cluster}")

    @property
    def waits_for_cluster(self) -> bool:
        """Whether its run, or a task of it, waits for an answer of a silent cluster."""
        with self._lock:
            runs = list(self._runs)
        return any(run.silence() is not None for run in runs)

    def keep_held(self) -> None:
        """Its run was seen to be quiet in the hold: follow it no more, until it is taken over or ended."""
        self._held.set()

    def give_held(self) -> HeldRun | None:
        """Let go of a run that is held, and be over; None where there is none to have any more. Once."""
        if not self.is_held or not self._unfollowed.wait(_SETTLE_SECONDS):
            return None
        with self._lock:
            if self._closing.is_set() or self._session is None or self._gate is None or len(self._runs) != 1:
                return None
            held = HeldRun(self._runs[0], self._session, self._gate, self.sink, self._subject.cluster)
            self._runs, self._gate, self._session = [], None, None
            self._closing.set()
        return held

    def unrest(self) -> str | None:
        """What of this query could still write from here, in one sentence; None when nothing can.

        Only a closed query can be quiet for good, and one that is held for as long as it is not let go.
        """
        with self._lock:
            on_hold = self._holding and not self._closing.is_set()
            if not (self._closing.is_set() or on_hold):
                return "it still runs here"
            if self._starting:
                return "a start was under way and has not returned"
            runs = list(self._runs)
        said = (run.unrest_on_hold() if on_hold else run.unrest() for run in runs)
        return next((sentence for sentence in said if sentence is not None), None)

    def sink_state(self, batch: int) -> SinkState:
        """Whether a ``foreachBatch`` sink has a planned batch, as far as the present run's own callbacks show."""
        with self._lock:
            gate = self._gate
        return SinkState.UNKNOWN if gate is None else gate.sink_state(batch)

    def _live(self) -> None:
        failures = 0
        while not self._closing.is_set():
            error: str | None = None
            trace: str | None = None
            contradicted: str | None = None
            try:
                self._await_start()
                self._await_turn()
                self._ledger.announce()
                run, follower = self._go_on() or self._start()
                failures = 0 if self._watch(run, follower) else failures
                if self._held.is_set():
                    self._await_order(run)
                    break
                if self._closing.is_set():
                    break
                if self._has_finished(run):
                    self._ledger.finished()
                    self._log.info("query finished", run_id=run.run_id)
                    continue
                error, trace = run.error() or "the query ended without saying why", run.trace()
            except (AssignmentMoved, RunFenced):
                self._closing.wait(_LOOK_SECONDS)  # the runner's loop sees the row too, and closes this
                continue
            except StoreError:
                self._closing.wait(_STORE_PAUSE_SECONDS)  # nothing is started while it is unknown whether it may be
                continue
            except TideoverError as failure:
                error = f"{failure} ({failure.hint})" if failure.hint else str(failure)
                contradicted = str(failure) if isinstance(failure, (Contradicted, HalfWritten, NoMapping)) else None
            except Exception as failure:  # noqa: BLE001 - a thread's edge: Spark and py4j raise what they like
                error = cause_of(failure)
            if self._closing.is_set():
                break
            failures += 1
            pause = pause_seconds(failures)
            more = {} if trace is None else {"trace": trace}
            self._log.warning("query failed", error=error, failures=failures, again_in_seconds=pause, **more)
            self._ledger.failed(error, self._permission.holder(), contradicted)
            if not self._ledger.has_progressed:
                self._look(self._assignment)
            self._closing.wait(pause)
        self._hosting.listener.forget(self._subject)
        self._settle()

    def _await_former(self) -> None:
        """What this process ran from the same checkpoint before has to be quiet first. Raises ``FormerRunGoesOn``.

        A fence proved so, but not where the query goes back to where it was, or was reconciled, nor where its last run
        failed. Spark waits for the thread of a query with this id before it starts another
        (``StreamingQueryManager.startQuery``); it does not wait for tasks that are running still.
        """
        former: list[QuerySupervisor | Run] = [
            each for each in self._before if are_one_folder(each.subject.checkpoint, self._subject.checkpoint)
        ]
        with self._lock:
            former += self._runs
        deadline = time.monotonic() + _SETTLE_SECONDS
        while (unrest := next((said for each in former if (said := each.unrest()) is not None), None)) is not None:
            if self._closing.is_set() or time.monotonic() >= deadline:
                raise FormerRunGoesOn(f"{self._assignment.query} still runs here from before: {unrest}")
            self._closing.wait(_LOOK_SECONDS)

    def _await_start(self) -> None:
        """Until there is something to start; a query that is hosted here is to run always. Raises ``RunFenced``."""

    def _await_turn(self) -> None:
        """Starts are spread on a cluster that limits connections, as each opens many. Raises ``RunFenced``."""
        while wait := self._hosting.turn(self._assignment):
            if self._closing.wait(wait):
                raise RunFenced(f"{self._assignment.query} was ordered to stop before it started")

    def _has_finished(self, run: Run) -> bool:
        """Whether a run that has ended has done all that was wanted of it; one that is hosted here never has."""
        return False

    def _await_order(self, run: Run) -> None:
        """Until a run that is held is taken over, or ordered to stop."""
        self._unfollowed.set()
        self._closing.wait()
        with self._lock:
            is_ours = run in self._runs
        if is_ours:
            _leave(run)

    def _go_on(self) -> tuple[Run, Follower] | None:
        """Let a run continue that was held for the move to this row. None where there is none, or where it cannot
        continue from the middle of its batch: it is started then, and the batch runs again.
        """
        with self._beginning():
            held = self._take_held()
        if held is None:
            return None
        row = self._assignment
        self._ahead.forget(row.query)
        try:
            self._permission.require_cluster()
            self._permission.require_row()
            sources = None if held.cluster == row.cluster else self._sources(row)
            follower = self._permission.open_checkpoint()
            with self._beginning():
                goes_on = held.run.go_on(row.epoch, sources)
        except BaseException:
            _give_up(held.run)
            raise
        if not goes_on:
            _give_up(held.run)
            self._log.info("the batch under way is run again", run_id=held.run.run_id)
            return None
        self._begun(held.run, "query continues")
        return held.run, follower

    def _take_held(self) -> HeldRun | None:
        """What was held of the same checkpoint; everything else of before is ended."""
        held = None
        for each in self._before:
            is_here = are_one_folder(each.subject.checkpoint, self._assignment.checkpoint)
            held = held or (each.give_held() if is_here else None)
            each.close()
        if held is not None:
            with self._lock:
                self._runs, self._gate, self._session = [held.run], held.gate, held.session
            self.sink = held.sink
            if held.sink is not None:
                self._ledger.sink = self._tables.watch_under_way(self._assignment.checkpoint, held.sink)
        return held

    @contextlib.contextmanager
    def _beginning(self) -> Iterator[None]:
        """A run is about to write from here, and nothing proves yet that it does not. Raises ``RunFenced``."""
        with self._lock:
            if self._closing.is_set():
                raise RunFenced(f"{self._assignment.query} was ordered to stop before it started")
            self._starting = True
        try:
            yield
        finally:
            with self._lock:
                self._starting = False

    def _begun(self, run: Run, what: str) -> None:
        """Report it. Raises ``RunFenced`` where it was to stop by then."""
        if self._closing.is_set():
            run.begin_stop()
            raise RunFenced(f"{self._assignment.query} was ordered to stop while it started")
        self._log.info(what, run_id=run.run_id, checkpoint=self._assignment.checkpoint)
        self._ledger.started(run.run_id, run.query_id)

    def _sources(self, row: Assignment) -> dict[str, dict[str, str]]:
        """By declared source, with which options a run that continues reads where a row says."""
        return switched_sources(self._hosting, row)

    def _start(self) -> tuple[Run, Follower]:
        self._await_former()
        assignment = self._assignment
        ready = self._ahead.take(assignment)
        gate = CallbackGate() if ready is None else ready.gate
        former = self._gate
        with self._lock:
            self._runs = [run for run in self._runs if run.unrest() is not None]
            self._gate = gate
        self._detach()
        self._permission.require_cluster()
        self._permission.require_row()  # before the work as well: a store that is away should not cost a session a try
        session, writer = (
            prepare_writer(self._hosting, assignment, gate) if ready is None else (ready.session, ready.writer)
        )
        self._session = session
        self.sink = written_to(self._hosting.query(assignment.query), writer)
        follower = self._permission.open_checkpoint()
        self._unfinished.before_start(follower.committed, self.sink, former, self._permission.require_row)
        self._ledger.sink = self._tables.watch(assignment.checkpoint, self.sink)
        with self._beginning():
            run = Run.start(session, writer, gate, self._name)
            with self._lock:
                self._runs.append(run)
        self._begun(run, "query started")
        names_topic = self._hosting.query(assignment.query).output is not None
        self._unread = partial(uses_in_writer, session, writer, names_topic=names_topic), time.monotonic()
        return run, follower

    def _understand(self) -> None:
        """Report which columns of its cluster the query uses. A plan that cannot be read does not stop it.

        Once the run has progressed, or some seconds later: a first reading takes Spark some 100 ms, and a move waits
        for the first commit.
        """
        if self._unread is None:
            return
        read, started = self._unread
        if not self._ledger.has_progressed and time.monotonic() - started < _READ_SECONDS:
            return
        self._unread = None
        try:
            columns = read()
        except Exception as error:  # noqa: BLE001 - the query runs already, and no gate passes what is unknown
            self._log.warning("the plan cannot be read", error=one_line(type(error).__name__, str(error)))
            columns = UNREAD
        self._ledger.understood(columns)

    def _watch(self, run: Run, follower: Follower) -> bool:
        """Follow the run until it ends or is ordered to; whether it committed anything. Raises ``OtherCluster``."""
        watch = RunMonitor(self._hosting, self._subject, run, follower, self._ledger, self._log)
        try:
            while not (self._closing.is_set() or self._held.is_set()):
                self._pin(run)
                try:
                    self._permission.require_cluster()
                except OtherCluster:
                    if not self._permission.may_wait():
                        run.begin_stop()  # what it commits from here on is not recorded
                        raise
                active = run.is_active  # read first, so that what it committed before it ended is seen
                try:
                    watch.poll()
                except (CheckpointError, Py4JError) as error:
                    self._log.warning("checkpoint cannot be followed", error=one_line(type(error).__name__, str(error)))
                    self._closing.wait(_STORE_PAUSE_SECONDS)
                if not active:
                    break
                self._understand()
                closely = self._holding or not self._ledger.first_commit_seen
                seconds = _LOOK_CLOSELY_SECONDS if closely else _LOOK_SECONDS
                with contextlib.suppress(Py4JError):  # the next look says it
                    watch.wait(self._closing, seconds)
        finally:
            if not self._held.is_set():
                watch.close()
        return watch.committed_any

    def _pin(self, run: Run) -> None:
        """Let the run know which id its cluster has, as soon as that is pinned or another one is."""
        cluster, run_id = self._subject.cluster, run.run_id
        known = self._hosting.cluster_id(cluster)
        if known is not None and self._pinned != (run_id, known):
            with contextlib.suppress(Py4JError):  # the next look does it
                run.pin(cluster, known)
                self._pinned = run_id, known

    def _settle(self) -> None:
        """Say when nothing of the query runs here any more, however long that takes; a fence waits for it."""
        doubt_at = time.monotonic() + _SETTLE_SECONDS
        pause = _LOOK_SECONDS
        while (unrest := self.unrest_or_error()) is not None:
            if pause == _LOOK_SECONDS and time.monotonic() >= doubt_at:
                self._log.warning("query ordered to stop", unrest=unrest)
                self._ledger.restless(unrest)
                pause = _RESTLESS_LOOK_SECONDS
            time.sleep(pause)
        self._see_last()
        self._quiet.set()
        self._detach()
        self._log.info("query stopped")
        while not self.report_stopped():
            time.sleep(_STORE_PAUSE_SECONDS)

    def _see_last(self) -> None:
        """Know what a run wrote after the last look at it: the next start misses these files, too, if they are gone."""
        if self._ledger.seen is None:
            return
        try:
            found = find_files(self._hosting.files, self._assignment.checkpoint)
        except (CheckpointError, Py4JError) as error:
            self._log.warning("checkpoint cannot be followed", error=one_line(type(error).__name__, str(error)))
            return
        for batch, committed in ((found.planned, False), (found.committed, True)):
            if batch is not None:
                self._ledger.has_batch(batch, committed=committed)

    def _detach(self) -> None:
        """Let go of the session of the run before, which is quiet; a Spark that does not answer has let go itself."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Py4JError):
                detach(session)

    def report_stopped(self) -> bool:
        """Report to the store that the query is quiet, which the caller has seen; whether the store has heard it."""
        self._ledger.stopped()
        return not self._ledger.is_behind

    def unrest_or_error(self) -> str | None:
        """``unrest`` of this run and of those before it, where a Spark that does not answer is unrest as well."""
        try:
            return next((said for each in (self, *self._before) if (said := each.unrest()) is not None), None)
        except (Py4JError, SparkMissing) as error:
            return one_line(type(error).__name__, str(error))


def _give_up(run: Run) -> None:
    """End a run that was held: it has no follower, and its hold ends with it."""
    run.begin_stop()
    _leave(run)


def _leave(run: Run) -> None:
    if run.news is not None:
        with contextlib.suppress(Py4JError):
            run.news.close()
