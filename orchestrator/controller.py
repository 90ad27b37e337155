"""``tideover control``: watches, gives verdicts, requests what policy allows, and sees every open operation through.

One loop on one thread. It looks whether it leads, gives the verdicts, and runs the scheduler. Whatever may take long
(looks at clusters, operations, housekeeping) has threads of its own and only gets the order to begin. A controller that
does not lead still looks, so that it is warm when it has to take over. With the store away nothing is decided: the
streams continue, the fault is logged once, and what was missed is read from the rows when it is back.
"""

import math
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from orchestrator.changes import Changes
from orchestrator.cluster_watch import ClusterWatch, Observer
from orchestrator.decide.phases import watched
from orchestrator.errors import NotLeading
from orchestrator.facts.gather import FactGatherer
from orchestrator.housekeeping import Housekeeping
from orchestrator.lease import Leadership, this_process
from orchestrator.notify.teller import Channel, Notices
from orchestrator.operation.automatic_failover import AutomaticFailover
from orchestrator.operation.drive import HEARTS_SECONDS
from orchestrator.operation.scheduler import Scheduler
from orchestrator.traces.writer import Sink, TraceWriter
from state.errors import RowRefused, StaleTerm, StoreError
from state.model.cluster_status import ClusterStatus
from state.model.entities import Phase
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock, SystemClock
from streaming.cluster_log import Logs
from streaming.kafka.link import Links
from streaming.kafka.probed_clusters import probes_on
from streaming.probe.identities import Identities
from streaming.pulse import Pulse

STEP_SECONDS = 0.1
"""How long a look that has ended waits at most until it is judged, while a cluster is in doubt."""
REST_STEP_SECONDS = 0.25
"""How long a request waits at most until it is seen, while every cluster is well, and where nothing wakes the loop."""
GAP_SECONDS = 0.05
"""Between two rounds at least, however often the loop is woken."""
RESUME_SECONDS = 1.0
"""How often open operations are looked for that this controller does not drive: those of a leader that is gone."""
RETRY_SECONDS = 10.0

log = structlog.get_logger()


class VerdictSource(Protocol):
    """What the loop needs of ``orchestrator.cluster_watch.ClusterWatch``."""

    def report(self) -> None: ...

    def give_verdicts(self, term: int) -> Mapping[str, ClusterStatus]:
        """The same mapping again as long as there is nothing new to judge."""


@dataclass(kw_only=True)
class Controller:
    """The loop; ``tick`` is called again and again by one thread."""

    clock: Clock
    lead: Leadership
    cluster_watch: VerdictSource
    automatic_failover: AutomaticFailover
    scheduler: Scheduler
    rest_seconds: float
    """Between verdicts while every cluster is well: the interval of the looks."""
    _leads: bool = False
    _away: str | None = None
    _away_since: float = 0.0
    _hearts_until: float = -math.inf
    """Until then a living runner may look silent: its heartbeats found no store."""
    _next_view: float = 0.0
    _next_resume: float = 0.0
    _believed: Mapping[str, ClusterStatus] = field(default_factory=dict)
    _phases: Mapping[str, Phase] = field(default_factory=dict)
    """By cluster: where queries on it are that no operation moves."""
    _reported: dict[str, str] = field(default_factory=dict)
    _defects: dict[str, str] = field(default_factory=dict)
    """By part of a round, the one that it met last time."""

    def tick(self) -> None:
        """One round; returns soon, and raises nothing that another round may mend."""
        now = self.clock.monotonic()
        try:
            leads = self._is_leading()
            self._wait_for_hearts()
            if leads:
                self._work(now)
            elif now >= self._next_view:
                self._next_view = now + self.rest_seconds
                self.cluster_watch.report()
        except (NotLeading, StaleTerm) as error:
            log.info("another controller leads", error=str(error))  # what was in hand failed on its old term
        except StoreError as error:  # of any kind: the next round tries again, and to end would not help
            self._lost_store(error)
        else:
            self._has_store()

    def step_seconds(self, *, woken: bool) -> float:
        """How soon the next round should begin after this one has; ``woken`` if requests wake the loop."""
        rest = self.rest_seconds if woken else min(REST_STEP_SECONDS, self.rest_seconds)
        return rest if self._is_calm else STEP_SECONDS

    def close(self) -> None:
        """Let the drivers end after their tick, and the next controller lead at once. What was begun stays open."""
        self.scheduler.close()
        try:
            self.lead.give_up()
        except StoreError as error:
            log.warning("the lease could not be released; it expires in seconds", error=str(error))

    def _work(self, now: float) -> None:
        if now >= self._next_view or not self._is_calm:
            with self._apart("watch"):
                self._watch(now)
        if now < self._hearts_until:
            return
        if now >= self._next_resume:
            self._next_resume = now + RESUME_SECONDS
            with self._apart("resume"):
                self.scheduler.resume()  # first: what a former leader has begun takes the room of what is requested
        with self._apart("take"):
            self.scheduler.take()
        with self._apart("report"):
            self._report_failures()

    def _watch(self, now: float) -> None:
        is_due = now >= self._next_view
        self._next_view = now + self.rest_seconds if is_due else self._next_view
        before, self._believed = self._believed, self.cluster_watch.give_verdicts(self.lead.term)
        self._phases = {
            cluster: watched(self._phases.get(cluster, Phase.WATCHING), status.verdict)
            for cluster, status in self._believed.items()
        }
        if is_due or self._believed is not before:
            with self._apart("automatic failover"):  # of its own: most looks at the verdicts judge nothing
                self.automatic_failover.submit(self._believed, term=self.lead.term)

    @contextmanager
    def _apart(self, part: str) -> Iterator[None]:
        """A defect in one part of a round is said once, keeps no other part from its work, and ends no controller.

        The next one would only meet the same row. A row that the store refuses is no store that is away.
        """
        try:
            yield
        except RowRefused as error:
            if self._defects.get(part) != repr(error):
                log.error(  # noqa: TRY400 # no defect of ours
                    "the store refuses one row; the other parts continue, this one is retried",
                    part=part, error=str(error), hint=error.hint,
                )  # fmt: skip
            self._defects[part] = repr(error)
        except (NotLeading, StoreError):
            raise
        except Exception as error:
            if self._defects.get(part) != repr(error):
                log.exception("a bug in Tideover; the other parts continue, this one is retried", part=part)
            self._defects[part] = repr(error)
        else:
            self._defects.pop(part, None)

    def _wait_for_hearts(self) -> None:
        """Begin nothing for a moment where the store was away for longer: it has answered just now."""
        now = self.clock.monotonic()
        if self._away is not None and now - self._away_since >= HEARTS_SECONDS:
            self._hearts_until = now + HEARTS_SECONDS

    @property
    def _is_calm(self) -> bool:
        return all(phase is Phase.WATCHING for phase in self._phases.values())

    def _report_failures(self) -> None:
        """Say of each operation, once, what keeps it from being driven on here; it is tried again."""
        failures = dict(self.scheduler.failures)
        for name, error in failures.items():
            if self._reported.get(name) == str(error):
                continue
            operation = self.scheduler.store.operation(name)
            about = {} if operation is None else {"query": operation.query, "epoch": operation.epoch}
            log.warning("an operation cannot continue", operation=name, error=str(error), hint=error.hint, **about)
        self._reported = {name: str(error) for name, error in failures.items()}

    def _is_leading(self) -> bool:
        leads = self.lead.holds()
        if leads and not self._leads:
            self._next_view = self._next_resume = 0.0
            log.info("leading", term=self.lead.term)
        elif self._leads and not leads:
            log.warning("no longer leading")
        self._leads = leads
        return leads

    def _lost_store(self, why: StoreError) -> None:
        if self._away is None:
            self._away_since = self.clock.monotonic()
            log.error(
                "the store does not answer or refuses: nothing is decided until it is back",
                error=str(why),
                hint=why.hint,
            )
        self._away = str(why)
        self._next_view = self._next_resume = 0.0  # it is back when everything can be done, not when nothing is due

    def _has_store(self) -> None:
        if self._away is not None:
            log.info("the store is back")
        self._away = None


