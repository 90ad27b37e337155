"""Puts the attendant of an application together: the runner's modules over the application's own driver.

It stops no query when it ends, for they are the application's. It is started again by the plugin, and joins what runs.
Where it cannot host (a second start of the application, another configuration) it answers each start with the reason.
"""

import contextlib
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError

from state.errors import StoreError, TideoverError
from state.model.entities import Assignment, Desired
from state.settings.keys import Spark, Tideover
from state.store.runner_store import RunnerStore
from streaming.errors import CredentialRefused
from streaming.process import Identity
from streaming.spark.attach.attached import MOVED, AttachedSupervisor, declared_beside, topics_beside
from streaming.spark.attach.driver import ApplicationDriver
from streaming.spark.attach.status import shown_queries
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.errors import NameTaken, RunError
from streaming.spark.hosting import Hosting, absolute, logger_about
from streaming.spark.jvm import has_stopped
from streaming.spark.query.launch import Sinks
from streaming.spark.query.session import Liveness
from streaming.spark.runner.intents import ended_run
from streaming.spark.runner.registration import Registration, clear_name
from streaming.spark.runner.runner import DriverProcess, Runner
from streaming.spark.runner.service import SparkInUse, assembled

_LOOK_SECONDS = 0.1
_SHOW_SECONDS = 3.0
"""How often the tab in Spark's UI gets the newest words: four short reads of the store for each query."""
_CATCH_UP_SECONDS = 5.0
"""How long the last positions of all queries are waited for when their application ends."""
_FINISH_SECONDS = 3.0
"""How long all runs that have ended may take, together, until they are seen to be quiet. The plugin waits 15 s for this
process, which has its name to give back.
"""
_TRACKER_GRACE_SECONDS = 2.0
_INTENT_SECONDS = 30.0
"""How long an application that has to end waits until its fence was reported."""


@dataclass(frozen=True, slots=True)
class Desk:
    """Answers the starts of an application: which of them are ours, and what they wait for."""

    driver: ApplicationDriver
    hosting: Hosting
    queries: Mapping[str, str]
    """By key of a checkpoint, the query."""

    def look(self, runner: Runner) -> None:
        """One look. A start of ours that its supervisor has not admitted yet waits on, and its log says why.

        While the store is away nothing can be said of it, and the plugin counts the time. Raises py4j's errors.
        """
        for key in self.driver.requests():
            query = self.queries.get(key)
            if query is None:
                self.driver.leave_alone(key)
            elif not runner.is_store_away:
                with contextlib.suppress(StoreError):
                    self.driver.delay(key, self._why(query))

    def declare(self, batch: int) -> None:
        """Answer a batch that waits, and all before it: where each query is now.

        While the store is away nothing can be said, and the batch counts the time. Raises py4j's errors.
        """
        with contextlib.suppress(StoreError):
            self.driver.declare([self._declared(key, query) for key, query in self.queries.items()], batch)

    def _declared(self, key: str, query: str) -> dict[str, object]:
        """A query that has no row yet begins on its first cluster; a batch of one on its way elsewhere waits.

        Raises ``StoreError``.
        """
        row = self.hosting.store.assignment(query)
        if row is not None and (row.desired is not Desired.RUNNING or row.runner != self.hosting.runner):
            return topics_beside(self.hosting.settings, query, key) | {"waits": self._why(query)}
        cluster = self.hosting.query(query).clusters[0] if row is None else row.cluster
        try:
            return declared_beside(self.hosting, query, key, cluster)
        except CredentialRefused as error:
            return topics_beside(self.hosting.settings, query, key) | {"waits": str(error)}

    def show(self) -> None:
        """Publish what the tab in Spark's UI shows; while the store is away it grows old. Raises py4j's errors."""
        with contextlib.suppress(StoreError):
            self.driver.show(shown_queries(self.hosting.store, self.queries))

    def _why(self, query: str) -> str:
        row = self.hosting.store.assignment(query)
        fact = next(iter(self.hosting.store.query_facts(query=query)), None)
        if row is None:
            return f"{query} has no assignment yet"
        if row.desired is not Desired.RUNNING:
            return f"operation {row.operation} holds {query}: tideover show-op {row.operation}"
        if row.runner != self.hosting.runner:
            return f"{query} is assigned to runner {row.runner}"
        if fact is not None and fact.error is not None:
            return fact.error
        return f"{query} is being admitted on {row.cluster}"


