"""What a leader schedules: the requests of all, and the open operations, each driven on a thread of its own.

A verb's process keeps a scheduler until its own requests are through, a controller as long as it runs. An operation
begins by stopping its query, so no more begin than are driven at once: the others wait for a turn, and until then their
queries keep running. A request that waits is only in the store: a leader that dies leaves it to the next.

One operation that fails does not stop the others, and one that waits for a person does not keep them waiting. It no
longer counts once it has had its time. While others queue for a thread, each has one for a while only, then it is the
next one's turn. That costs nothing but time, for whatever an operation has reached is recorded.
"""

import contextlib
import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import structlog

from orchestrator.changes import Changes
from orchestrator.errors import NotLeading
from orchestrator.facts.current import open_drill, open_drills, open_operations
from orchestrator.facts.gather import FactGatherer
from orchestrator.lease import Leadership
from orchestrator.operation.drill_driver import DrillDriver
from orchestrator.operation.drill_requests import AT_ONCE, DrillTaker
from orchestrator.operation.drive import Driver
from orchestrator.operation.execute import Executor
from orchestrator.operation.requests import RequestHandler
from orchestrator.rounds import TimedRound
from state.errors import Conflict, RowRefused, StaleTerm, StoreError, StoreUnavailable, TideoverError
from state.model.entities import DRILLS, EVERY_KIND, MOVES, Operation, Request
from state.settings.keys import Tideover
from state.settings.topics import chains_of
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs

log = structlog.get_logger()
WIDTH = 128
"""Operations driven at once, unless said otherwise."""
TURN_SECONDS = 10.0
"""How long an operation keeps others from beginning, and its thread from those that wait for one; a move takes a few
seconds."""
GIVEN_UP_SECONDS = 1.0
"""When the way back begins of an operation that was given up because it could not be driven on."""
RETRY_AT_MOST = 300.0
"""How long an operation that could not be driven on is left alone at most, unless it is for ever; the pause doubles."""


