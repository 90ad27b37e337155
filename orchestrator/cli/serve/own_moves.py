"""Completes the moves of an application that runs now and then, beside its driver, where no controller runs.

A move that is requested between two runs is recorded, and waits for the next start. That start waits for the move. So
where no other process leads then, the attendant does, for as long as such a move is open. What drives a move is loaded
when there is one: most attendants never need it, and there is one beside each driver.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from orchestrator.lease import Leadership, is_led, this_process
from state.errors import StoreError
from state.model.entities import Request
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock, SystemClock
from streaming.cluster_log import Logs

log = structlog.get_logger()
_LOOK_SECONDS = 1.0
_DRIVE_SECONDS = 30.0
"""How long it leads at a time; a move takes a few seconds."""
_AT_MOST = 1_000_000
"""Far more than there can be: a query has one open move at most."""
_GRACE_SECONDS = 3.0
"""How long a move that is under way is driven when the application ends: a run that found nothing to read proves its
move by its end.
"""


@dataclass(kw_only=True)
class OwnMoves:
    """The open moves of some queries."""

    store: ControllerStore
    settings: Tideover
    logs: Logs
    queries: frozenset[str]
    clock: Clock = field(default_factory=SystemClock)
    _over: threading.Event = field(default_factory=threading.Event)
    _until: float = math.inf
    """On the clock's monotonic time, when nothing is driven any more."""

    def keep(self) -> None:
        """Look once a second, until ``close``, and once more then; a store that is away is waited for."""
        while not self._over.wait(_LOOK_SECONDS):
            self._complete()
        self._complete()

    def _complete(self) -> None:
        try:
            requests = self.undriven()
            if requests:
                log.info("no controller runs: completing moves here", queries=[each.query for each in requests])
                self._drive(requests)
        except StoreError:
            return
        except Exception:
            log.exception("a bug in Tideover; the moves stay open, and a controller or a verb completes them")

    def undriven(self) -> Sequence[Request]:
        """The requests of open moves of these queries, where no process leads. Raises ``StoreError``."""
        open_ones = [
            each for each in self.store.operations(only_open=True, limit=_AT_MOST) if each.query in self.queries
        ]
        if not open_ones or is_led(self.store):
            return ()
        found = (self.store.request(each.id) for each in reversed(open_ones))
        return [each for each in found if each is not None]

    def close(self) -> None:
        """Drive what is open for some seconds more, then give the lease up; what is open then stays open."""
        self._until = self.clock.monotonic() + _GRACE_SECONDS
        self._over.set()

    def _drive(self, requests: Sequence[Request]) -> None:
        from orchestrator.operation.wait import RequestWait  # imported when needed, as above

        lead = Leadership(self.store, self.clock, this_process())
        work = RequestWait(
            store=self.store,
            settings=self.settings,
            logs=self.logs,
            clock=self.clock,
            lead=lead,
            actor=f"attendant {this_process()}",
            may_continue=lambda: self.clock.monotonic() < self._until,
        )
        work.see_through(tuple(requests), seconds=_DRIVE_SECONDS)
