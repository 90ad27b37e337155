"""Seeing requests through: lead and do the work here, or follow whoever leads, and change over when that one is gone.

While this process leads it also takes the requests of others, because they wait for it; of the operations that former
leaders left it finishes those which answer its own requests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.clock import Clock
from orchestrator.desk import Desk, open_operations
from orchestrator.lease import Lead
from orchestrator.places import Logs
from orchestrator.requests import standing_of
from state.errors import StoreError, StoreUnavailable, TideoverError
from state.model import Operation, Request
from state.ports import Store
from state.settings import Tideover

FOLLOW_SECONDS = 0.05


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

    def __post_init__(self) -> None:
        self._until = self.clock.monotonic()
        self._desk = Desk(
            store=self.store,
            settings=self.settings,
            logs=self.logs,
            clock=self.clock,
            lead=self.lead,
            actor=self.actor,
            width=self.settings.operations.at_once,
            going_on=lambda: self.clock.monotonic() < self._until,
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
        try:
            while self.clock.monotonic() < self._until:
                leads = self.lead.stands()
                if leads:
                    self._desk.take()
                self.watch()
                if self._is_through(requests, leads=leads):
                    break
                self.clock.wait(FOLLOW_SECONDS)
        finally:
            self._end()
        self.watch()
        return standing_of(self.store, requests)

    def _is_through(self, requests: Sequence[Request], *, leads: bool) -> bool:
        try:
            standing = standing_of(self.store, requests)
            open_ones = {operation.id for operation in open_operations(self.store)}
        except StoreUnavailable:
            return False
        wanted = [name for request in standing if (name := request.operation) is not None and name in open_ones]
        if self.failures.keys() >= set(wanted) and all(r.operation or r.refused for r in standing):
            return True
        if leads:
            self._desk.drive(wanted)
        return False

    def _end(self) -> None:
        self._desk.close()
        try:
            self.lead.give_up()
        except StoreError:  # it runs out by itself
            return


def outcome_of(store: Store, request: Request) -> Operation | None:
    """The operation that answers a request."""
    return store.operation(request.operation) if request.operation else None
