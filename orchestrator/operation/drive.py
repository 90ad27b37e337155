"""The loop that drives one operation to its end, be it a move or a drill: read it, take one tick, wait, read it again.

Each tick records what it decides before it acts. So a driver may die after any write; the next one reads the same
rows, decides the same, and continues.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import structlog

from orchestrator.changes import REST_SECONDS, Changes
from orchestrator.errors import UnknownName
from orchestrator.facts.gather import FactGatherer
from orchestrator.lease import Leadership
from state.errors import StoreUnavailable, TideoverError
from state.model.entities import Operation
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs

POLL_SECONDS = 0.025
"""The pause of a tick that found nothing to do. Where ``changes`` are known, one of them ends it."""
STORE_PAUSE_SECONDS = 0.5
HEARTS_SECONDS = 2.5
"""Runners beat once a second: so long after a store that was away is back, each living one has been heard again.
Before, the one that hosts a query may look silent, and another be chosen for no reason."""


class Driver(ABC):
    """Drives one operation; make one for each."""

    def __init__(
        self,
        *,
        store: ControllerStore,
        settings: Tideover,
        logs: Logs,
        clock: Clock,
        lead: Leadership,
        actor: str,
        changes: Changes | None = None,
        alone: Callable[[str], AbstractContextManager[object]] = lambda query: nullcontext(),
    ) -> None:
        """``changes`` report when there is something to look at; without them, each pause is waited out.

        ``alone``: within it no other query of the same application is decided about in this process.
        """
        self._store = store
        self._settings = settings
        self._clock = clock
        self._lead = lead
        self._actor = actor
        self._changes = changes
        self._alone = alone
        self._gatherer = FactGatherer(store=store, settings=settings, logs=logs, clock=clock)

    def drive(self, operation_id: str, *, going_on: Callable[[], bool] = lambda: True) -> Operation:
        """Drive until the operation is closed or ``going_on`` says no; returns it as it is then.

        Raises ``NotLeading`` or ``StaleTerm`` when another process leads: that one continues. A store that is away for
        a while is waited for. What this thread logs from now on names the operation and its epoch, whatever ends it
        included.
        """
        away_since: float | None = None
        while True:
            mark = self._changes.mark(operation_id) if self._changes is not None else None
            try:
                term = self._lead.term
                operation = self._store.operation(operation_id)
                if operation is None:
                    raise UnknownName(f"the store knows no operation {operation_id!r}")
                structlog.contextvars.bind_contextvars(operation=operation.id, epoch=operation.epoch)
                if not operation.is_open or not going_on():
                    return operation
                if away_since is not None and self._clock.monotonic() - away_since >= HEARTS_SECONDS:
                    self._clock.wait(HEARTS_SECONDS)
                away_since = None
                pause = self._tick(operation, term=term)
            except StoreUnavailable:
                if not going_on():
                    raise
                away_since = self._clock.monotonic() if away_since is None else away_since
                pause = STORE_PAUSE_SECONDS
            if pause == POLL_SECONDS and self._changes is not None:
                self._changes.wait(operation_id, mark, REST_SECONDS)
            elif pause:
                self._clock.wait(pause)

    @abstractmethod
    def _tick(self, operation: Operation, *, term: int) -> float:
        """One look, one decision, one record; returns how many seconds to wait before the next.

        ``term`` is that in which the operation was read, for all writes.
        """

    @abstractmethod
    def report_failure(self, operation_id: str, error: TideoverError) -> bool:
        """Write down why an operation cannot be driven on, where list, watch and history show it.

        Returns whether it has another way to go now. Raises ``NotLeading`` and ``StoreError``.
        """
