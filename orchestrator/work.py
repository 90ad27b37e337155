"""Seeing requests through: lead and do the work here, or follow whoever leads, and change over when that one is gone.

Operations of a group run side by side, each on a thread of its own with its own connections; one that fails does not
stop the others. While this process leads it also takes the requests of others, because they wait for it.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orchestrator.clock import Clock
from orchestrator.errors import NotLeading
from orchestrator.execute import Executor
from orchestrator.lease import Lead
from orchestrator.places import Logs, Places
from orchestrator.requests import Taker, standing_of
from state.errors import Conflict, StaleTerm, StoreUnavailable, TideoverError
from state.model import Operation, Request
from state.ports import Store
from state.settings import Tideover

FOLLOW_SECONDS = 0.05
LEAD_AGAIN_SECONDS = 0.5


@dataclass(kw_only=True)
class Work:
    """The requests of one verb, until they are answered and their operations closed, or the time is up."""

    store: Store
    settings: Tideover
    logs: Logs
    clock: Clock
    lead: Lead
    actor: str
    watch: Callable[[], None] = lambda: None
    """Called between looks: the progress lines of a terminal."""
    failures: dict[str, TideoverError] = field(default_factory=dict)
    """By operation: what stopped driving it here; the operation itself stays open."""
    _threads: dict[str, threading.Thread] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def see_through(self, requests: Sequence[Request], *, seconds: float) -> tuple[Request, ...]:
        """Work or follow until every request is refused or its operation closed, at most ``seconds``.

        Returns the requests as they stand. The lease is given up in the end, also when interrupted.
        """
        until = self.clock.monotonic() + seconds
        next_try = 0.0
        try:
            while self.clock.monotonic() < until:
                if self._leads(next_try):
                    self._work_once(until)
                elif self.clock.monotonic() >= next_try:
                    next_try = self.clock.monotonic() + LEAD_AGAIN_SECONDS
                self.watch()
                if self._is_through(requests):
                    break
                self.clock.wait(FOLLOW_SECONDS)
        finally:
            self._end()
        self.watch()
        return standing_of(self.store, requests)

    def _leads(self, next_try: float) -> bool:
        try:
            self.lead.keep()
            return True
        except NotLeading:
            if self.clock.monotonic() < next_try:
                return False
        except StoreUnavailable:
            return False
        try:
            return self.lead.take()
        except StoreUnavailable:
            return False

    def _work_once(self, until: float) -> None:
        """Take what is asked and see that each operation has its thread."""
        places = Places(store=self.store, settings=self.settings, logs=self.logs, clock=self.clock)
        taker = Taker(store=self.store, queries=self.settings.queries, places=places, clock=self.clock, lead=self.lead)
        try:
            for request in self.store.open_requests():
                operation = taker.take(request)
                if operation is not None:
                    self._start(operation, until)
        except (NotLeading, StaleTerm, StoreUnavailable, Conflict):
            return

    def _start(self, operation: str, until: float) -> None:
        standing = self._threads.get(operation)
        if standing is not None and standing.is_alive():
            return
        thread = threading.Thread(target=self._drive, args=(operation, until), name=f"drive {operation}")
        self._threads[operation] = thread
        thread.start()

    def _drive(self, operation: str, until: float) -> None:
        executor = Executor(
            store=self.store,
            settings=self.settings,
            logs=self.logs,
            clock=self.clock,
            lead=self.lead,
            actor=self.actor,
        )
        try:
            executor.drive(operation, going_on=lambda: not self._stop.is_set() and self.clock.monotonic() < until)
        except (NotLeading, StaleTerm):
            return
        except TideoverError as error:
            self.failures[operation] = error

    def _is_through(self, requests: Sequence[Request]) -> bool:
        try:
            standing = standing_of(self.store, requests)
            open_ones = {operation.id for operation in self.store.operations(only_open=True)}
        except StoreUnavailable:
            return False
        wanted = {request.operation for request in standing if request.operation is not None}
        if self.failures.keys() >= (wanted & open_ones) and all(r.operation or r.refused for r in standing):
            return True
        self._resume(wanted & open_ones)
        return False

    def _resume(self, operations: set[str]) -> None:
        """Operations that were taken by a leader that is gone, and are ours to finish now that we lead."""
        try:
            self.lead.keep()
        except (NotLeading, StoreUnavailable):
            return
        for operation in operations - self.failures.keys():
            self._start(operation, self.clock.monotonic() + 3600.0)

    def _end(self) -> None:
        self._stop.set()
        for thread in self._threads.values():
            thread.join()
        try:
            self.lead.give_up()
        except StoreUnavailable:
            return


def outcome_of(store: Store, request: Request) -> Operation | None:
    """The operation that answers a request."""
    return store.operation(request.operation) if request.operation else None
