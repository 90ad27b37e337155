"""The figures behind ``/metrics``: read from the store at each request, and counted since this process began.

What is counted starts at 0 with the process, as Prometheus expects of a counter. An operation is counted when the
history first shows that it is over, whichever controller led it, so every controller counts the same ones. What a move
left behind is often known only once the old cluster answers again; so for a day the last moves are looked at again each
minute.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from orchestrator.decide.desk.status import Status
from orchestrator.facts.measure import LONGEST
from orchestrator.history_tail import HistoryTail
from orchestrator.lease import this_process
from state.errors import Damaged
from state.model.entities import DRILLS, Operation, OperationKind, RunnerFact
from state.model.maintenance import ReplicationSample
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.pulse import Pulse

BUCKETS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Seconds that operations take: a switch takes one to ten, one that waits for a person hours."""
RESULTS = ("done", "refused", "failed")
AGAIN_SECONDS = 60.0
"""How often the last moves are looked at again."""
LOOKED_BACK = 1000
"""How many drills back the last good one of each query is looked for, once."""


class Route(NamedTuple):
    """From one cluster to another."""

    source: str
    target: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What the store said at one moment."""

    status: Status
    is_leading: bool
    """Whether this process leads."""
    clusters_of: Mapping[str, Sequence[str]]
    """By query that is declared."""
    limits: Mapping[str, float]
    """By query: ``policy.max_exposure``, in seconds."""
    replication: Mapping[str, ReplicationSample]
    """By query: the age of its copies, as sampled last."""
    heartbeats: Mapping[Route, datetime | None]
    """By route that has them: when the newest proof was produced; None: none was seen yet."""
    tracked: Mapping[str, int]
    """By query: the newest batch with positions."""
    runners: Sequence[RunnerFact]
    drills: Mapping[str, datetime]
    """By query: when the last drill that succeeded ended."""


@dataclass
class Spread:
    """How long things took."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    """By bucket: those that fell into it; the last one is for all that took longer."""
    seconds: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


@dataclass
class Tally:
    """What ended since the count began."""

    operations: dict[tuple[str, str], float] = field(
        default_factory=lambda: {(kind.value, result): 0.0 for kind in OperationKind for result in RESULTS}
    )
    """By kind and result: every pair from the start, because a series that begins with 1 shows no increase."""
    durations: dict[tuple[str, str], Spread] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    """By query."""
    repeated: dict[str, float] = field(default_factory=dict)
    _counted: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """Operations that are in it, with what was measured of each until now."""

    def count(self, operation: Operation) -> None:
        """Count an operation once it is over, and of one that was counted what has been measured since."""
        if operation.outcome is None:
            return
        if operation.id not in self._counted:
            labels = (operation.kind.value, operation.outcome)
            self.operations[labels] = self.operations.get(labels, 0.0) + 1
            if operation.ended_at is not None:
                seconds = max(0.0, (operation.ended_at - operation.started_at).total_seconds())
                self.durations.setdefault(labels, Spread()).add(seconds)
        lost, repeated = self._counted.get(operation.id, (0.0, 0.0))
        measured = operation.measured.exposure_records or 0, operation.measured.replay_records or 0
        self._counted[operation.id] = max(lost, measured[0]), max(repeated, measured[1])
        while len(self._counted) > LOOKED_BACK:
            self._counted.popitem(last=False)
        if operation.kind not in DRILLS:
            self.lost[operation.query] = self.lost.get(operation.query, 0.0) + max(0.0, measured[0] - lost)
            self.repeated[operation.query] = self.repeated.get(operation.query, 0.0) + max(0.0, measured[1] - repeated)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Everything that one scrape sees."""

    version: str
    turn_age_seconds: float | None
    """Since the loop turned; None: it has not yet."""
    store_answered_at: float
    """Unix time of this host; 0: never."""
    seen: Seen | None
    """None while the store does not answer."""
    tally: Tally


