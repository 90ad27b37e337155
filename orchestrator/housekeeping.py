"""What has to be done now and then, and never to the second: samples, schedules, counts, and clearing what is over.

The one seam of APScheduler 3.11. It goes by the wall clock, and a clock that is set back holds its jobs up for as long.
A run that hangs blocks the later ones. What it starts it cannot stop. So nothing that must be on time runs here, each
job ends by a limit of its own, and looks between its steps whether it should. A late run is run nevertheless
(``misfire_grace_time=None``; by the default of one second a process that was stopped loses it without a word). It is
run once, not as often as it was missed.

Every controller keeps one; a job does its work only while its controller leads, and every write carries the term.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from orchestrator.decide.desk.readiness_sampling import next_samples, readiness_event, readiness_fact, standby_sample
from orchestrator.decide.desk.trend import with_flow
from orchestrator.decide.gates.readiness import Readiness
from orchestrator.decide.replication_age import continued
from orchestrator.errors import NotLeading
from orchestrator.facts.current import open_operations
from orchestrator.facts.evidence.folder import Folder
from orchestrator.facts.evidence.keeping import keep_evidence
from orchestrator.facts.former_checkpoints import keep_of, request_cleaning
from orchestrator.facts.measure import keep_counts
from orchestrator.facts.preflight import check_queries
from orchestrator.facts.timestamp_disorder import measure_disorder
from orchestrator.rounds import apart
from orchestrator.schedules import request_due
from state.errors import Damaged, StaleTerm, StoreUnavailable, TideoverError
from state.model.entities import EndSample, TopicPartition
from state.model.maintenance import PrunedRows
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock, SystemClock
from streaming.cluster_log import Logs
from streaming.probe.self_questions import SelfQuestions
from streaming.registry.questions import SchemaQuestions

LOOK_EVERY = timedelta(seconds=5)
"""How often a job looks whether something is due: soon after its controller began to lead."""
LATER_EVERY = timedelta(minutes=1)
DISORDER_EVERY = timedelta(minutes=30)
"""Measuring a day of 3,500 partitions takes some 15 seconds of one core: a hundredth of it."""
RETENTION_EVERY = timedelta(hours=1)
SAMPLING_SECONDS = 45.0
"""How long one round of samples may take; the queries that were not reached come first in the next."""
PRUNING_SECONDS = 30.0
PRUNED_AT_ONCE = 1000
"""Rows of each kind in one transaction: some milliseconds."""
STRETCHES_AT_ONCE = 50
"""Of timelines: half a megabyte each, for thousands of partitions."""
PAUSE_SECONDS = 0.05
"""Between two transactions: an SQLite file has one writer at a time, and its waiters do not queue."""
log = structlog.get_logger()

Term = Callable[[], int | None]
"""The term in which this controller leads; None while it does not."""


class Housekeeping:
    """The jobs of one controller. ``sample`` and ``prune`` are one run of each, for a caller that wants it now."""

    def __init__(
        self,
        store: ControllerStore,
        settings: Tideover,
        *,
        logs: Logs,
        term: Term,
        actor: str,
        clock: Clock | None = None,
        look_every: timedelta = LOOK_EVERY,
    ) -> None:
        self._store = store
        self._settings = settings
        self._logs = logs
        self._term = term
        self._actor = actor
        self._clock = clock or SystemClock()
        self._questions = SelfQuestions(logs, self._clock.monotonic)
        self._schemas = SchemaQuestions(settings, logs, self._clock.monotonic)
        self._stop = threading.Event()
        self._spent: dict[str, float] = {}
        """By query, what its last sample took, in seconds of a core; what else this process did at that time is in it.
        """
        self._folder = Folder(settings.evidence.folder) if settings.evidence.folder is not None else None
        self._folder_fails = False
        self._jobs = {
            "evidence": _Job(self.keep_evidence),
            "readiness": _Job(self.sample),
            "schedules": _Job(self.request_scheduled),
            "later": _Job(self._when_due(LATER_EVERY, self.count)),
            "disorder": _Job(self._when_due(DISORDER_EVERY, self.measure)),
            "retention": _Job(
                self._when_due(RETENTION_EVERY, self.clean, self.prune, self.prune_timelines, self.prune_samples)
            ),
        }
        self._scheduler = _scheduler(self._jobs, look_every)

    def begin(self) -> None:
        """Begin to look at once."""
        self._scheduler.start()

    def close(self, grace: float = 5.0) -> None:
        """Begin no more runs, and wait this many seconds at most for each that is under way."""
        self._stop.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        for job in self._jobs.values():
            job.end(grace)

    def sample(self) -> int:
        """Look at each query whose last sample is old whether it could fail over now; how many were kept.

        Raises ``StoreError``; what was kept before stays.
        """
        until, kept, wrong = self._clock.monotonic() + SAMPLING_SECONDS, 0, list[Exception]()
        if self._leading() is None:
            return kept
        names = next_samples(
            self._settings.queries,
            self._store.readiness(),
            open_operations(self._store),
            self._store.now(),
            self._spent,
        )
        began = time.process_time()
        found = check_queries(
            names,
            store=self._store,
            settings=self._settings,
            logs=self._logs,
            clock=self._clock,
            wrong=wrong,
            questions=self._questions,
            schemas=self._schemas,
        )
        ends: dict[str, Mapping[TopicPartition, EndSample]] = {}
        for readiness in found:
            ended = time.process_time()
            self._spent[readiness.query], began = ended - began, ended
            term = self._leading()
            if term is None:
                break
            with apart(wrong):
                self._keep(readiness, term, ends)
                kept += 1
            if self._clock.monotonic() >= until:
                break
        if wrong:
            raise wrong[0]
        return kept

    def _keep(self, readiness: Readiness, term: int, ends: dict[str, Mapping[TopicPartition, EndSample]]) -> None:
        """``ends`` of each cluster are read once in a round: they may be of thousands of partitions."""
        fact = readiness_fact(readiness, self._store.now())
        replication = readiness.replication
        if replication is not None:
            with suppress(Damaged):  # what is written now takes its place
                replication = continued(replication, self._store.replication(fact.query))
        event, sample = readiness_event(fact, actor=self._actor), standby_sample(readiness, fact.sampled_at)
        assignment = self._store.assignment(fact.query)
        if assignment is not None:
            report = next(iter(self._store.query_facts(query=fact.query)), None)
            if assignment.cluster not in ends:
                ends[assignment.cluster] = self._store.ends(assignment.cluster)
            sample = with_flow(sample, assignment, report, ends[assignment.cluster])
        self._store.keep_readiness(fact, term=term, event=event, replication=replication, sample=sample)

    def request_scheduled(self) -> int:
        """Request what is scheduled and due; of how many schedules. Raises ``StoreError``."""
        return request_due(self._store, self._settings, term=self._leading)

    def count(self) -> int:
        """Count what moves announced to come later; how many numbers grew. Raises ``StoreError``."""
        return keep_counts(
            self._settings.queries, self._store, self._logs, term=self._leading, at=self._clock.now(), actor=self._actor
        )

    def measure(self) -> int:
        """Measure the disorder of times for each query that goes by it; how many were kept. Raises ``StoreError``."""
        kept, wrong = 0, list[Exception]()
        for name, query in self._settings.queries.items():
            with apart(wrong):
                assignment = self._store.assignment(name) if query.buffer == "measured" else None
                if assignment is not None and self._leading() is not None:
                    found = measure_disorder(self._store, assignment, self._store.now())
                    if (term := self._leading()) is None:
                        break
                    self._store.keep_disorder(found, term=term)
                    kept += 1
        if wrong:
            raise wrong[0]
        return kept

    def keep_evidence(self) -> int:
        """Write the evidence of operations that have closed, to the store and to its folder; of how many.

        Raises ``StoreError``.
        """
        if self._leading() is None:
            return 0
        kept = keep_evidence(self._store, self._logs, term=self._leading, actor=self._actor)
        if self._folder is not None:
            try:
                self._folder.write(self._store)
                self._folder_fails = False
            except OSError as error:
                if not self._folder_fails:
                    log.error(  # noqa: TRY400 # no defect of ours
                        "evidence is in the store but cannot be written to its folder; tried again every 5 s",
                        folder=str(self._settings.evidence.folder), error=str(error),
                    )  # fmt: skip
                self._folder_fails = True
        return kept

    def clean(self) -> int:
        """Order runners to clean what queries left longer ago than the configuration says; of how many checkpoints.

        Raises ``StoreError``.
        """
        keep, requested, wrong = keep_of(self._settings.retention), 0, list[Exception]()
        for query in self._settings.queries if keep.age is not None else ():
            if (term := self._leading()) is None:
                break
            with apart(wrong):
                requested += len(
                    request_cleaning(self._store, self._settings, query, keep, actor=self._actor, term=term)
                )
        if wrong:
            raise wrong[0]
        return requested

    def prune(self) -> PrunedRows:
        """Forget what is older than the configuration says, in bounded rounds; what went. Raises ``StoreError``."""
        until, gone = self._clock.monotonic() + PRUNING_SECONDS, PrunedRows()
        kept = self._settings.retention
        while (term := self._leading()) is not None and self._clock.monotonic() < until:
            before = self._store.now() - kept.history
            went = self._store.prune(before, keep=kept.operations, limit=PRUNED_AT_ONCE, term=term)
            gone = PrunedRows(*map(sum, zip(gone, went, strict=True)))
            if max(went) < PRUNED_AT_ONCE:
                break
            self._clock.wait(PAUSE_SECONDS)
        if gone.rows:
            log.info("old rows deleted", **gone._asdict())
        return gone

    def prune_timelines(self) -> int:
        """Forget stretches that no setting keeps any more; how many. Raises ``StoreError``.

        The writer of a timeline clears its own query as its settings say. This is for queries that no runner runs.
        """
        settings = self._settings
        keep = max([settings.timeline.keep, *(settings.timeline_of(query).keep for query in settings.queries)])
        return self._in_rounds(self._store.prune_timelines, keep, STRETCHES_AT_ONCE)

    def prune_samples(self) -> int:
        """Forget what was measured of standbys longer ago than the configuration says; how many samples.

        Raises ``StoreError``.
        """
        return self._in_rounds(self._store.prune_standby_samples, self._settings.retention.samples, PRUNED_AT_ONCE)

    def _in_rounds(self, prune: Callable[..., int], keep: timedelta, limit: int) -> int:
        until, gone = self._clock.monotonic() + PRUNING_SECONDS, 0
        while (term := self._leading()) is not None and self._clock.monotonic() < until:
            went = prune(self._store.now() - keep, limit=limit, term=term)
            gone += went
            if went < limit:
                break
            self._clock.wait(PAUSE_SECONDS)
        return gone

    def _when_due(self, every: timedelta, *work: Callable[[], object]) -> Callable[[], None]:
        """Work that is done by a leader when so much time has passed since it last was; what fails is due still.

        An interval of the scheduler's would count from the start of the process. A new leader would wait for the rest
        of it, up to an hour, and so would a run that failed.
        """
        due = 0.0

        def run() -> None:
            nonlocal due
            now = self._clock.monotonic()
            if now >= due and self._leading() is not None:
                wrong = list[Exception]()
                for each in work:
                    with apart(wrong):
                        each()
                if wrong:
                    raise wrong[0]
                due = now + every.total_seconds()

        return run

    def _leading(self) -> int | None:
        return None if self._stop.is_set() else self._term()


class _Job:
    """One job: what it does, and whether it is at it."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._at_work = threading.Lock()
        self._is_away = False

    def __call__(self) -> None:
        """One run: another leader, and a store that is away, are ordinary, and the next run comes."""
        with self._at_work:
            try:
                self._work()
                self._is_away = False
            except (StaleTerm, NotLeading):
                return
            except StoreUnavailable as error:
                if not self._is_away:
                    log.warning("housekeeping waits for the store", error=str(error))
                self._is_away = True
            except TideoverError as error:
                log.error("housekeeping failed", error=str(error), hint=error.hint)  # noqa: TRY400 # no defect of ours

    def end(self, grace: float) -> None:
        """Wait for a run that is under way."""
        if self._at_work.acquire(timeout=grace):
            self._at_work.release()


def _scheduler(jobs: dict[str, _Job], every: timedelta) -> BackgroundScheduler:
    """Each job runs on a thread of the scheduler's pool, once at a time, so that one that is slow holds up no other."""
    logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # what goes wrong is logged below, once
    scheduler = BackgroundScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    seconds, now = every.total_seconds(), datetime.now(UTC)
    for name, job in jobs.items():
        scheduler.add_job(job, "interval", seconds=seconds, id=name, next_run_time=now)
    scheduler.add_listener(_report_defect, EVENT_JOB_ERROR)
    return scheduler


def _report_defect(event: JobExecutionEvent) -> None:
    """The scheduler swallows what a job raises, and continues."""
    log.error("a bug in housekeeping", job=event.job_id, error=repr(event.exception), trace=event.traceback)
