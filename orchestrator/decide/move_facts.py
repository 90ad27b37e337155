"""What gates and plans look at."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.decide.buffer import Buffer
from orchestrator.decide.uncommitted_batch import BatchChoice
from state.messages import CheckpointReport, RetainedBatch, UncommittedBatch
from state.model.entities import Assignment, Operation, OperationKind, QueryFact, RunnerFact, TopicPartition
from state.model.maintenance import ReadinessFact
from state.model.pins import Pin, Placement
from state.settings.keys import Policy, Query, Resume, Route
from streaming.cluster_log import TopicFacts
from streaming.resume.model import Resolution, Target
from streaming.resume.truncation import Goto, Standing

CUT_SHORT = "failover"
"""The consent by which a planned move continues as a failover: its source has died since."""


def is_planned(kind: OperationKind, consents: Iterable[str]) -> bool:
    """Whether a move is made while both clusters are alive, and so loses nothing and repeats nothing.

    A drill is not: it rehearses a failover.
    """
    return kind not in {OperationKind.FAILOVER, OperationKind.DRILL} and CUT_SHORT not in consents


PENDING, UNPROVEN = "pending", "none"
"""What is written in place of the proof of a fence: nothing was stopped yet, or nothing proves that it stopped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StandbyAnswer:
    """What the standby answered to one bounded question about its topics."""

    reachable: bool
    seconds: float
    limit_seconds: float
    error: str = ""
    topics: Mapping[str, TopicFacts] | None = None
    stranger: str | None = None
    """The id of another cluster that answered under the name; the standby itself did not, then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replicating:
    """What proves that a route's replicator runs now."""

    proven: bool
    measured: str
    text: str
    """Why it counts as proven, or what is missing; one sentence."""
    todo: str = ""
    """What to do where it is not; empty: to start it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCluster:
    """Who has the name of a cluster, and who answers under it."""

    cluster: str
    configured: str | None
    pin: Pin | None
    seen: Mapping[str, str]
    """By who looked, the id of the cluster that answered."""
    endpoint: str | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    """The names of the other clusters behind the same endpoint, by id."""
    alive_for: frozenset[str] = frozenset()
    """Who saw the cluster itself alive a moment ago."""

    @property
    def expected(self) -> str | None:
        return self.configured or (self.pin.id if self.pin is not None else None)

    def answered_by(self, who: str, seen: str) -> "NamedCluster":
        return replace(self, seen={**self.seen, who: seen})


@dataclass(frozen=True, kw_only=True, slots=True)
class MirrorAnswer:
    """What the replicator says of the copies that a query would read."""

    stopped: tuple[str, ...] = ()
    """Topics that are ordinary ones now."""
    running: Mapping[str, str | None] = field(default_factory=dict)
    """Topics that are not, with the replicator's own word; None where it does not know the topic."""
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of topics that are ordinary ones now, the offset from which on nothing was mirrored, where that is known."""
    error: str = ""
    """Why it says nothing of any topic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reset:
    """Where a query continues in one partition whose log was cut or created again before its position."""

    source: str
    partition: TopicPartition
    offset: int
    """Position up to which it was read."""
    divergence: int | None
    """First offset at which the log is not the one that was read; None where that is not known."""
    goto: Goto | None
    """None: the standby holds what was read, and the query continues behind it."""
    policy: str
    """By which it goes there."""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewind:
    """The time to which a query goes back, and what is known of it."""

    to_time_ms: int
    now_ms: int
    oldest_ms: int | None = None
    """When the oldest batch was planned to which its state can go back; None: unknown, or, once read, there is none."""
    is_read: bool = False
    """Whether a runner has read the checkpoint for it; before, what it reported last must do."""
    batch: RetainedBatch | None = None
    """The batch to which the state goes back."""
    earliest: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    """Of partitions whose log has lost what is wanted: the time of their first record."""

    @property
    def loses_state(self) -> bool:
        """Whether no batch is kept that was planned at or before the time; also where that is only the last report."""
        if self.is_read:
            return self.batch is None
        return self.oldest_ms is not None and self.to_time_ms < self.oldest_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class EventTimes:
    """What is known of the times of a query's records on the cluster that it leaves."""

    stamps: Mapping[str, str] = field(default_factory=dict)
    """By topic its ``message.timestamp.type``, where it is known."""
    latencies: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By topic whose copies the standby stamps itself: by how many milliseconds they are later, in the last samples."""
    ahead: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Of partitions whose newest record was ahead of the clock when it was sampled: by how many milliseconds."""