@dataclass(kw_only=True)
class FigureReader:
    """Reads them; for one thread at a time."""

    status: Callable[[], Status]
    store: ControllerStore
    settings: Tideover
    clock: Clock
    pulse: Pulse
    version: str
    _tally: Tally = field(init=False, default_factory=Tally)
    _tail: HistoryTail = field(init=False)
    _is_counting: bool = field(init=False, default=False)
    _answered_at: float = field(init=False, default=0.0)
    _recent: dict[str, datetime] = field(init=False, default_factory=dict)
    """Moves that were counted and may still be measured, with their end."""
    _again_at: float = field(init=False, default=0.0)
    _drills: dict[str, datetime] = field(init=False, default_factory=dict)
    _samples: dict[str, tuple[datetime, ReplicationSample | None]] = field(init=False, default_factory=dict)
    """By query, with the readiness check that it came from."""

    def __post_init__(self) -> None:
        kept = self.settings.retention.history
        self._tail = HistoryTail(
            lambda after, limit: self.store.history(after=after, limit=limit),
            restored=lambda _: None,
            is_kept=lambda event: self.store.now() - event.at < kept,
        )

    def read(self) -> Figures:
        """With what the store says now. Raises ``StoreError``."""
        self._count()
        status = self.status()
        seen = Seen(
            status=status,
            is_leading=status.leader is not None and status.leader.holder == this_process(),
            clusters_of={name: query.clusters for name, query in self.settings.queries.items()},
            limits={name: self.settings.policy_of(name).max_exposure.total_seconds() for name in self.settings.queries},
            replication=self._replication(status),
            heartbeats=self._heartbeats(),
            tracked=self._tracked(status),
            runners=self.store.runners(),
            drills=dict(self._drills),
        )
        self._answered_at = self.clock.now().timestamp()
        return self._figures(seen)

    def without_store(self) -> Figures:
        """What this process knows on its own."""
        return self._figures(None)

    def _figures(self, seen: Seen | None) -> Figures:
        age = self.clock.monotonic() - self.pulse.turned_at
        return Figures(
            version=self.version,
            turn_age_seconds=age if age != float("inf") else None,
            store_answered_at=self._answered_at,
            seen=seen,
            tally=self._tally,
        )

    def _count(self) -> None:
        if not self._is_counting:
            self._tail.begin(1)
            self._is_counting = True
            for drill in self.store.operations(kinds=DRILLS, limit=LOOKED_BACK):
                self._keep_drill(drill)
        touched = {event.operation for event in self._tail.news() if event.operation is not None}
        if self.clock.monotonic() >= self._again_at:
            self._again_at = self.clock.monotonic() + AGAIN_SECONDS
            self._recent = {name: end for name, end in self._recent.items() if self.store.now() - end < LONGEST}
            touched |= self._recent.keys()
        self._look_at(touched)

    def _look_at(self, names: Iterable[str]) -> None:
        for operation in filter(None, map(self.store.operation, sorted(names))):
            self._tally.count(operation)
            self._keep_drill(operation)
            if operation.ended_at is not None and operation.kind not in DRILLS:
                self._recent[operation.id] = operation.ended_at

    def _keep_drill(self, drill: Operation) -> None:
        if drill.kind in DRILLS and drill.outcome == "done" and drill.ended_at is not None:
            self._drills[drill.query] = max(drill.ended_at, self._drills.get(drill.query, drill.ended_at))

    def _replication(self, status: Status) -> dict[str, ReplicationSample]:
        """Read again where the readiness check that it belongs to is another one: it has a row for each partition."""
        known, self._samples = self._samples, {}
        for query in status.queries:
            if query.readiness is None:
                continue
            at = query.readiness.sampled_at
            kept = known.get(query.query)
            self._samples[query.query] = kept if kept is not None and kept[0] == at else (at, self._sample(query.query))
        return {query: sample for query, (_, sample) in self._samples.items() if sample is not None}

    def _sample(self, query: str) -> ReplicationSample | None:
        with suppress(Damaged):  # the next one takes its place
            return self.store.replication(query)
        return None

    def _heartbeats(self) -> dict[Route, datetime | None]:
        """The newest sign of life that any observer saw, by route that names its heartbeats."""
        newest = {(each.cluster, each.viewpoint): each.last_ok_at for each in self.store.probe_reports()}
        return {
            Route(route.source, route.target): newest.get((route.source, f"replicator:{route.source}->{route.target}"))
            for route in self.settings.routes
            if route.heartbeats is not None
        }

    def _tracked(self, status: Status) -> dict[str, int]:
        found = {query.query: self.store.tracked_batch(query.query) for query in status.queries}
        return {query: batch for query, batch in found.items() if batch is not None}
