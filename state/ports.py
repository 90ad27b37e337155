"""The store's port: what the processes say to each other through SQL.

A few verbs, each one transaction. Writers that decide pass their *term*: the store refuses a stale one with
``StaleTerm``, in the same transaction as the write. Writers that report pass their *epoch* where it matters. Three
stores fulfil the same contract suite: memory, SQLite and PostgreSQL.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from state.model import (
    Assignment,
    EndSample,
    Event,
    Intent,
    Lease,
    Operation,
    Position,
    QueryFact,
    Request,
    RunnerFact,
    Step,
    TopicPartition,
)


class Store(Protocol):
    """Everything that is kept. Every method may raise ``StoreUnavailable`` (retrying can help)."""

    # -- leading ---------------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        """The store's own clock (database time on PostgreSQL, the host's on SQLite), in UTC."""

    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        """Take or renew the lease in one statement; None while somebody else holds it. The term grows on a change."""

    def seize(self, name: str, holder: str, dead_holder: str, ttl: timedelta) -> Lease | None:
        """Take the lease of a holder that is proven dead (same host, process gone) before it expires; else None."""

    def resign(self, lease: Lease) -> None:
        """Give the lease up at once, if it is still ours."""

    def leader(self, name: str) -> Lease | None:
        """The lease as it stands, expired or not."""

    # -- requests --------------------------------------------------------------------------------------------------
    def ask(self, request: Request) -> None:
        """Record a request. The same id twice is one request."""

    def open_requests(self) -> Sequence[Request]:
        """Requests that no operation and no refusal answers yet, oldest first."""

    def request(self, request_id: str) -> Request | None: ...

    def answer(self, request_id: str, *, term: int, operation: str | None = None, refused: str | None = None) -> None:
        """Link a request to its operation, or to the sentence that turned it down; another answer is a ``Conflict``."""

    # -- assignments -----------------------------------------------------------------------------------------------
    def assignments(self) -> Sequence[Assignment]: ...

    def assignment(self, query: str) -> Assignment | None: ...

    def adopt(self, assignment: Assignment) -> Assignment:
        """A runner's first assignment of a query: inserted if there is none; returns the row that stands (epoch 1)."""

    def hold(self, operation: Operation, *, from_epoch: int, term: int, step: Step, event: Event) -> Assignment | None:
        """Open an operation and take epoch ``from_epoch + 1`` for its query, HELD: one transaction.

        None when the assignment has moved on (its epoch is not ``from_epoch``) or another operation of the query is
        open; then nothing is written.
        """

    def place(
        self,
        assignment: Assignment,
        *,
        operation: Operation,
        from_epoch: int,
        term: int,
        steps: Iterable[Step],
        event: Event,
    ) -> bool:
        """The point of no return, and the way back: write assignment, operation, steps and event in one transaction.

        ``assignment.epoch`` must be ``from_epoch`` (commit) or ``from_epoch + 1`` (abort). False, and nothing
        written, when the stored epoch is not ``from_epoch``.
        """

    # -- operations ------------------------------------------------------------------------------------------------
    def operation(self, operation_id: str) -> Operation | None: ...

    def operations(
        self, *, group: str | None = None, query: str | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Operation]:
        """Newest first."""

    def record(
        self,
        operation: Operation,
        *,
        term: int,
        steps: Iterable[Step] = (),
        events: Iterable[Event] = (),
        intents: Iterable[Intent] = (),
    ) -> None:
        """Write an operation's new phase together with its steps, events and new intents: one transaction.

        A closed operation (outcome set) is never opened again: ``StaleTerm`` is not the only guard, the store raises
        ``Conflict``. A step is upserted by ``(operation, sequence)``; an intent that exists by ``(operation, name)``
        is left as it is. Closing an operation withdraws what it asked for earlier and nobody did yet.
        """

    def steps(self, operation_id: str) -> Sequence[Step]:
        """In their order."""

    # -- intents ---------------------------------------------------------------------------------------------------
    def intents(self, operation_id: str) -> Sequence[Intent]: ...

    def pending_intents(self, runner: str) -> Sequence[Intent]:
        """What this runner shall do, oldest first."""

    def report(self, intent: Intent) -> bool:
        """A runner's answer (DONE or FAILED) to a PENDING intent; False when it is no longer pending."""

    # -- facts -----------------------------------------------------------------------------------------------------
    def register(self, fact: RunnerFact, *, stale_after: timedelta) -> RunnerFact | None:
        """Register or refresh a runner. Returns the standing fact of *another* live instance (seen within
        ``stale_after``) instead of writing, else None. ``seen_at`` is stamped with the store's own clock."""

    def unregister(self, runner: str, instance: str) -> None: ...

    def runners(self) -> Sequence[RunnerFact]: ...

    def report_query(self, fact: QueryFact) -> bool:
        """Upsert by query; False when a fact of a higher epoch stands."""

    def query_facts(self) -> Sequence[QueryFact]: ...

    def save_positions(self, positions: Iterable[Position]) -> None:
        """Bulk upsert by (query, source, topic, partition, batch); keeps the newest 12 batches of each query.

        A batch id that starts low again belongs to a new checkpoint: the higher batches tracked before it are dropped.
        """

    def positions(self, query: str, *, batch: int | None = None) -> Sequence[Position]:
        """Of one batch, or all that are kept; ordered by batch, source, topic, partition."""

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        """Bulk upsert by (cluster, topic, partition); an older sample never replaces a newer one."""

    def ends(self, cluster: str) -> dict[TopicPartition, EndSample]: ...

    # -- history ---------------------------------------------------------------------------------------------------
    def note(self, event: Event) -> None:
        """Append an event that belongs to no other write."""

    def history(
        self, *, query: str | None = None, operation: str | None = None, after: int = 0, limit: int = 200
    ) -> Sequence[Event]:
        """Append-only; ordered by sequence, the newest ``limit`` of those after ``after``."""

    def close(self) -> None: ...
