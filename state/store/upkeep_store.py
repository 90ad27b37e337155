"""The store as its upkeep needs it: what samples say of each query, what grows old, and what is deleted.

Every writer passes its term, as in ``controller_store``.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from state.model.entities import (
    Event,
)
from state.model.maintenance import (
    Disorder,
    FormerCheckpoint,
    PrunedRows,
    ReadinessFact,
    RememberedRows,
    ReplicationSample,
    StandbySample,
)


class UpkeepStore(Protocol):
    """Every method may raise ``StoreUnavailable`` (retrying can help)."""

    def keep_readiness(
        self,
        fact: ReadinessFact,
        *,
        term: int,
        event: Event,
        replication: ReplicationSample | None = None,
        sample: StandbySample | None = None,
    ) -> bool:
        """Upsert by query: one transaction. True, and ``event`` appended, when the answer is another than before.

        The same answer again keeps its ``since`` and replaces the rest, the sample of replication included; ``sample``
        is added to those that are kept.
        """

    def standby_samples(self, query: str, *, since: datetime | None = None) -> Sequence[StandbySample]:
        """Those that are kept, or those of a time and later, the oldest first."""

    def prune_standby_samples(self, before: datetime, *, limit: int, term: int) -> int:
        """Forget samples of before a time in the past, of all queries; how many."""

    def replication(self, query: str) -> ReplicationSample | None:
        """The sample that was kept with the query's readiness, if one was. Raises ``Damaged``."""

    def keep_disorder(self, disorder: Disorder, *, term: int) -> None:
        """Upsert by query."""

    def disorder(self, query: str) -> Disorder | None:
        """What was measured last."""

    def prune(self, before: datetime, *, keep: int, limit: int, term: int) -> PrunedRows:
        """Forget what ended before a time in the past: one transaction, at most ``limit`` rows of each kind.

        An operation goes with its steps, intents, acknowledgement and the document of its evidence. It stays while it
        is open or an assignment names it. So do the newest ``keep`` of each query that placed it, and the newest
        ``keep`` that did not. A request goes when it was refused or its operation is gone. A line of history goes when
        it has no operation or that is gone. A probe report, a readiness, a disorder and a verdict go when they were not
        renewed since. A runner's name goes when, besides, no assignment and no report names it: the process that had it
        may have run that query. A report and positions go when their query has no assignment, the end of a partition
        when no position is in it, a former checkpoint when it was cleaned. Pauses stay: one row a scope, and their end
        must be known.
        """

    def prunable(self, before: datetime, *, keep: int, limit: int) -> PrunedRows:
        """What ``prune`` would take now; changes nothing, and needs no term."""

    def formers(self, query: str | None = None) -> Sequence[FormerCheckpoint]:
        """Checkpoints that queries have left, also those that were cleaned; ordered by query and ``left_epoch``."""

    def request_cleaning(
        self, former: FormerCheckpoint, *, runner: str, epoch: int, event: Event, term: int | None = None
    ) -> bool:
        """Order a runner to clean a checkpoint, whichever runner got the order before: one transaction with the event.

        A person's order has no term. False, and nothing written, unless the query runs under ``epoch``, no operation
        of it is open, and the row is as ``former`` says.
        """

    def remembered(self, query: str) -> RememberedRows:
        """How much is kept of a query."""

    def forget(self, query: str, *, reported_at: datetime | None, event: Event) -> RememberedRows:
        """Delete all of a query but its history, to which the event is appended: one transaction, without a term.

        Of its evidence the documents go; their hashes stay in the chain.

        ``reported_at`` is the time of the report that the caller saw, None for none: another one now is a
        ``Conflict``, as is an open operation, and nothing is written then. Returns what went.
        """

    def prune_timelines(self, before: datetime, *, limit: int, term: int) -> int:
        """Forget stretches of any query that ended before a time in the past, the oldest first; how many."""