def run_attendant(settings: Tideover, application: str, *, store: RunnerStore, base: Path) -> int:
    """Attend an application until it ends; the exit code: 0 it ended, 2 the attendant could not continue.

    Raises ``RunError`` where no application has started this process, and ``StoreError``.
    """
    driver = ApplicationDriver()
    log = logger_about({"application": application})
    own = [name for name, query in settings.queries.items() if query.attach == application]
    keys = {driver.key(absolute(settings.queries[name].checkpoint, base)): name for name in own}
    if not own:
        known = ", ".join(settings.attached)
        why = f"no query of the configuration has attach: {application}; declared applications: {known}"
        why = f"{why}. Set spark.tideover.application or the application's name"
        return _refuse_all(driver, settings, keys, why)
    unplaced = {"waits": "the attendant has not read the store yet"}
    driver.declare([topics_beside(settings, query, key) | unplaced for key, query in keys.items()])
    here = driver.identity
    instance = uuid.uuid5(uuid.NAMESPACE_OID, f"{here}").hex  # of the driver, so another attendant is the same runner
    if why := _why_taken(store, application, here, instance, settings.spark):
        return _refuse_all(driver, settings, keys, why)
    hosting, tracker, lookout, identities = assembled(
        settings, application, instance, store=store, base=base, here=here,
        spark=SparkInUse(driver.session, HadoopFiles(driver.session)),
    )  # fmt: skip
    registration = Registration(hosting)
    registration.set_warm()
    registration.renew()
    liveness, wakeups = Liveness(lambda: has_stopped(hosting.session)), store.wakeups()
    process = DriverProcess(driver.has_ended, lambda: None, partial(AttachedSupervisor, driver))
    runner = Runner(hosting, registration, Sinks(hosting), liveness, identities, wakeups, process)
    log.info("attendant is up", driver=driver.pid, spark=hosting.session.version, queries=own)
    tracker.begin(sorted({cluster for name in own for cluster in settings.queries[name].clusters}))
    lookout.begin()
    over = threading.Event()
    for row in _rows_that_run(driver, store, keys):
        runner.join(row)
    _begin_to_answer(driver, Desk(driver, hosting, keys), runner, over)
    liveness.begin(runner.request_stop, over)
    code = _run(runner, driver, application)
    over.set()
    lookout.close()
    runner.end_intents()
    if not driver.has_ended():
        _store_positions(hosting, runner)
        _await_next_starts(runner)
    tracker.close(_TRACKER_GRACE_SECONDS)
    with contextlib.suppress(StoreError):
        if code == 0:
            registration.give_back()
    log.info("attendant is down", code=code)
    return code


def _why_taken(store: RunnerStore, application: str, here: Identity, instance: str, spark: Spark) -> str:
    """Why the application's name is not free; empty where it is, or is this driver's. Raises ``StoreError``."""
    if any(fact.runner == application and fact.instance == instance for fact in store.runners()):
        return ""
    try:
        clear_name(store, application, here, None, spark)
    except NameTaken as error:
        return f"{error}; {error.hint}"
    return ""


def _begin_to_answer(driver: ApplicationDriver, desk: Desk, runner: Runner, over: threading.Event) -> None:
    """Answer starts and batches, and fill the tab of Spark's UI, until ``over`` is set."""
    threading.Thread(target=_attend, args=(driver, desk, runner, over), name="desk", daemon=True).start()
    threading.Thread(target=_publish, args=(driver, desk, over), name="tab", daemon=True).start()
    threading.Thread(target=_answer_batches, args=(driver, desk, over), name="batches", daemon=True).start()


def _run(runner: Runner, driver: ApplicationDriver, application: str) -> int:
    """Run until the application ends; the exit code."""
    try:
        runner.run()
    except RunError as error:
        logger_about({"application": application}).warning("the attendant ends", error=str(error))
        return 0 if driver.has_ended() else 2
    return 0


