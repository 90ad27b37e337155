"""Seeing requests through: lead and do the work here, or follow the leading controller, and change over when that one
is gone.

While this process leads, it judges its own requests and drives their operations. Those of others it lets join what is
open, which the store alone decides; for the rest its configuration and its network may be the wrong ones. So where
others wait, it leads for a while only and lets them have a turn: whatever it has reached is recorded.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from orchestrator.changes import Changes
from orchestrator.decide.operation.snapshot import awaits_start
from orchestrator.errors import NotLeading
from orchestrator.facts.current import alive_runners, open_drills, open_operations
from orchestrator.facts.evidence.keeping import MEASURED_WITHIN, keep_evidence_of
from orchestrator.lease import Leadership
from orchestrator.new_requests import standing_of
from orchestrator.operation.scheduler import Scheduler
from state.errors import StoreError, StoreUnavailable, TideoverError
from state.model.entities import DRILLS, EVERY_KIND, MOVES, Operation, OperationKind, Request
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs

log = structlog.get_logger()
FOLLOW_SECONDS = 0.05
EVIDENCE_SECONDS = 2.0
"""Between two looks for members of a group that have ended and have no evidence yet."""
_GRACE_SECONDS = 10.0
LEADS_SECONDS = 10.0
"""How long it leads at a time where others wait for something that only they can do; a move takes a few seconds."""
YIELDS_SECONDS = 2.0
"""How long it leaves the lead to them then; a process that waits tries to get it twice a second."""


@dataclass(kw_only=True)
class RequestWait:
    """The requests of one verb, until they are answered and their operations closed, or the time is up."""

    store: ControllerStore
    settings: Tideover
    logs: Logs
    clock: Clock
    lead: Leadership
    actor: str
    changes: Changes | None = None
    """What the drivers of operations wait for, on the machine's own clock; None: each looks for itself."""
    watch: Callable[[], None] = lambda: None
    """Called between looks: the progress lines of a terminal."""
    may_continue: Callable[[], bool] = lambda: True
    """Queried between looks: once it says no, nothing more is driven or waited for."""

    def __post_init__(self) -> None:
        self._until = self._leads_since = self.clock.monotonic()
        self._yields_until = -math.inf
        self._own: frozenset[str] = frozenset()
        self._rehearses = False
        """It leads for drills only, and no move waits for those."""
        self._desk = Scheduler(
            store=self.store,
            settings=self.settings,
            logs=self.logs,
            clock=self.clock,
            lead=self.lead,
            actor=self.actor,
            width=self.settings.operations.at_once,
            going_on=self._is_time_left,
            is_ours=lambda request: request.id in self._own,
            changes=self.changes,
        )

    @property
    def failures(self) -> dict[str, TideoverError]:
        """By operation: what stopped driving it here; the operation itself stays open."""
        return self._desk.failures

    def see_through(self, requests: Sequence[Request], *, seconds: float) -> tuple[Request, ...]:
        """Work or follow until every request is refused or its operation closed, at most ``seconds``.

        Returns the requests as they stand. The lease is given up in the end, also when interrupted.
        """
        self._until = self.clock.monotonic() + seconds
        self._own = frozenset(request.id for request in requests)
        self._rehearses = all(request.kind in DRILLS for request in requests)
        try:
            with self._keeping_evidence(requests):
                while self._is_time_left():
                    leads = self._leads()
                    if leads:
                        self._desk.take()
                    self.watch()
                    if self._is_through(requests, leads=leads):
                        break
                    self.clock.wait(FOLLOW_SECONDS)
            self._keep_evidence(requests, set(), patience=timedelta(0))
        finally:
            self._end()
        self.watch()
        return standing_of(self.store, requests)

    def _is_time_left(self) -> bool:
        return self.may_continue() and self.clock.monotonic() < self._until

    def _leads(self) -> bool:
        """Whether this process leads now. It gives the lead up for a moment where others wait."""
        now = self.clock.monotonic()
        if now < self._yields_until:
            return False
        led = self.lead.is_held
        if not self.lead.holds():
            return False
        if not led:
            self._leads_since = now
        if self._rehearses:
            is_wanted = self._others_wait(MOVES)
        else:
            is_wanted = now - self._leads_since >= LEADS_SECONDS and self._others_wait(EVERY_KIND)
        if not is_wanted:
            return True
        self._yields_until = now + YIELDS_SECONDS
        with contextlib.suppress(StoreError):  # it expires
            self.lead.give_up()
        return False

    def _others_wait(self, kinds: frozenset[OperationKind]) -> bool:
        """Whether another process's request, or an operation that answers one, needs its own process to lead."""
        try:
            if any(request.id not in self._own for request in self.store.open_requests(kinds=kinds)):
                return True
            ours = {request.operation for request in map(self.store.request, self._own) if request is not None}
            return any(operation.id not in ours for operation in open_operations(self.store))
        except StoreUnavailable:
            return False

    def _is_through(self, requests: Sequence[Request], *, leads: bool) -> bool:
        try:
            standing = standing_of(self.store, requests)
            under_way = [each for each in open_operations(self.store) if not self._is_left_waiting(each)]
            open_ones = {each.id: each for each in (*under_way, *open_drills(self.store))}
        except StoreUnavailable:
            return False
        wanted = [name for request in standing if (name := request.operation) is not None and name in open_ones]
        if self.failures.keys() >= set(wanted) and all(r.operation or r.refused for r in standing):
            return True
        if leads:
            self._desk.see_to(open_ones[name] for name in wanted)
        return False

    def _is_left_waiting(self, operation: Operation) -> bool:
        """Whether nothing can be done for it before an application is started, which drives it then itself."""
        query = self.settings.queries.get(operation.query)
        return (
            query is not None
            and awaits_start(operation)
            and not any(fact.runner in query.runners for fact in alive_runners(self.store))
        )

    @contextlib.contextmanager
    def _keeping_evidence(self, requests: Sequence[Request]) -> Iterator[None]:
        """Of a group, leave the evidence of each member soon after its end, and not when the slowest has ended.

        On a thread of its own: the logs that it reads may be slow, and no move waits for them.
        """
        over, silent = threading.Event(), set[str]()

        def keep() -> None:
            while not over.wait(EVIDENCE_SECONDS):
                self._keep_evidence(requests, silent, patience=MEASURED_WITHIN)

        thread = threading.Thread(target=keep, name="evidence", daemon=True)
        if len(requests) > 1:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.is_alive():
                thread.join(_GRACE_SECONDS)

    def _keep_evidence(self, requests: Sequence[Request], silent: set[str], *, patience: timedelta) -> None:
        """Leave the evidence of what closed here, if this process leads; what fails is left to the next leader."""
        try:
            for request in standing_of(self.store, requests) if self.lead.is_held else ():
                operation = outcome_of(self.store, request)
                if operation is not None and not operation.is_open and self.store.evidence(operation.id) is None:
                    keep_evidence_of(
                        operation, self.store, self.logs, term=lambda: self.lead.term, actor=self.actor, silent=silent,
                        patience=patience,
                    )  # fmt: skip
        except (StoreError, NotLeading):
            return
        except Exception:
            log.exception("a bug in Tideover; the operations have ended, their evidence is left to the next leader")

    def _end(self) -> None:
        self._desk.close()
        try:
            self.lead.give_up()
        except StoreError:  # it expires
            return


Answered = tuple[Request, Operation | None]
"""A request, and the operation that it became; None where it became none."""


def answers_to(store: RunnerStore, requests: Sequence[Request]) -> list[Answered]:
    """Each of these requests with its operation. Raises ``StoreError``."""
    return [(request, outcome_of(store, request)) for request in requests]


def outcome_of(store: RunnerStore, request: Request) -> Operation | None:
    """The operation that answers a request."""
    return store.operation(request.operation) if request.operation else None
