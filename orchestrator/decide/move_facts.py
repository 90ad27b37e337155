"""What gates and plans look at, and what becomes of the batch in flight."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.decide.buffer import Buffer
from state.messages import CheckpointReport, Offsets, Planned, RetainedBatch, SinkState, UncommittedBatch
from state.model.entities import Assignment, Operation, OperationKind, QueryFact, RunnerFact, TopicPartition
from state.model.pins import Pin, Placement
from state.settings.keys import Policy, Query, Resume, Route, Sink
from streaming.cluster_log import TopicFacts
from streaming.resume.model import Resolution, Target
from streaming.resume.truncation import Goto, Standing

Key = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchChoice:
    """The treatment, and how many records it may hand to the sink a second time."""

    treatment: UncommittedBatch
    repeats: int | None
    """0 when proven to be none; None when it cannot be told."""
    text: str


_NOTHING_IN_FLIGHT = BatchChoice(treatment=UncommittedBatch.NONE, repeats=0, text="no batch was in flight")


def choose_treatment(
    report: CheckpointReport,
    resolution: Resolution,
    planned_resolution: Resolution | None,
    sink: Sink,
    *,
    keeps_query_id: bool = False,
) -> BatchChoice:
    """First that holds: nothing planned, replan, promote, bridge.

    A batch planned again over the same records ends right in a sink that overwrites or drops what it has already. One
    that appends keeps both: there promoting goes first, and else the batch's records are the possible repeat.
    ``keeps_query_id``: the query goes on from the same checkpoint, so that a sink which knows batches knows this one.

    A batch whose run is held in the middle of it goes on there, and any sink gets it once, if its records lie one for
    one in both logs. Else that run cannot go on (``Shift.java``).
    """
    planned = report.planned
    if planned is None:
        return _NOTHING_IN_FLIGHT
    appends = _appends(report, sink, keeps_query_id=keeps_query_id)
    repeats = 0 if planned.sink is SinkState.HAS_NOT else _records_between(report.offsets, planned)
    promoted = planned.sink is SinkState.HAS and not report.stateful
    promoted = promoted and planned_resolution is not None and planned_resolution.is_complete
    if planned.held and _same_records(resolution, planned_resolution, one_for_one=True):
        return BatchChoice(
            treatment=UncommittedBatch.REPLAN,
            repeats=0,
            text=f"batch {planned.batch} goes on in its run, with the next record that each task comes to",
        )
    if _same_records(resolution, planned_resolution) and not (appends and promoted):
        return BatchChoice(
            treatment=UncommittedBatch.REPLAN,
            repeats=repeats if appends else 0,
            text=f"batch {planned.batch} runs again over the same records on the standby"
            + _of_sink(report, sink, keeps_query_id=keeps_query_id),
        )
    if promoted:
        return BatchChoice(
            treatment=UncommittedBatch.PROMOTE,
            repeats=0,
            text=f"the sink already has batch {planned.batch}: it counts as read",
        )
    text = f"batch {planned.batch} is replaced by an empty batch, so that its id is never used for other records"
    text += _of_sink(report, sink, keeps_query_id=keeps_query_id)
    return BatchChoice(treatment=UncommittedBatch.BRIDGE, repeats=repeats, text=text)


def _appends(report: CheckpointReport, sink: Sink, *, keeps_query_id: bool) -> bool:
    """Whether a batch that runs a second time stays in the sink twice.

    Delta's and Iceberg's own sinks know a batch by query id and batch id. A carried checkpoint has a new query id, so
    for them no batch is one that they have (Spark's migration guide for 4.2; SPARK-55058).
    """
    if sink is Sink.BATCH_ID:
        return report.sink_by_query_id and not keeps_query_id
    return sink is Sink.APPEND and not report.sink_keeps_batch_ids


def _of_sink(report: CheckpointReport, sink: Sink, *, keeps_query_id: bool) -> str:
    if sink is Sink.BATCH_ID and report.sink_by_query_id and not keeps_query_id:
        return (
            "; its sink knows batches by query id and batch id, and the query id changes, so it may "
            "write that batch twice"
        )
    return ""


def choose_fresh(report: CheckpointReport) -> BatchChoice:
    """A fresh start reads the planned batch again, and the sink gets it twice if it has it already."""
    planned = report.planned
    if planned is None or planned.sink is SinkState.HAS_NOT:
        return BatchChoice(treatment=UncommittedBatch.NONE, repeats=0, text="a fresh start begins with new batch ids")
    text = f"a fresh start reads batch {planned.batch} again; the sink may already have it"
    return BatchChoice(treatment=UncommittedBatch.NONE, repeats=_records_between(report.offsets, planned), text=text)


def choose_rewound(facts: "MoveFacts", report: CheckpointReport) -> BatchChoice:
    """Going back takes nothing from the batch in flight: its records are read again, and its id gets no others.

    With state its id comes again with all that are after the retained batch, which is what ``sink-takes-batches`` says.
    """
    if facts.fresh or report.planned is None:
        return choose_fresh(report) if facts.fresh else _NOTHING_IN_FLIGHT
    planned = report.planned
    repeats = 0 if planned.sink is SinkState.HAS_NOT else _records_between(report.offsets, planned)
    if facts.stateful:
        text = f"batch {planned.batch} is left behind with the others after the batch that the state goes back to"
        return BatchChoice(treatment=UncommittedBatch.NONE, repeats=repeats, text=text)
    text = f"batch {planned.batch} is replaced by an empty batch, and its records are read again"
    return BatchChoice(treatment=UncommittedBatch.BRIDGE, repeats=repeats, text=text)


def _by_key(targets: Iterable[Target]) -> dict[Key, Target]:
    return {(target.source, target.topic, target.partition): target for target in targets}


def _same_records(first: Resolution, second: Resolution | None, *, one_for_one: bool = False) -> bool:
    """Whether both ends of the batch are proven and nothing was sent again between them.

    Order is kept, so between two exact places lie the same records; a replicator's re-sent copies would make the
    standby's range longer than the old one. Transaction markers and compaction may make it shorter, which
    ``one_for_one`` rules out.
    """
    starts, ends = _by_key(first.targets), _by_key(second.targets if second is not None else ())
    if not ends or set(starts) != set(ends):
        return False
    for key, end in ends.items():
        start = starts[key]
        if not (start.is_proven and end.is_proven) or start.target_offset is None or end.target_offset is None:
            return False
        if start.target_partition != end.target_partition or start.target_topic != end.target_topic:
            return False
        span = end.offset - start.offset
        if not (span if one_for_one else 0) <= end.target_offset - start.target_offset <= span:
            return False
        if end.offset > start.offset and end.target_offset == start.target_offset:
            return False
    return True


def _records_between(offsets: Offsets, planned: Planned) -> int | None:
    """Upper bound of the records of the planned batch: offsets between its ends. None where other sources were read."""
    if planned.others_read:
        return None
    total = 0
    for source, topics in planned.offsets.items():
        for topic, partitions in topics.items():
            for partition, end in partitions.items():
                start = offsets.get(source, {}).get(topic, {}).get(partition)
                if start is None:
                    return None
                total += max(0, end - start)
    return total


CUT_SHORT = "failover"
"""The consent by which a planned move goes on as a failover: its source has died meanwhile."""


def is_planned(kind: OperationKind, consents: Iterable[str]) -> bool:
    """Whether a move is made while both clusters are alive, and so loses nothing and repeats nothing.

    A drill is not: it rehearses a failover.
    """
    return kind not in {OperationKind.FAILOVER, OperationKind.DRILL} and CUT_SHORT not in consents


PENDING, UNPROVEN = "pending", "none"
"""What stands for the evidence of a fence: nothing was stopped yet, or nothing proves that it stopped."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedCluster:
    """Who has the name of a cluster, and who answers under it."""

    cluster: str
    configured: str | None
    pin: Pin | None
    seen: Mapping[str, str]
    """By who looked, the id of the cluster that answered."""

    @property
    def expected(self) -> str | None:
        return self.configured or (self.pin.id if self.pin is not None else None)

    def answered_by(self, who: str, seen: str) -> "NamedCluster":
        return replace(self, seen={**self.seen, who: seen})


@dataclass(frozen=True, kw_only=True, slots=True)
class Reset:
    """Where a query goes on in one partition whose log was cut or created again before its position."""

    source: str
    partition: TopicPartition
    offset: int
    """Position up to which it was read."""
    divergence: int | None
    """First offset at which the log is not the one that was read; None where that is not known."""
    goto: Goto | None
    """None: the standby holds what was read, and the query goes on behind it."""
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
    """A person asked, and accepts what cannot be known; automatic mode accepts nothing unknown."""
    route: Route | None = None
    assignment: Assignment | None = None
    fact: QueryFact | None = None
    """What a runner last reported of the query, under whatever epoch."""
    stranger: str | None = None
    """An operation that holds the checkpoint in use, as a runner found, and that the store does not know."""
    open_operation: str | None = None
    runners: tuple[RunnerFact, ...] | None = None
    """Eligible runners with a fresh heartbeat."""
    names: tuple[NamedCluster, ...] | None = None
    """Of the cluster that is left, and of the one that the query goes to."""
    standby: StandbyAnswer | None = None
    active: StandbyAnswer | None = None
    """What the cluster that the query leaves answered to the same question; asked for planned moves alone."""
    replicating: Replicating | None = None
    """Whether the replicator from there runs; asked for planned moves alone."""
    against: Replicating | None = None
    """Whether one runs in the other direction, too; asked where both keep the names of topics."""
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
    begun: Mapping[TopicPartition, tuple[str, int]] | None = None
    """Of topics that it reads, the upstream query that moved before it, and that query's ``output_ends``."""
    standings: tuple[Standing, ...] | None = None
    """What became of the query's positions in the cluster that they were read from; None when nothing tells."""
    resets: tuple[Reset, ...] | None = None
    """Of those positions whose log was cut, where they go on; None as long as the standby was not asked."""
    buffers: tuple[Buffer, ...] = ()
    """Of each topic, where they are measured."""
    departure: Operation | None = None
    """The last move away from the cluster to which the query goes; None where it never left it."""
    choice: BatchChoice | None = None
    fence: str | None = None
    """The evidence that the old run has stopped, ``PENDING`` before anything is stopped, or ``UNPROVEN``."""
    epoch: int | None = None
    operation: str | None = None
    rewind: Rewind | None = None
    """Of a rewind alone."""

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
        """Whether it begins with a new checkpoint; a rewind also where somebody gives up a state that is not kept."""
        gives_up = self.rewind is not None and self.rewind.loses_state and "fresh" in self.consents
        return self.settings.resume is Resume.FRESH or (gives_up and bool(self.stateful))

    @property
    def resume(self) -> Resume:
        """How it goes on. What goes back in time, or only rehearses, works on a copy."""
        if self.fresh:
            return Resume.FRESH
        if self.kind in {OperationKind.REWIND, OperationKind.DRILL}:
            return Resume.CARRY
        return self.settings.resume_with(companion=bool(self.runners) and not self.without_companion)

    @property
    def without_companion(self) -> tuple[str, ...]:
        """Runners that are alive and could not go on from a checkpoint that the query keeps."""
        return tuple(fact.runner for fact in self.runners or () if not fact.companion)

    @property
    def resumes_at(self) -> Resolution | None:
        """Where the query goes on: the end of N, or of N+1 when it was promoted."""
        if self.choice is not None and self.choice.treatment is UncommittedBatch.PROMOTE:
            return self.planned_resolution
        return self.resolution