def to_time_ms_of(parameters: Mapping[str, object]) -> int:
    """The time of a rewind's parameters. Raises ``ValueError``."""
    return round(datetime.fromisoformat(str(parameters.get("to_time"))).timestamp() * 1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveFacts:
    """Everything a gate may judge; None means not known at this point, and then no gate speaks of it."""

    kind: OperationKind
    query: str
    settings: Query
    policy: Policy
    source: str
    target: str
    expect_active: str | None = None
    consents: frozenset[str] = frozenset()
    attended: bool = True
    """A person requested it, and accepts what cannot be known; automatic mode accepts nothing unknown."""
    route: Route | None = None
    assignment: Assignment | None = None
    fact: QueryFact | None = None
    """What a runner last reported of the query, under whatever epoch."""
    stranger: str | None = None
    """An operation that holds the checkpoint in use, as a runner found, and that the store does not know."""
    open_operation: str | None = None
    companions: Mapping[str, str | None] = field(default_factory=dict)
    """The other queries of the same application, which move along: where an open operation takes each; None: none."""
    runners: tuple[RunnerFact, ...] | None = None
    """Eligible runners with a fresh heartbeat."""
    names: tuple[NamedCluster, ...] | None = None
    """Of the cluster that is left, and of the one that the query goes to."""
    standby: StandbyAnswer | None = None
    active: StandbyAnswer | None = None
    """What the cluster that the query leaves answered to the same question; only for planned moves."""
    replicating: Replicating | None = None
    """Whether the replicator from there runs; only for planned moves."""
    against: Replicating | None = None
    """Whether one runs in the other direction, too; checked where both keep the names of topics."""
    mirrors: MirrorAnswer | None = None
    """What the replicator says of the copies; None where it reports nothing, or nothing is moved."""
    topics: Mapping[str, str | None] | None = None
    """Old topic to its name on the standby; None where the route does not name it."""
    report: CheckpointReport | None = None
    stateful: bool | None = None
    resolution: Resolution | None = None
    """Of the end of batch N."""
    planned_resolution: Resolution | None = None
    """Of the end of the planned batch N+1."""
    handed_on: str | None = None
    """The topic whose end moves with the query, and that another query reads on both clusters."""
    written: tuple[Target, ...] | None = None
    """Where the ends of that topic are on the target; None as long as the two were not compared."""
    output_ends: Mapping[int, int] | None = None
    """By partition of that topic, the end of the target's log: what the query writes there lies behind it."""
    begun: Mapping[TopicPartition, tuple[str, int | None]] | None = None
    """Of topics that it reads, the upstream query that moved before it, and that query's ``output_ends``; None: it
    moved, and where it began to write was not known."""
    standings: tuple[Standing, ...] | None = None
    """What became of the query's positions in the cluster that they were read from; None when it is unknown."""
    resets: tuple[Reset, ...] | None = None
    """Of those positions whose log was cut, where they continue; None until the standby was read."""
    buffers: tuple[Buffer, ...] = ()
    """Of each topic, where they are measured."""
    departure: Operation | None = None
    """The last move away from the cluster to which the query goes; None where it never left it."""
    choice: BatchChoice | None = None
    fence: str | None = None
    """The proof that the old run has stopped, ``PENDING`` before anything is stopped, or ``UNPROVEN``."""
    epoch: int | None = None
    operation: str | None = None
    rewind: Rewind | None = None
    """Of a rewind alone."""
    times: EventTimes | None = None
    """Of a query whose plan uses the time of Kafka's records; None where it does not, or the plan is unknown."""
    checked: ReadinessFact | None = None
    """The last check of the query for this target, which read from both clusters; None where there was none."""

    def replaced_at(self, cluster: str) -> datetime | None:
        """When another cluster took this name over; what was known of the name before is not of the one that has it."""
        pins = (each.pin for each in self.names or () if each.cluster == cluster)
        return next((pin.replaced_at for pin in pins if pin is not None), None)

    @property
    def planned(self) -> bool:
        """Whether both clusters are alive and nothing may be lost or read twice; no longer once it is cut short."""
        return is_planned(self.kind, self.consents)

    @property
    def left(self) -> Placement | None:
        """The cluster that the query is on, if another cluster has taken over the name of the one that it reads."""
        if self.assignment is None:
            return None
        pins = [each.pin for each in self.names or () if each.cluster == self.source and each.pin is not None]
        placed = self.assignment.placed_epoch
        return next((found for pin in pins if (found := pin.former_of(self.query, placed)) is not None), None)

    @property
    def fresh(self) -> bool:
        """Whether it begins with a new checkpoint; a rewind also where the operator gives up state that is not kept."""
        gives_up = self.rewind is not None and self.rewind.loses_state and "fresh" in self.consents
        return self.settings.resume is Resume.FRESH or (gives_up and bool(self.stateful))

    @property
    def resume(self) -> Resume:
        """How it continues. What goes back in time, or only rehearses, works on a copy."""
        if self.fresh:
            return Resume.FRESH
        if self.kind in {OperationKind.REWIND, OperationKind.DRILL}:
            return Resume.CARRY
        return self.settings.resume_with(companion=bool(self.runners) and not self.without_companion)

    @property
    def without_companion(self) -> tuple[str, ...]:
        """Runners that are alive and could not continue from a checkpoint that the query keeps."""
        return tuple(fact.runner for fact in self.runners or () if not fact.companion)

    @property
    def companion_missing(self) -> str:
        """Of each of them its name and why its Spark has no companion, where it reports that."""
        return ", ".join(
            f"{fact.runner} ({fact.companion_missing})" if fact.companion_missing else fact.runner
            for fact in self.runners or ()
            if not fact.companion
        )

    @property
    def resumes_at(self) -> Resolution | None:
        """Where the query continues: the end of N, or of N+1 when it was promoted."""
        if self.choice is not None and self.choice.treatment is UncommittedBatch.PROMOTE:
            return self.planned_resolution
        return self.resolution