@dataclass(kw_only=True)
class Scheduler:
    """For one process; its methods are called by one thread, again and again, and return soon."""

    store: ControllerStore
    settings: Tideover
    logs: Logs
    clock: Clock
    lead: Leadership
    actor: str
    width: int = WIDTH
    retry_seconds: float = math.inf
    """When an operation that could not be driven on is tried again."""
    going_on: Callable[[], bool] = lambda: True
    """Called by the drivers between ticks; once it says no, they end and leave their operations open."""
    is_ours: Callable[[Request], bool] = lambda request: True
    """Whether this process may judge a request, and drive its operation, by its own configuration and network."""
    changes: Changes | None = None
    """What drivers wait for; None: each looks for itself, on ``clock``."""
    failures: dict[str, TideoverError] = field(default_factory=dict)
    """By operation: what stopped driving it here; the operation itself stays open."""
    _retry_at: dict[str, float] = field(default_factory=dict)
    _failed: Counter[str] = field(default_factory=Counter)
    """By operation, how often in a row."""
    _begun: dict[str, float] = field(default_factory=dict)
    """By operation, when it first had a thread here."""
    _waiting: set[str] = field(default_factory=set)
    """Requests for which there was no room when they were looked at."""
    _queue: dict[str, None] = field(default_factory=dict)
    _drivers: dict[str, threading.Thread] = field(default_factory=dict)
    _drills: dict[str, threading.Thread] = field(default_factory=dict)
    """By drill: beside all others, so that no move waits for a thread of theirs."""
    _closing: threading.Event = field(default_factory=threading.Event)
    _of_applications: defaultdict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    """By the first query of each application that has several, what one of their drivers holds."""

    @cached_property
    def _upstream(self) -> Mapping[str, Sequence[str]]:
        """By query, those that a planned move takes before it; worked out once, for there may be a hundred queries."""
        return chains_of(self.settings).upstream

    @cached_property
    def _round(self) -> TimedRound:
        return TimedRound(self.clock)

    def take(self) -> None:
        """Answer the requests, oldest first, and drive what becomes of it.

        A lost lease, and a store that is away, end the round: the next one, or the next leader, continues. A request
        that was answered by another in between does not keep the others waiting.
        """
        gatherer = FactGatherer(store=self.store, settings=self.settings, logs=self.logs, clock=self.clock)
        handler = RequestHandler(
            store=self.store, queries=self.settings.queries, upstream=self._upstream, gatherer=gatherer, lead=self.lead,
            is_ours=self.is_ours, companions=self.settings.companions,
        )  # fmt: skip
        try:
            waiting = self.store.open_requests(kinds=EVERY_KIND)
            requests = [request for request in waiting if request.kind in MOVES]
            self._waiting &= {request.id for request in requests}
            has_room, line = True, frozenset[str]()
            for request in self._round.through(requests, key=lambda request: request.id):
                if has_room and not self._has_room():
                    has_room, line = False, self._line(requests)
                if request.id in line and not handler.follows_companion(request):
                    continue
                with contextlib.suppress(RowRefused), self._refusing(handler, request):
                    waited = request.id in self._waiting
                    operation = handler.take(request, has_room=has_room, waited=waited)
                    if operation is not None and self.is_ours(request):
                        self.drive([operation])
                        self._end_drill(request.query)
                    elif operation is None and not has_room:
                        self._waiting.add(request.id)
            self._take_drills([request for request in waiting if request.kind in DRILLS], gatherer)
        except (NotLeading, StaleTerm, StoreUnavailable):
            return
        self.drive(())

    def _end_drill(self, query: str) -> None:
        """Let a drill see that its query moves, whichever process requested it: it ends."""
        drill = open_drill(self.store, query)
        if drill is not None:
            self._rehearse(drill.id)

    def _take_drills(self, requests: Sequence[Request], gatherer: FactGatherer) -> None:
        taker = DrillTaker(
            store=self.store, settings=self.settings, gatherer=gatherer, lead=self.lead, is_ours=self.is_ours
        )
        for request in requests:
            with contextlib.suppress(RowRefused), self._refusing(taker, request):
                drill = taker.take(request, has_room=len(self._drilling()) < AT_ONCE)
                if drill is not None and self.is_ours(request):
                    self._rehearse(drill)

    @contextlib.contextmanager
    def _refusing(self, handler: RequestHandler | DrillTaker, request: Request) -> Iterator[None]:
        """A defect that one request meets turns that one down, and leaves the others alone."""
        try:
            yield
        except (NotLeading, StaleTerm, StoreUnavailable, Conflict):
            raise
        except Exception as error:
            log.exception("a bug in Tideover stopped a request", request=request.id, query=request.query)
            if self.is_ours(request):
                handler.refuse(request, f"{_defect(error)}; nothing was begun")

    def resume(self) -> None:
        """Drive every open operation, the oldest first: also those of former leaders. Raises ``StoreUnavailable``."""
        still_open = [operation.id for operation in open_operations(self.store)]
        self._begun = {name: self._begun[name] for name in still_open if name in self._begun}
        self.drive(still_open)
        for drill in open_drills(self.store):
            self._rehearse(drill.id)

    def see_to(self, operations: Iterable[Operation]) -> None:
        """See that each of these open operations is driven, moves in their order."""
        found = list(operations)
        self.drive(each.id for each in found if each.kind in MOVES)
        for drill in found:
            if drill.kind in DRILLS:
                self._rehearse(drill.id)

    def drive(self, operations: Iterable[str]) -> None:
        """See that each of these has a thread or waits for one, in this order; what failed waits for its retry.

        What has not begun comes first: its query is stopped already.
        """
        at_work, now = self._at_work(), self.clock.monotonic()
        for operation in operations:
            if operation in at_work or now < self._retry_at.get(operation, -math.inf):
                continue
            self._queue.setdefault(operation)
        while self._queue and len(self._at_work()) < self.width and not self._closing.is_set():
            operation = next((name for name in self._queue if name not in self._begun), next(iter(self._queue)))
            del self._queue[operation]
            self._begun.setdefault(operation, now)
            self._begin(operation)

    def _has_room(self) -> bool:
        """Whether one more query may be stopped; operations that have had their time are not waited for."""
        now = self.clock.monotonic()
        counted = [name for name in (*self._at_work(), *self._queue) if not self._is_slow(name, now)]
        return len(counted) < self.width

    def _is_slow(self, operation: str, now: float) -> bool:
        return now - self._begun.get(operation, now) >= TURN_SECONDS

    def _line(self, requests: Sequence[Request]) -> frozenset[str]:
        """Those that are known to wait for room: hundreds may, and need not be looked at in every round."""
        counted, now = Counter(request.query for request in requests), self.store.now()
        known = [request for request in requests if request.id in self._waiting and now < request.expires_at]
        return frozenset(request.id for request in known if counted[request.query] == 1)

    def _at_work(self) -> Collection[str]:
        """Operations that have a thread."""
        self._drivers = {name: thread for name, thread in self._drivers.items() if thread.is_alive()}
        return self._drivers.keys()

    def _drilling(self) -> Collection[str]:
        """Drills that have a thread."""
        self._drills = {name: thread for name, thread in self._drills.items() if thread.is_alive()}
        return self._drills.keys()

    def _rehearse(self, drill: str) -> None:
        """Drive a drill, unless it is being driven or failed a moment ago."""
        is_early = self.clock.monotonic() < self._retry_at.get(drill, -math.inf)
        if drill in self._drilling() or is_early or self._closing.is_set():
            return
        self._drills[drill] = threading.Thread(target=self._drive_drill, args=(drill,), name=f"drive {drill}")
        self._drills[drill].start()

    def _begin(self, operation: str) -> None:
        thread = threading.Thread(target=self._drive, args=(operation,), name=f"drive {operation}")
        self._drivers[operation] = thread
        thread.start()

    def close(self) -> None:
        """Let every driver end after its tick, and wait for that. What was begun stays open."""
        self._closing.set()
        for thread in (*self._drivers.values(), *self._drills.values()):
            thread.join()

    def _drive(self, operation: str) -> None:
        began, executor = self.clock.monotonic(), self._made(Executor, self.changes)
        self._see_through(operation, executor, lambda: self._goes_on() and not self._is_over(operation, began))

    def _drive_drill(self, drill: str) -> None:
        self._see_through(drill, self._made(DrillDriver), self._goes_on)

    def _see_through(self, operation: str, driver: Driver, going_on: Callable[[], bool]) -> None:
        try:
            driver.drive(operation, going_on=going_on)
            self._has_gone_on(operation)
        except (NotLeading, StaleTerm):
            return
        except StoreUnavailable as error:
            if not self._goes_on():
                self._has_failed(operation, error, driver)
        except TideoverError as error:
            self._has_failed(operation, error, driver)
        except Exception as error:
            self._has_failed(operation, TideoverError(_defect(error)), driver)
            raise

    def _made(self, driver: type[Driver], changes: Changes | None = None) -> Driver:
        """A driver for one thread; a drill gets no ``changes``, for it ends by what happens to others' operations."""
        return driver(
            store=self.store,
            settings=self.settings,
            logs=self.logs,
            clock=self.clock,
            lead=self.lead,
            actor=self.actor,
            changes=changes,
            alone=self._alone,
        )

    def _alone(self, query: str) -> contextlib.AbstractContextManager[object]:
        """The queries of one application are decided about one after the other: none may stay once one is committed."""
        others = self.settings.companions(query)
        return self._of_applications[min((query, *others))] if others else contextlib.nullcontext()

    def _goes_on(self) -> bool:
        return self.going_on() and not self._closing.is_set()

    def _is_over(self, operation: str, began: float) -> bool:
        """Whether a thread is left to another: in its time, and at once by who is slow to who has not begun."""
        queue, now = list(self._queue), self.clock.monotonic()
        if self._is_slow(operation, now) and any(name not in self._begun for name in queue):
            return True
        return bool(queue) and now - began >= TURN_SECONDS

    def _has_gone_on(self, operation: str) -> None:
        self.failures.pop(operation, None)  # not before: what fails in the same way again is no news
        self._failed.pop(operation, None)

    def _has_failed(self, operation: str, error: TideoverError, driver: Driver) -> None:
        """Try again later, and seldom in the end; a reader of the operation is to see why it waits."""
        pause = self.retry_seconds * 2 ** min(self._failed[operation], 10)
        if self.retry_seconds < RETRY_AT_MOST:
            pause = min(pause, RETRY_AT_MOST)
        self._failed[operation] += 1
        self._retry_at[operation] = self.clock.monotonic() + pause
        self.failures[operation] = error
        with contextlib.suppress(NotLeading, StoreError):  # the reader of ``failures`` reports it all the same
            if driver.report_failure(operation, error):
                self._failed.pop(operation, None)
                self._retry_at[operation] = self.clock.monotonic() + min(self.retry_seconds, GIVEN_UP_SECONDS)


def _defect(error: Exception) -> str:
    return f"a bug in Tideover: {type(error).__name__}: {error}"
