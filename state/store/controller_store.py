"""The store as a controller and the command line need it: all that a runner says, and what is decided.

Writers that decide pass their *term*: the store refuses a stale one with ``StaleTerm``, in the same transaction as the
write. SQLite and PostgreSQL fulfil the same contract suite.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from state.model.automation import Acknowledgement, NoticeCursor, Pause, Schedule
from state.model.cluster_status import ClusterStatus, ProbeReport
from state.model.entities import (
    MOVES,
    Assignment,
    Departure,
    EndSample,
    Event,
    Intent,
    Lease,
    Operation,
    OperationKind,
    Position,
    Request,
    Step,
    TopicPartition,
)
from state.model.evidence import Evidence
from state.model.pins import Pin
from state.model.timeline import Stretch
from state.store.runner_store import RunnerStore
from state.store.upkeep_store import UpkeepStore


class ControllerStore(RunnerStore, UpkeepStore, Protocol):
    """Every method may raise ``StoreUnavailable`` (retrying can help)."""

    @property
    def schema(self) -> str:
        """The version of its tables."""

    # -- leading ---------------------------------------------------------------------------------------------------
    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        """Take or renew the lease in one transaction; None while another controller holds it.

        A lease that ends further ahead than any can, for the clock was set back since, holds up no other controller.
        The term grows on a change, by chance: no two holders have the same one, even if the store was restored.
        Raises ``SchemaNewer`` once the store was upgraded under this program: it must decide nothing more.
        """

    def seize(self, name: str, holder: str, dead_holder: str, ttl: timedelta) -> Lease | None:
        """Take the lease of a holder that is proven dead (same host, process gone) before it expires; else None."""

    def resign(self, lease: Lease) -> None:
        """Give the lease up at once, if it is still ours; it is free then whatever the clock is set to."""

    def leader(self, name: str) -> Lease | None:
        """The lease as it is, expired or not."""

    # -- requests --------------------------------------------------------------------------------------------------
    def add_request(self, request: Request, *, term: int | None = None) -> None:
        """Record a request. A person's request has no term, a leader's has its own.

        The same request twice is one; another one under its id is a ``Conflict``.
        """

    def open_requests(self, *, kinds: frozenset[OperationKind] = MOVES) -> Sequence[Request]:
        """Requests that no operation and no refusal answers yet, oldest first; those of drills only where named."""

    def request(self, request_id: str) -> Request | None: ...

    def requests_of(self, group: str) -> Sequence[Request]:
        """All requests of one group, answered or not, in the order in which they were made."""

    def answer(
        self,
        request_id: str,
        *,
        term: int,
        operation: str | None = None,
        refused: str | None = None,
        event: Event | None = None,
    ) -> None:
        """Link a request to its operation, or to the sentence that turned it down; another answer is a ``Conflict``.

        One transaction with the event. The same answer twice is one answer, and one line of history.
        """

    # -- schedules -------------------------------------------------------------------------------------------------
    def add_schedule(self, schedule: Schedule, *, event: Event) -> None:
        """Record what shall be requested later: one transaction with the event, without a term.

        The same schedule twice is one; another one under its id is a ``Conflict``.
        """

    def schedules(self) -> Sequence[Schedule]:
        """Those that are to come, soonest first; then those that are over, the last one first."""

    def fire(
        self,
        schedule: Schedule,
        *,
        next_at: datetime | None,
        outcome: str,
        requested: Sequence[Request],
        event: Event,
        term: int,
    ) -> bool:
        """Write the requests of a schedule that is due, and when it is due next: one transaction with the event.

        False, and nothing written, when it is not due any more at the time that ``schedule`` says: it was cancelled, or
        another leader was faster.
        """

    def cancel_schedule(self, schedule_id: str, *, actor: str, event: Event) -> bool:
        """End a schedule: one transaction with the event, without a term. False, and nothing written, if it is over."""

    # -- assignments -----------------------------------------------------------------------------------------------
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
        written, when the stored epoch is not ``from_epoch``. The checkpoint that is left is kept among ``formers``;
        one that is in use again is not.
        """

    def forget_seen(self, query: str) -> None:
        """A person has accepted its files as they are: what runs reported of its checkpoint before counts no more."""

    def reconcile(
        self,
        assignment: Assignment,
        *,
        from_epoch: int | None,
        event: Event,
        operation: Operation | None = None,
        intents: Iterable[Intent] = (),
    ) -> bool:
        """Write what runs over what a store that was restored says of a query: one transaction, without a term.

        The epoch may grow by more than one here, and only here. The query's open operation, which came back with the
        old rows, is closed as ``failed``. ``operation`` is that very one, or one that the store had lost, written down
        with what it requests, so that it can be undone. False, and nothing written, when the stored epoch is not
        ``from_epoch`` (None: no row), or a runner reports ``assignment.epoch`` or more by now. The checkpoint that is
        left is kept as ``place`` keeps it.
        """

    # -- operations ------------------------------------------------------------------------------------------------
    def operations(
        self,
        *,
        group: str | None = None,
        query: str | None = None,
        only_open: bool = False,
        limit: int = 100,
        kinds: frozenset[OperationKind] = MOVES,
    ) -> Sequence[Operation]:
        """Newest first: those of one query by epoch, which grows whatever the clock is set to.

        Drills are left aside unless ``kinds`` names them: they say nothing of where a query is or was.
        """

    def change_marks(self) -> Mapping[str, Hashable]:
        """By open operation, a value that is another once something came that its driver waits for.

        That is an answer to an intent, a runner's news of its query, a request for that query, or a consent. One
        statement, whatever the number of operations.
        """

    def departures(self) -> Sequence[Departure]:
        """Of each query and cluster, the last move that took it away from there; ordered by query and cluster."""

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
        is left as it is. Closing an operation withdraws its earlier orders that were not done yet. The consents of
        an operation that exists stay as they are, here and in ``place``. Only ``consent`` adds to them, so that who
        drives an operation never undoes what an operator typed in between.
        """

    def consent(self, operation_id: str, consents: Iterable[str], *, term: int, event: Event) -> bool:
        """Add to the consents of an open operation and append the event: one transaction. Nothing else is touched.

        False, and nothing written, when the operation is closed or not known, or when a consent is new to one that is
        rolling back (ABORTED). Consents that stand already are not added again; if all of them do, the event is not
        written either.
        """

    def steps(self, operation_id: str) -> Sequence[Step]:
        """In their order."""

    # -- intents ---------------------------------------------------------------------------------------------------
    def intents(self, operation_id: str) -> Sequence[Intent]: ...

    # -- facts -----------------------------------------------------------------------------------------------------
    def positions(self, query: str, *, batch: int | None = None, rings: bool = True) -> Sequence[Position]:
        """Of one batch, or all that are kept; ordered by epoch, batch, source, topic, partition.

        Without ``rings`` the remembered records are not read, but counted (``state.model.fingerprints.Counted``).
        """

    def tracked_batch(self, query: str) -> int | None:
        """The newest batch of which positions are kept, tracked since the query came to where it is assigned."""

    def ends(self, cluster: str, *, topics: frozenset[str] | None = None) -> dict[TopicPartition, EndSample]:
        """The newest samples of a cluster; only those of some topics, where they are named."""

    # -- timelines -------------------------------------------------------------------------------------------------
    def timeline(self, query: str, *, since: datetime | None = None) -> Sequence[Stretch]:
        """All stretches that reach a time, or all that are kept; ordered by epoch, begin, cluster."""

    def timeline_at(self, query: str, time: datetime) -> Stretch | None:
        """The stretch that holds where the query was: of the highest epoch that had begun by then, the last begun.

        It may have ended before that time: then the query was where it ended, or nothing was kept. What a runner of an
        earlier epoch reports after a move does not count. None when nothing is known of that time.
        """

    # -- automatic mode --------------------------------------------------------------------------------------------
    def pause(self, pause: Pause, *, event: Event) -> None:
        """Keep automatic mode from one query or from all; replaces the scope's earlier pause."""

    def resume(self, scope: str, *, at: datetime, event: Event) -> Pause | None:
        """End the scope's pause, and return it as it is now. None, and nothing written, when none is in force."""

    def pauses(self) -> Sequence[Pause]:
        """The newest pause of each scope, those that are over included; ordered by scope."""

    def acknowledge(self, given: Acknowledgement, *, event: Event) -> bool:
        """Record that a person has seen an operation; False, and nothing written, when one has already.

        An operation that is unknown, or of another query, is a ``Conflict``.
        """

    def acknowledgements(self, query: str) -> Sequence[Acknowledgement]:
        """Newest first."""

    # -- watching --------------------------------------------------------------------------------------------------
    def probe_reports(self, cluster: str | None = None) -> Sequence[ProbeReport]:
        """Of one cluster, or all; ordered by cluster and observer."""

    def record_status(self, status: ClusterStatus, *, term: int, event: Event) -> bool:
        """Give a verdict: one transaction. True, and ``event`` appended, when it differs from the stored one.

        The same verdict again keeps its ``since`` and replaces the rest.
        """

    def cluster_statuses(self) -> Sequence[ClusterStatus]:
        """Ordered by cluster."""

    # -- which cluster has a name -----------------------------------------------------------------------------------
    def replace_pin(self, cluster: str, *, former: str, new: str, event: Event) -> Pin | None:
        """Let another cluster have a name, and remember which queries are left on the former one: one transaction.

        None, and nothing written, unless ``former`` is pinned. ``Conflict`` while an operation to or from it is open.
        """

    # -- history ---------------------------------------------------------------------------------------------------
    def history(
        self,
        *,
        query: str | None = None,
        operation: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        after: int = 0,
        limit: int = 200,
    ) -> Sequence[Event]:
        """Append-only, but for ``prune``; ordered by sequence, the newest ``limit`` of those after ``after``.

        ``since``: only what happened at this time or later.
        """

    def notice_cursors(self) -> Sequence[NoticeCursor]:
        """How much of the history each receiver of notices has got; ordered by target."""

    def keep_notice_cursor(self, cursor: NoticeCursor, *, term: int) -> None:
        """Upsert by target."""

    # -- evidence --------------------------------------------------------------------------------------------------
    def without_evidence(self, *, limit: int) -> Sequence[Operation]:
        """Closed operations of which no evidence was kept, the one that ended first at the front."""

    def keep_evidence(
        self, operation: Operation, facts: Mapping[str, object], *, term: int, actor: str
    ) -> Evidence | None:
        """Add an operation's document to the chain, with its line of history: one transaction.

        ``facts`` is the document but for its place in the chain, which is known here only. None, and nothing written,
        when the operation has its evidence, or is gone.
        """

    def evidence(self, operation_id: str) -> Evidence | None:
        """The link of an operation, also when its document has gone."""

    def evidence_after(self, sequence: int, *, limit: int) -> Sequence[Evidence]:
        """The links behind that one, in their order."""

    def close(self) -> None: ...
