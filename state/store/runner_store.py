"""The store as a runner needs it: what it is to run and to do, and what it reports.

A few verbs, each one transaction. What a runner writes is of its epoch, and late where the store has a higher one.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from state.model.cluster_status import ProbeReport
from state.model.entities import Assignment, EndSample, Event, Intent, Operation, Position, QueryFact, RunnerFact
from state.model.found_places import FoundPlace
from state.model.maintenance import CleanedFiles, FormerCheckpoint, ReadinessFact
from state.model.pins import Pin
from state.model.timeline import Stretch
from state.store.wakeups import Wakeups


class RunnerStore(Protocol):
    """Every method may raise ``StoreUnavailable`` (retrying can help)."""

    # -- leading ---------------------------------------------------------------------------------------------------
    def now(self) -> datetime:
        """The store's own clock (database time on PostgreSQL, the host's on SQLite), in UTC."""

    def wakeups(self) -> Wakeups:
        """What wakes this process at another one's writes; the caller closes it, before the store."""

    # -- assignments -----------------------------------------------------------------------------------------------
    def assignments(self) -> Sequence[Assignment]: ...

    def assignment(self, query: str) -> Assignment | None: ...

    def adopt(self, assignment: Assignment) -> Assignment:
        """A runner's first assignment of a query: inserted if there is none; returns the stored row (epoch 1)."""

    # -- operations ------------------------------------------------------------------------------------------------
    def operation(self, operation_id: str) -> Operation | None: ...

    # -- intents ---------------------------------------------------------------------------------------------------
    def pending_intents(self, runner: str) -> Sequence[Intent]:
        """What this runner shall do, oldest first."""

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        """A runner's answer (DONE or FAILED) to a PENDING intent; False when it is no longer pending.

        The same answer twice is one: the runner may not have heard that the first was stored.

        A leader takes back an order to a silent runner with its term, and raises ``StaleTerm``.
        """

    # -- facts -----------------------------------------------------------------------------------------------------
    def register(self, fact: RunnerFact) -> RunnerFact | None:
        """Register or refresh a runner. Returns the standing fact of *another* instance instead of writing, however
        long that is silent, else None. ``seen_at`` is stamped with the store's own clock."""

    def unregister(self, runner: str, instance: str) -> None:
        """Free a runner's name, if that instance has it: its own doing, or that of who can prove it gone."""

    def runners(self) -> Sequence[RunnerFact]: ...

    def report_query(self, fact: QueryFact) -> bool:
        """Upsert by query; False, and nothing written, when a fact of a higher epoch is stored.

        STARTING is written only for the instance that has the runner's name, and then takes the query over from another
        instance of the same epoch. What else another instance says is late. False in both cases as well. But where the
        query's fact is of a former instance of that runner, what the one with the name says counts: the store was
        restored from before it began.
        """

    def query_facts(self, *, query: str | None = None) -> Sequence[QueryFact]:
        """Ordered by query; only that of one, where it is named."""

    def readiness(self, *, query: str | None = None) -> Sequence[ReadinessFact]:
        """Ordered by query; only that of one, where it is named."""

    def report_place(self, found: FoundPlace) -> None:
        """Upsert by query."""

    def found_place(self, query: str) -> FoundPlace | None:
        """The newest report of a runner that read where a query is; None where none had to."""

    def keep_mapping(self, query: str, name: str, content: str) -> None:
        """The content of a mapping beside a checkpoint, by the name of its file; one that is kept stays as it is."""

    def mappings(self, query: str) -> Mapping[str, str]:
        """By name, every mapping that is kept of a query."""

    def save_positions(self, positions: Iterable[Position]) -> None:
        """Bulk upsert by (query, epoch, batch, source, topic, partition); keeps the newest 12 batches of each query.

        One transaction: a batch is there with all of its partitions, or not at all.

        The newest are those of the highest epoch: what comes late from an earlier one replaces and displaces nothing.
        A batch id that starts low again under one epoch belongs to a checkpoint that was recreated by hand: the higher
        batches tracked before it are dropped.
        """

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        """Bulk upsert by (cluster, topic, partition); an older sample never replaces a newer one.

        Several transactions: each sample is of one partition and says nothing of the others.
        """

    # -- timelines -------------------------------------------------------------------------------------------------
    def save_timeline(self, stretch: Stretch, *, keep: timedelta) -> None:
        """Upsert by (query, epoch, cluster, begin): one transaction; a row that reaches further stays as it is.

        Of the same query, stretches that ended longer ago than ``keep`` go, by the store's own clock, and of the rest
        all but the 10,000 that began last.
        """

    # -- watching --------------------------------------------------------------------------------------------------
    def save_probe_reports(self, seen: Iterable[ProbeReport]) -> None:
        """Upsert by (cluster, observer), in one transaction; an older probe report never replaces a newer one.

        One that claims to come from the future (a clock was set back since) is replaced by any that comes.
        """

    # -- which cluster has a name -----------------------------------------------------------------------------------
    def pin(self, pin: Pin, *, event: Event) -> Pin:
        """Pin the first id that is seen under a name, with the event; one that is pinned stays. Returns the stored pin.
        One transaction, without a term: the first process that sees a cluster reports it, a runner as well.
        """

    def pins(self) -> Sequence[Pin]:
        """Ordered by cluster."""

    # -- upkeep ----------------------------------------------------------------------------------------------------
    def to_clean(self, runner: str) -> Sequence[FormerCheckpoint]:
        """What this runner shall clean, oldest order first."""

    def report_cleaned(self, former: FormerCheckpoint, outcome: CleanedFiles | str, *, event: Event) -> bool:
        """A runner's answer: what went, or the sentence why it did not; one transaction with the event.

        False, and nothing written, unless the row still has the order that ``former`` has.
        """

    # -- history ---------------------------------------------------------------------------------------------------
    def note(self, event: Event, *, term: int | None = None) -> None:
        """Append an event that belongs to no other write. A runner notes without a term, a leader with its own."""
