"""What a leader has on its desk: the requests of all, and the open operations, each driven on a thread of its own.

A verb's process keeps a desk until its own requests are through, a controller as long as it runs. One operation that
fails does not stop the others, and one that waits for a person does not keep them waiting: while others queue for a
thread, each has one for a while only, then it is the next one's turn. That costs nothing but time, for whatever an
operation has reached is recorded.
"""

import contextlib
import math
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from orchestrator.clock import Clock
from orchestrator.errors import NotLeading
from orchestrator.execute import Executor
from orchestrator.lease import Lead
from orchestrator.places import Logs, Places
from orchestrator.requests import Taker
from state.errors import Conflict, StaleTerm, StoreUnavailable, TideoverError
from state.model import Operation
from state.ports import Store
from state.settings import Tideover

WIDTH = 128
"""Operations driven at once, unless said otherwise."""
TURN_SECONDS = 10.0
"""How long an operation keeps its thread while others wait for one; a move takes a few seconds."""


_OPEN_AT_MOST = 1_000_000
"""Far more than there can be: a query has one open operation at most."""


def open_operations(store: Store) -> list[Operation]:
    """Every open operation, the oldest first."""
    return list(reversed(store.operations(only_open=True, limit=_OPEN_AT_MOST)))


@dataclass(kw_only=True)
class Desk:
    """For one process; its methods are called by one thread, again and again, and return soon."""

    store: Store
    settings: Tideover
    logs: Logs
    clock: Clock
    lead: Lead
    actor: str
    width: int = WIDTH
    retry_seconds: float = math.inf
    """When an operation that could not be driven on is tried again."""
    going_on: Callable[[], bool] = lambda: True
    """Asked by the drivers between ticks; once it says no, they end and leave their operations open."""
    failures: dict[str, TideoverError] = field(default_factory=dict)
    """By operation: what stopped driving it here; the operation itself stays open."""
    _failed_at: dict[str, float] = field(default_factory=dict)
    _queue: dict[str, None] = field(default_factory=dict)
    _drivers: dict[str, threading.Thread] = field(default_factory=dict)
    _closing: threading.Event = field(default_factory=threading.Event)

    def take(self) -> None:
        """Answer what is asked, oldest first, and drive what becomes of it.

        A lost lease, and a store that is away, end the round: the next one, or the next leader, goes on. A request that
        was answered by another meanwhile does not keep the others waiting.
        """
        places = Places(store=self.store, settings=self.settings, logs=self.logs, clock=self.clock)
        taker = Taker(store=self.store, queries=self.settings.queries, places=places, lead=self.lead)
        try:
            for request in self.store.open_requests():
                with contextlib.suppress(Conflict):
                    operation = taker.take(request)
                    if operation is not None:
                        self.drive([operation])
        except (NotLeading, StaleTerm, StoreUnavailable):
            return

    def resume(self) -> None:
        """Drive every open operation, the oldest first: also those of former leaders. Raises ``StoreUnavailable``."""
        self.drive(operation.id for operation in open_operations(self.store))

    def drive(self, operations: Iterable[str]) -> None:
        """See that each of these has a thread or waits for one, in this order; what failed waits for its retry."""
        self._drivers = {name: thread for name, thread in self._drivers.items() if thread.is_alive()}
        now = self.clock.monotonic()
        for operation in operations:
            if operation in self._drivers or now - self._failed_at.get(operation, -math.inf) < self.retry_seconds:
                continue
            self._queue.setdefault(operation)
        while self._queue and len(self._drivers) < self.width and not self._closing.is_set():
            operation = next(iter(self._queue))
            del self._queue[operation]
            self.failures.pop(operation, None)
            thread = threading.Thread(target=self._drive, args=(operation,), name=f"drive {operation}")
            self._drivers[operation] = thread
            thread.start()

    def close(self) -> None:
        """Let every driver end after its tick, and wait for that. What was begun stays open."""
        self._closing.set()
        for thread in self._drivers.values():
            thread.join()

    def _drive(self, operation: str) -> None:
        began = self.clock.monotonic()
        executor = Executor(
            store=self.store,
            settings=self.settings,
            logs=self.logs,
            clock=self.clock,
            lead=self.lead,
            actor=self.actor,
        )
        try:
            executor.drive(operation, going_on=lambda: self._goes_on() and not self._is_over(began))
        except (NotLeading, StaleTerm):
            return
        except StoreUnavailable as error:
            if not self._goes_on():
                self._failed(operation, error)
        except TideoverError as error:
            self._failed(operation, error)
        except Exception as error:
            self._failed(operation, TideoverError(f"a defect of Tideover: {type(error).__name__}: {error}"))
            raise

    def _goes_on(self) -> bool:
        return self.going_on() and not self._closing.is_set()

    def _is_over(self, began: float) -> bool:
        return bool(self._queue) and self.clock.monotonic() - began >= TURN_SECONDS

    def _failed(self, operation: str, error: TideoverError) -> None:
        self._failed_at[operation] = self.clock.monotonic()
        self.failures[operation] = error