def assemble(
    settings: Tideover,
    *,
    store: ControllerStore,
    clock: Clock,
    lead: Leadership,
    watching: VerdictSource,
    logs: Logs,
    actor: str,
    changes: Changes | None = None,
) -> Controller:
    """The loop with its parts, on whatever store, clock and clusters."""
    gatherer = FactGatherer(store=store, settings=settings, logs=logs, clock=clock)
    return Controller(
        clock=clock,
        lead=lead,
        cluster_watch=watching,
        automatic_failover=AutomaticFailover(store=store, settings=settings, gatherer=gatherer, clock=clock),
        scheduler=Scheduler(
            store=store, settings=settings, logs=logs, clock=clock, lead=lead, actor=actor,
            width=settings.operations.at_once, retry_seconds=RETRY_SECONDS, changes=changes,
        ),
        rest_seconds=settings.detection.interval.total_seconds(),
    )  # fmt: skip


def run_controller(
    settings: Tideover,
    name: str | None,
    *,
    store: ControllerStore,
    stop: threading.Event,
    pulse: Pulse,
    channels: Mapping[str, Channel],
    spans: Sink | None,
) -> int:
    """Control until ``stop`` is set; returns the exit code. ``pulse`` hears of each turn of the loop.

    ``channels`` are the receivers of notices, by the names of ``notify.targets``; ``spans`` takes traces.
    """
    name, instance, clock = name or socket.gethostname(), this_process(), SystemClock()
    actor, identities = f"controller:{name}", Identities(settings)
    identities.learn(store)
    links = Links(settings, identities)
    lead = Leadership(store, clock, instance)
    wakeups = store.wakeups()
    observer = Observer(settings, name=name, instance=instance, eyes=probes_on(settings, identities), open_log=links)
    watching = ClusterWatch(store, settings, observer, identities=identities, actor=actor)
    controller = assemble(
        settings, store=store, clock=clock, lead=lead, watching=watching, logs=links, actor=actor,
        changes=Changes(store, wakeups),
    )  # fmt: skip
    housekeeping = Housekeeping(store, settings, logs=links, term=lambda: _term(lead), actor=actor, clock=clock)
    log.info("controller is up", controller=name, clusters=sorted(settings.clusters), queries=len(settings.queries))
    notices = Notices(store, settings.notify.targets, channels, lambda: _term(lead))
    traces = TraceWriter(store, spans, lambda: _term(lead)) if spans is not None else None
    observer.begin()
    housekeeping.begin()
    notices.begin()
    if traces is not None:
        traces.begin()
    try:
        while not stop.is_set():
            began, woken = time.monotonic(), wakeups.count
            controller.tick()
            pulse.beat(time.monotonic())
            wakeups.wait(woken, max(0.0, controller.step_seconds(woken=wakeups.are_heard) - (time.monotonic() - began)))
            stop.wait(max(0.0, GAP_SECONDS - (time.monotonic() - began)))
    finally:
        if traces is not None:
            traces.close()
        notices.close()  # before the lease is given up: what was sent is written down in this term
        controller.close()
        wakeups.close()
        housekeeping.close()
        observer.close()
        links.close()
    log.info("controller is down", controller=name)
    return 0


def _term(lead: Leadership) -> int | None:
    """The term in which this process leads, if it does. Raises ``StoreError``."""
    try:
        return lead.term
    except NotLeading:
        return None
