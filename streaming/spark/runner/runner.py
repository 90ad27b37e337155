"""The process behind ``tideover run``: a Spark driver that hosts queries as the assignment rows say.

It decides nothing. It reads its rows and intents, compares, and acts: at once when the store wakes it, four times a
second anyhow, and every 50 ms where nothing can wake it. A store that is away costs it nothing but news: streaming
continues, nothing is started. Killed at any moment, it leaves rows and checkpoints from which the next process of the
same name carries on.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from state.errors import RowRefused, StoreError
from state.model.entities import Assignment, Event, Operation
from state.store.wakeups import Wakeups
from streaming.probe.identities import Identities
from streaming.pulse import own_pulse
from streaming.spark.errors import SparkMissing
from streaming.spark.hosting import Hosting, about, absolute, logger_about
from streaming.spark.jvm import end_jvm, jvm_has_ended
from streaming.spark.query.launch import Sinks, changes_in_its_run
from streaming.spark.query.session import Liveness
from streaming.spark.query.writers_ahead import WritersAhead
from streaming.spark.runner.assignments import (
    FenceWait,
    PlaceReports,
    Skip,
    SkippedAssignments,
    Start,
    Stop,
    decide_runs,
)
from streaming.spark.runner.cleaning import CheckpointCleaner
from streaming.spark.runner.intents import IntentWorker
from streaming.spark.runner.registration import Registration
from streaming.spark.runner.supervisor import QuerySupervisor

_TICK_SECONDS = 0.05
_REST_SECONDS = 0.25
"""Between two looks while the store wakes this process when there is something to see."""
_GAP_SECONDS = 0.01
"""Between two looks at least: SQLite wakes for everything that is written."""
_HEARTBEAT_SECONDS = 1.0
_QUIET_LOOK_SECONDS = 0.05
_IDLE_SECONDS = 3.0
_SETTLE_SECONDS = 60.0
_SILENT_SECONDS, _FROZEN_SECONDS = 5.0, 60.0
"""After so long without an answer a JVM is spoken of, and ended. Spark itself gives up executors after 120 s."""


@dataclass(frozen=True, slots=True)
class DriverProcess:
    """The JVM in which the queries run, and who hosts them in it."""

    has_ended: Callable[[], bool] = lambda: jvm_has_ended()
    end: Callable[[], None] = lambda: end_jvm()
    """Ends one that does not answer."""
    supervisor: Callable[..., QuerySupervisor] = QuerySupervisor


class Runner:
    """Hosts what the rows say, until it is ordered to stop or another process takes its name."""

    def __init__(
        self,
        hosting: Hosting,
        registration: Registration,
        sinks: Sinks,
        liveness: Liveness,
        identities: Identities,
        wakeups: Wakeups | None = None,
        driver: DriverProcess | None = None,
    ) -> None:
        self._driver = DriverProcess() if driver is None else driver
        self._wakeups = Wakeups() if wakeups is None else wakeups
        self._hosting = hosting
        self._identities = identities
        self._registration = registration
        self._liveness = liveness
        self._is_silent = False
        self._store = hosting.store
        self._hosted: dict[str, QuerySupervisor] = {}
        self._retired: list[QuerySupervisor] = []
        self._newest: dict[str, int] = {}
        self._not_adopted: set[str] = set()
        self._strangers: set[str] = set()
        self._ahead = WritersAhead(hosting)
        self._errands = IntentWorker(hosting, self._all_of, sinks, self._ahead)
        self._cleaning = CheckpointCleaner(hosting, self._all_of)
        self._refraining = SkippedAssignments(
            hosting, lambda query: not any(each.is_alive for each in self._all_of(query))
        )
        self._places = PlaceReports(hosting, lambda query: any(each.is_alive for each in self._all_of(query)))
        self._stop = threading.Event()
        self._application_over = threading.Event()
        self._pulse = own_pulse()
        self._beaten = 0.0
        self._away_since: datetime | None = None
        self._fence_wait = FenceWait(self._store.operation, may_be_held=self._may_be_held, is_held=self._is_held)
        self._log = logger_about({"runner": hosting.runner})
        self._lock = threading.Lock()
        self._began_at = hosting.now()

    def run(self) -> None:
        """Obey until the order to stop.

        Raises ``NameTaken`` when another instance took over, ``SparkMissing`` when the JVM has ended, or is
        ended because it does not answer. Nothing in this loop calls into the JVM: the heartbeat must not wait for it.
        """
        while not self._stop.is_set():
            began, woken = time.monotonic(), self._wakeups.count
            try:
                self._tick()
            except StoreError as error:
                self._say_away(error)
            self._pulse.beat(time.monotonic())
            self._look_at_jvm()
            if self._driver.has_ended():
                raise SparkMissing("the JVM has ended, so this runner cannot host queries any more; start it again")
            if self._application_over.is_set():
                raise SparkMissing(
                    "the Spark application has ended, so this runner cannot host queries any more; start it again"
                )
            self._rest(began, woken)

    def _rest(self, began: float, woken: int) -> None:
        rest = _REST_SECONDS if self._wakeups.are_heard else _TICK_SECONDS
        self._wakeups.wait(woken, max(0.0, rest - (time.monotonic() - began)))
        self._stop.wait(max(0.0, _GAP_SECONDS - (time.monotonic() - began)))

    def _look_at_jvm(self) -> None:
        """A JVM that does not answer is reported, and ended in the end: while it is there no process can prove it
        quiet.
        """
        silence = self._liveness.silence()
        if silence >= _FROZEN_SECONDS:
            self._driver.end()
            raise SparkMissing(f"the JVM has not answered for {silence:.0f} s and was killed; start the runner again")
        if self._is_silent != (silence >= _SILENT_SECONDS):
            self._is_silent = not self._is_silent
            if self._is_silent:
                self._log.warning("the JVM does not answer", seconds=round(silence), killed_after=_FROZEN_SECONDS)
            else:
                self._log.info("the JVM answers again")

    def request_stop(self) -> None:
        """End ``run`` soon; safe in a signal handler."""
        self._stop.set()

    def lose_application(self) -> None:
        """End ``run`` soon, with an error: Spark's context has stopped inside a living JVM."""
        self._application_over.set()

    def has_settled(self) -> bool:
        """Whether every hosted query has committed a batch, or none came for a while: the time to warm up."""
        with self._lock:
            hosted = list(self._hosted.values())
        waited = (self._hosting.now() - self._began_at).total_seconds()
        if not hosted:
            return waited >= _IDLE_SECONDS
        return waited >= _SETTLE_SECONDS or all(each.has_committed for each in hosted)

    @property
    def is_store_away(self) -> bool:
        """Whether the store did not answer the last look."""
        return self._away_since is not None

    def join(self, row: Assignment) -> None:
        """Host a query that runs here under this row since before this process began."""
        self._host(row)

    def hosted(self) -> list[QuerySupervisor]:
        """All that is hosted here, and what is not quiet yet."""
        return self._everything()

    def end_intents(self) -> None:
        """Take no more intents, and clean nothing more; what runs here is not stopped."""
        self._errands.close()
        self._cleaning.close()

    def hosts(self, query: str) -> bool:
        """Whether a run of a query is here."""
        return bool(self._all_of(query))

    def close(self, grace_seconds: float) -> bool:
        """Stop all queries and wait until they are quiet; whether they were in time.

        Only then each says so and the name is given back: the next process of this name, wherever it is, takes both
        for proof. Else the registration stays, and names the process that has to be gone first.
        """
        self._errands.close()
        self._cleaning.close()
        everything = self._everything()
        for hosted in everything:
            hosted.close()
        deadline = time.monotonic() + grace_seconds
        restless = self._await_quiet(everything, deadline)
        for hosted in everything:
            while hosted not in restless and not hosted.report_stopped() and time.monotonic() < deadline:
                time.sleep(_QUIET_LOOK_SECONDS)
        if not restless:
            with contextlib.suppress(StoreError):
                self._registration.give_back()
        return not restless

    def _await_quiet(self, everything: Sequence[QuerySupervisor], deadline: float) -> Sequence[QuerySupervisor]:
        """What was still restless at the last look; a JVM that does not answer counts as restless, and is not waited
        for."""
        found = [everything]

        def look() -> None:
            while (restless := self._restless(everything)) and time.monotonic() < deadline:
                found.append(restless)
                time.sleep(_QUIET_LOOK_SECONDS)
            found.append(restless)

        looking = threading.Thread(target=look, name="await quiet", daemon=True)
        looking.start()
        looking.join(max(0.0, deadline - time.monotonic()) + _QUIET_LOOK_SECONDS)
        return found[-1]

    def _tick(self) -> None:
        if time.monotonic() - self._beaten >= _HEARTBEAT_SECONDS:
            self._registration.renew()
            self._registration.clear_dead()
            self._identities.keep(self._store, actor=f"runner:{self._hosting.runner}")
            self._cleaning.take(self._store.to_clean(self._hosting.runner))
            self._beaten = time.monotonic()
        assignments = self._store.assignments()
        missing = self._missing(assignments)
        if missing:
            self._adopt(missing)
            assignments = self._store.assignments()
        self._obey(assignments)
        self._places.see(assignments)
        self._errands.obey(assignments)
        self._errands.take(self._store.pending_intents(self._hosting.runner))
        self._say_back()

    def _missing(self, assignments: Sequence[Assignment]) -> list[str]:
        """Queries whose first runner this is, that no row speaks of, and that are not hosted under a lost one."""
        known = {row.query for row in assignments} | set(self._hosted)
        queries = self._hosting.settings.queries
        return [
            name for name, query in queries.items() if name not in known and query.runners[0] == self._hosting.runner
        ]

    def _adopt(self, names: Sequence[str]) -> None:
        for name in names:
            query, now = self._hosting.query(name), self._hosting.now()
            wanted = Assignment.first(
                name,
                cluster=query.clusters[0],
                runner=self._hosting.runner,
                checkpoint=absolute(query.checkpoint, self._hosting.base),
                now=now,
            )
            try:
                row = self._store.adopt(wanted)
            except RowRefused as refused:  # the others are obeyed all the same
                if name not in self._not_adopted:
                    self._not_adopted.add(name)
                    self._log.warning("query not adopted", query=name, why=str(refused))
                continue
            self._not_adopted.discard(name)
            if row == wanted:
                self._store.note(_adopted(row))
                self._log.info("query adopted", cluster=row.cluster, checkpoint=row.checkpoint, **about(row))

    def _obey(self, assignments: Sequence[Assignment]) -> None:
        rows, hosted = {row.query: row for row in assignments}, {q: each.row for q, each in self._hosted.items()}
        actions = decide_runs(
            self._hosting.runner, assignments, hosted, self._newest, self._fence_wait.goes_on, self._priority
        )
        starting = {action.assignment.query for action in actions if isinstance(action, Start)}
        for action in actions:
            match action:
                case Stop(query, epoch, why):
                    goes_on = query in starting and self._is_held(
                        query
                    )  # the next start takes its run over, or ends it
                    if not goes_on:
                        self._log.info("stopping query", ran_under=epoch, why=why, **about(rows[query]))
                    self._retire(query, close=not goes_on)
                case Start(row):
                    self._host(row)
                case Skip() as refrain:
                    self._refraining.report(refrain)
                    self._places.look(refrain.assignment)
        for row in assignments:
            self._newest[row.query] = max(row.epoch, self._newest.get(row.query, 0))

    def _priority(self, query: str) -> int:
        declared = self._hosting.settings.queries.get(query)
        return 0 if declared is None else declared.priority

    def _may_be_held(self, operation: Operation) -> bool:
        if operation.query not in self._hosting.settings.queries:
            return False
        return changes_in_its_run(self._hosting, operation.query, operation.source, operation.target)

    def _is_held(self, query: str) -> bool:
        hosted = self._hosted.get(query)
        return hosted is not None and hosted.is_held

    def _host(self, row: Assignment) -> None:
        if row.query not in self._hosting.settings.queries:
            if row.query not in self._strangers:
                self._strangers.add(row.query)
                self._log.warning("query is assigned here but not in the configuration", **about(row))
            return
        before = [each for each in self._all_of(row.query) if each.is_alive]
        hosted = self._driver.supervisor(self._hosting, row, before, self._ahead, self._places.look)
        with self._lock:
            self._hosted[row.query] = hosted
        hosted.begin()

    def _retire(self, query: str, *, close: bool) -> None:
        """Let go of a query; it stays known until it is quiet, so that a fence never misses it."""
        with self._lock:
            hosted = self._hosted.pop(query)
            self._retired.append(hosted)
            retired = list(self._retired)
        if close:
            hosted.close()
        quiet = [each for each in retired if each.is_quiet]
        with self._lock:
            self._retired = [each for each in self._retired if each not in quiet]

    def _all_of(self, query: str) -> list[QuerySupervisor]:
        return [each for each in self._everything() if each.subject.query == query]

    def _everything(self) -> list[QuerySupervisor]:
        with self._lock:
            return [*self._hosted.values(), *self._retired]

    def _restless(self, everything: Sequence[QuerySupervisor]) -> list[QuerySupervisor]:
        """What may still write; without Spark nothing can from here, but executors elsewhere may outlive it a while."""
        if self._driver.has_ended() or self._application_over.is_set():
            return [] if self._hosting.spark_master.startswith("local") else list(everything)
        return [each for each in everything if each.unrest_or_error() is not None]

    def _say_away(self, error: StoreError) -> None:
        if self._away_since is None:
            self._away_since = self._hosting.now()
            self._log.warning("store does not answer: queries run on, none is started", error=str(error))

    def _say_back(self) -> None:
        if self._away_since is not None:
            seconds = (self._hosting.now() - self._away_since).total_seconds()
            self._log.info("store is back", away_seconds=round(seconds, 1))
            self._away_since = None


def _adopted(row: Assignment) -> Event:
    return Event(
        sequence=None,
        at=row.changed_at,
        kind="adopted",
        query=row.query,
        operation=None,
        epoch=row.epoch,
        actor=f"runner {row.runner}",
        text=f"{row.query} starts on {row.cluster}",
        detail={"checkpoint": row.checkpoint},
    )