def _rows_that_run(driver: ApplicationDriver, store: RunnerStore, keys: Mapping[str, str]) -> list[Assignment]:
    """The rows of queries that run since before this process began, each with the epoch that its run has.

    One that reads another cluster than its row says was to be sent there by an attendant that has died since. Its
    application is ended: its next start is admitted where the row says. Raises ``StoreError`` and py4j's errors.
    """
    found = []
    for key, query in keys.items():
        running, row = driver.running(key), store.assignment(query)
        if running is None or row is None:
            continue
        if running.cluster != row.cluster:
            driver.condemn(MOVED, f"{query} reads {running.cluster}, and is placed on {row.cluster}")
            driver.exit()
        elif running.epoch < row.epoch:
            found.append(replace(row, epoch=running.epoch, desired=Desired.RUNNING, operation=None))
    return found


def _attend(driver: ApplicationDriver, desk: Desk, runner: Runner, over: threading.Event) -> None:
    """Answer starts, and see the end of the application, or the need of it, until ``over``."""
    must_end_at: float | None = None
    while not over.wait(_LOOK_SECONDS):
        try:
            if driver.is_closing():
                runner.request_stop()
                return
            desk.look(runner)
            ended = any(isinstance(each, AttachedSupervisor) and each.must_end for each in runner.hosted())
            if ended and must_end_at is None:
                must_end_at = time.monotonic() + _INTENT_SECONDS
            if must_end_at is not None and (_is_answered(desk.hosting) or time.monotonic() >= must_end_at):
                driver.exit()
                return
        except Py4JError:
            if driver.has_ended():
                return


def _publish(driver: ApplicationDriver, desk: Desk, over: threading.Event) -> None:
    """Let the driver know what its tab shows, until ``over``.

    In a thread of its own: a store that hangs holds up no answer to a start.
    """
    while not over.wait(_SHOW_SECONDS):
        try:
            desk.show()
        except Py4JError:
            if driver.has_ended():
                return


def _answer_batches(driver: ApplicationDriver, desk: Desk, over: threading.Event) -> None:
    """Answer each batch that waits, until ``over``. In a thread of its own, as above."""
    while not over.wait(_LOOK_SECONDS):
        try:
            batch = driver.batches()
            if batch:
                desk.declare(batch)
        except Py4JError:
            if driver.has_ended():
                return


def _is_answered(hosting: Hosting) -> bool:
    try:
        return not hosting.store.pending_intents(hosting.runner)
    except StoreError:
        return False


def _store_positions(hosting: Hosting, runner: Runner) -> None:
    """What was read last is stored before the JVM ends: a job that runs once an hour has no later moment."""
    log = logger_about({"application": hosting.runner})
    deadline = time.monotonic() + _CATCH_UP_SECONDS
    for each in runner.hosted():
        try:
            row = hosting.store.assignment(each.subject.query)
            if row is None:
                continue
            declared = hosting.declared(row.query, row.cluster)
            report = read_checkpoint(hosting.files, row.checkpoint, declared, placed=each.subject.placed)
            left = max(0.0, deadline - time.monotonic())
            stored = hosting.listener.catch_up(row.cluster, ended_run(row.query, [each], report), left)
            log.info("positions of the last batches", query=row.query, stored=stored)
        except (TideoverError, Py4JError) as error:
            log.warning("positions of the last batches not stored", query=each.subject.query, error=str(error))


def _await_next_starts(runner: Runner) -> None:
    """Report each query whose next start is awaited from now on."""
    deadline = time.monotonic() + _FINISH_SECONDS
    for each in runner.hosted():
        if isinstance(each, AttachedSupervisor):
            with contextlib.suppress(Py4JError, StoreError):  # the next start finds the proof that this JVM is gone
                each.await_next_start(max(0.0, deadline - time.monotonic()))


def _refuse_all(driver: ApplicationDriver, settings: Tideover, keys: Mapping[str, str], why: str) -> int:
    """Answer each start and batch of ours with the reason until the application ends; others are not ours to refuse."""
    logger_about({"driver": driver.pid}).error("this application is not attended", reason=why)
    with contextlib.suppress(Py4JError):  # the loop below sees an application that has ended
        driver.declare([topics_beside(settings, query, key) | {"refused": why} for key, query in keys.items()])
    while not driver.has_ended():
        try:
            if driver.is_closing():
                break
            for key in driver.requests():
                if key in keys:
                    driver.refuse(key, why)
                else:
                    driver.leave_alone(key)
        except Py4JError:
            break
        time.sleep(_LOOK_SECONDS)
    return 0
