"""The store's port: what the processes say to each other through SQL.

A few verbs, each one transaction. Writers that decide pass their *term*: the store refuses a stale one with
``StaleTerm``, in the same transaction as the write. Writers that report pass their *epoch* where it matters. Three
stores fulfil the same contract suite: memory, SQLite and PostgreSQL.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from state.automation import Acknowledgement, Pause
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
from state.sighting import Belief, Sighting
from state.timeline import Stretch
from state.upkeep import Disorder, Pruned, ReadinessFact, Replication


class Store(Protocol):
    """Everything that is kept. Every method may raise ``StoreUnavailable`` (retrying can help)."""

    # -- leading ---------------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        """The store's own clock (database time on PostgreSQL, the host's on SQLite), in UTC."""

    def lead(self, name: str, holder: str, ttl: timedelta) -> Lease | None:
        """Take or renew the lease in one statement; None while somebody else holds it.

        A lease that ends further ahead than any can, for the clock was set back since, holds nobody up.
        The term grows on a change, by chance: no two holders have the same one, even if the store was put back.
        """

    def seize(self, name: str, holder: str, dead_holder: str, ttl: timedelta) -> Lease | None:
        """Take the lease of a holder that is proven dead (same host, process gone) before it expires; else None."""

    def resign(self, lease: Lease) -> None:
        """Give the lease up at once, if it is still ours; it is free then whatever the clock is set to."""

    def leader(self, name: str) -> Lease | None:
        """The lease as it stands, expired or not."""

    # -- requests --------------------------------------------------------------------------------------------------
    def ask(self, request: Request, *, term: int | None = None) -> None:
        """Record a request. The same id twice is one request. A person asks without a term, a leader with its own."""

    def open_requests(self) -> Sequence[Request]:
        """Requests that no operation and no refusal answers yet, oldest first."""

    def request(self, request_id: str) -> Request | None: ...

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

    def reconcile(
        self,
        assignment: Assignment,
        *,
        from_epoch: int | None,
        event: Event,
        operation: Operation | None = None,
        intents: Iterable[Intent] = (),
    ) -> bool:
        """Write what runs over what a store that was put back says of a query: one transaction, without a term.

        The epoch may grow by more than one here, and only here. The query's open operation, which came back with the
        old rows, is closed as ``failed``. ``operation`` is that very one, or one that the store had lost, written down
        with what it asks for, so that it can be undone. False, and nothing written, when the stored epoch is not
        ``from_epoch`` (None: no row), or a runner reports ``assignment.epoch`` or more by now.
        """

    # -- operations ------------------------------------------------------------------------------------------------
    def operation(self, operation_id: str) -> Operation | None: ...

    def operations(
        self, *, group: str | None = None, query: str | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Operation]:
        """Newest first: those of one query by epoch, which grows whatever the clock is set to."""

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
        is left as it is. Closing an operation withdraws what it asked for earlier and nobody did yet. The consents of
        an operation that exists stay as they are, here and in ``place``: only ``consent`` adds to them, so that who
        drives an operation never undoes what an operator typed meanwhile.
        """

    def consent(self, operation_id: str, consents: Iterable[str], *, term: int, event: Event) -> bool:
        """Add to the consents of an open operation and append the event: one transaction. Nothing else is touched.

        False, and nothing written, when the operation is closed or not known, or when a consent is new to one that is
        on its way back (ABORTED). Consents that stand already are not added again; if all of them do, the event is not
        written either.
        """

    def steps(self, operation_id: str) -> Sequence[Step]:
        """In their order."""

    # -- intents ---------------------------------------------------------------------------------------------------
    def intents(self, operation_id: str) -> Sequence[Intent]: ...

    def pending_intents(self, runner: str) -> Sequence[Intent]:
        """What this runner shall do, oldest first."""

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        """A runner's answer (DONE or FAILED) to a PENDING intent; False when it is no longer pending.

        A leader that takes back what it asked a silent runner for does so with its term, and raises ``StaleTerm``.
        """

    # -- facts -----------------------------------------------------------------------------------------------------
    def register(self, fact: RunnerFact) -> RunnerFact | None:
        """Register or refresh a runner. Returns the standing fact of *another* instance instead of writing, however
        long that is silent, else None. ``seen_at`` is stamped with the store's own clock."""

    def unregister(self, runner: str, instance: str) -> None:
        """Free a runner's name, if that instance has it: its own doing, or that of who can prove it gone."""

    def runners(self) -> Sequence[RunnerFact]: ...

    def report_query(self, fact: QueryFact) -> bool:
        """Upsert by query; False, and nothing written, when a fact of a higher epoch stands.

        STARTING is written only for the instance that has the runner's name, and then takes the query over from another
        instance of the same epoch; what else another instance says is late. False in both cases as well.
        """

    def query_facts(self) -> Sequence[QueryFact]: ...

    def save_positions(self, positions: Iterable[Position]) -> None:
        """Bulk upsert by (query, epoch, batch, source, topic, partition); keeps the newest 12 batches of each query.

        The newest are those of the highest epoch: what comes late from an earlier one replaces and displaces nothing.
        A batch id that starts low again under one epoch belongs to a checkpoint that was made anew by hand: the higher
        batches tracked before it are dropped.
        """

    def positions(self, query: str, *, batch: int | None = None) -> Sequence[Position]:
        """Of one batch, or all that are kept; ordered by epoch, batch, source, topic, partition."""

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        """Bulk upsert by (cluster, topic, partition); an older sample never replaces a newer one."""

    def ends(self, cluster: str) -> dict[TopicPartition, EndSample]: ...

    # -- timelines -------------------------------------------------------------------------------------------------
    def save_timeline(self, stretch: Stretch, *, keep: timedelta) -> None:
        """Upsert by (query, epoch, cluster, begin): one transaction; a row that reaches further stays as it is.

        Of the same query, stretches that ended longer ago than ``keep`` go, by the store's own clock, and of the rest
        all but the 10,000 that began last.
        """

    def timeline(self, query: str, *, since: datetime | None = None) -> Sequence[Stretch]:
        """All stretches that reach a time, or all that are kept; ordered by epoch, begin, cluster."""

    def timeline_at(self, query: str, time: datetime) -> Stretch | None:
        """The stretch that tells where the query was: of the highest epoch that had begun by then, the last begun.

        It may have ended before that time: then the query stood where it ended, or nothing was kept. A runner of an
        earlier epoch that went on after a move is not heard. None when nothing is known of that time.
        """

    def prune_timelines(self, before: datetime, *, limit: int, term: int) -> int:
        """Forget stretches of any query that ended before a time in the past, the oldest first; how many."""

    # -- automatic mode --------------------------------------------------------------------------------------------
    def pause(self, pause: Pause, *, event: Event) -> None:
        """Keep automatic mode from one query or from all; replaces the scope's earlier pause."""

    def resume(self, scope: str, *, at: datetime, event: Event) -> Pause | None:
        """End the scope's pause, and return it as it stands now. None, and nothing written, when none is in force."""

    def pauses(self) -> Sequence[Pause]:
        """The newest pause of each scope, those that are over included; ordered by scope."""

    def acknowledge(self, given: Acknowledgement, *, event: Event) -> bool:
        """Record that a person has seen an operation; False, and nothing written, when one has already.

        An operation that is unknown, or of another query, is a ``Conflict``.
        """

    def acknowledgements(self, query: str) -> Sequence[Acknowledgement]:
        """Newest first."""

    # -- watching --------------------------------------------------------------------------------------------------
    def see(self, sightings: Iterable[Sighting]) -> None:
        """Upsert by (cluster, viewpoint), in one transaction; an older sighting never replaces a newer one.

        One that claims to come from the future (a clock was set back since) is replaced by any that comes.
        """

    def sightings(self, cluster: str | None = None) -> Sequence[Sighting]:
        """Of one cluster, or all; ordered by cluster and viewpoint."""

    def believe(self, belief: Belief, *, term: int, event: Event) -> bool:
        """Give a verdict: one transaction. True, and ``event`` appended, when it differs from the one that stands.

        The same verdict again keeps its ``since`` and replaces the rest.
        """

    def beliefs(self) -> Sequence[Belief]:
        """Ordered by cluster."""

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def keep_readiness(
        self, fact: ReadinessFact, *, term: int, event: Event, replication: Replication | None = None
    ) -> bool:
        """Upsert by query: one transaction. True, and ``event`` appended, when the answer is another than before.

        The same answer again keeps its ``since`` and replaces the rest, the sample of replication included.
        """

    def readiness(self) -> Sequence[ReadinessFact]:
        """Ordered by query."""

    def replication(self, query: str) -> Replication | None:
        """The sample that was kept with the query's readiness, if one was. Raises ``Damaged``."""

    def keep_disorder(self, disorder: Disorder, *, term: int) -> None:
        """Upsert by query."""

    def disorder(self, query: str) -> Disorder | None:
        """What was measured last."""

    def prune(self, before: datetime, *, keep: int, limit: int, term: int) -> Pruned:
        """Forget what ended before a time in the past: one transaction, at most ``limit`` rows of each kind.

        An operation goes with its steps, intents and acknowledgement, unless it is open, or an assignment names it, or
        it is among the newest ``keep`` of its query that placed the query, or among the newest ``keep`` that did not.
        A request goes when it was refused or its operation is gone, a line of history when it has no operation or that
        is gone, a sighting, a readiness and a disorder when nobody has renewed them since. Pauses stay: one row a
        scope, and their end must be known.
        """

    # -- history ---------------------------------------------------------------------------------------------------
    def note(self, event: Event, *, term: int | None = None) -> None:
        """Append an event that belongs to no other write. A runner notes without a term, a leader with its own."""

    def history(
        self, *, query: str | None = None, operation: str | None = None, after: int = 0, limit: int = 200
    ) -> Sequence[Event]:
        """Append-only, but for ``prune``; ordered by sequence, the newest ``limit`` of those after ``after``."""

    def close(self) -> None: ...
