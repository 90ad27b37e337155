"""How things stand, as one value: what a person at three in the morning wants to see, and a page can show. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.automatic import VERDICT_STANDS, pause_in_force
from orchestrator.decide.cooldown import Cooldown
from orchestrator.decide.turn import waits
from state.automation import Pause
from state.model import (
    Assignment,
    Desired,
    EndSample,
    Event,
    Lease,
    Operation,
    QueryFact,
    Request,
    RunState,
    TopicPartition,
)
from state.settings import Tideover
from state.sighting import Belief, Sighting, Verdict
from state.upkeep import ReadinessFact

SAMPLE_STANDS = timedelta(minutes=5)
"""A readiness that was last looked at longer ago than this says nothing of now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leader:
    """The process that leads now."""

    name: str | None
    """The controller's name; None for a verb that leads while it works."""
    holder: str
    term: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryView:
    """One query: where it runs and how it goes."""

    query: str
    cluster: str | None
    runner: str | None
    epoch: int | None
    state: str
    """As ``state_of`` says it."""
    batch: int | None
    progressed_at: datetime | None
    lag_records: int | None
    """Records that it had not read when the ends of its cluster were sampled last."""
    operation: str | None
    automatic: str | None
    """``on``, ``off``, ``paused`` or ``cooling-down``; None for a query that is not declared."""
    ready: bool | None
    """What the last readiness check found; None where it could not tell, or there was none for a while."""
    error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """Everything at one moment of the store's clock."""

    at: datetime
    leader: Leader | None
    clusters: Mapping[str, Belief | None]
    """What is believed of each declared cluster; None: nobody has said anything."""
    looks: Mapping[str, Sighting]
    """By cluster, the newest look of the controller that leads."""
    queries: tuple[QueryView, ...]
    operations: tuple[Operation, ...]
    """Those that are open, oldest first."""
    pauses: tuple[Pause, ...]
    """Those in force."""
    cooldowns: Mapping[str, Cooldown]
    """By query, those that stand."""
    waiting: tuple[str, ...]
    """Of each request that waits for its turn, why, oldest first."""
    events: tuple[Event, ...]
    """The last lines of the history, oldest first."""

    def is_stale(self, belief: Belief) -> bool:
        """Whether a verdict was last given too long ago to speak for now."""
        return self.at - belief.decided_at > VERDICT_STANDS

    def is_well(self, query: QueryView) -> bool:
        """Whether nobody has to look at a query: it runs, without an error, on a cluster that is not in doubt."""
        belief = self.clusters.get(query.cluster or "")
        calm = belief is None or belief.verdict in {Verdict.UP, Verdict.DEGRADED}
        return calm and query.state == RunState.RUNNING and query.operation is None and query.error is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """What the store says at one moment, as it stands there."""

    at: datetime
    lease: Lease | None
    sightings: Sequence[Sighting]
    beliefs: Sequence[Belief]
    assignments: Sequence[Assignment]
    facts: Sequence[QueryFact]
    ends: Mapping[str, Mapping[TopicPartition, EndSample]]
    """By cluster."""
    operations: Sequence[Operation]
    """Open ones."""
    pauses: Sequence[Pause]
    cooldowns: Mapping[str, Cooldown]
    """Over or not."""
    requests: Sequence[Request]
    """Those that nobody has answered."""
    readiness: Sequence[ReadinessFact]
    events: Sequence[Event]


def situation_of(rows: Rows, settings: Tideover) -> Situation:
    """The rows put together."""
    believed = {belief.cluster: belief for belief in rows.beliefs}
    at_once = settings.operations.at_once
    cooling = {query: each for query, each in rows.cooldowns.items() if each.until > rows.at}
    return Situation(
        at=rows.at,
        leader=_leader(rows),
        clusters={cluster: believed.get(cluster) for cluster in settings.clusters},
        looks={seen.cluster: seen for seen in rows.sightings if _is_leaders(seen, rows)},
        queries=tuple(_queries(rows, settings, cooling)),
        operations=tuple(sorted(rows.operations, key=lambda each: (each.started_at, each.id))),
        pauses=tuple(pause for pause in rows.pauses if pause.is_in_force(rows.at)),
        cooldowns=cooling,
        waiting=tuple(filter(None, (waits(each, rows.operations, at_once) for each in rows.requests))),
        events=tuple(rows.events),
    )


def _leader(rows: Rows) -> Leader | None:
    lease = rows.lease
    if lease is None or lease.expires_at <= rows.at:
        return None
    names = (seen.viewpoint for seen in rows.sightings if _is_leaders(seen, rows))
    name = next((each.partition(":")[2] for each in names), None)
    return Leader(name=name, holder=lease.holder, term=lease.term)


def _is_leaders(seen: Sighting, rows: Rows) -> bool:
    return rows.lease is not None and seen.instance == rows.lease.holder and seen.viewpoint.startswith("controller:")


def _queries(rows: Rows, settings: Tideover, cooling: Mapping[str, Cooldown]) -> Iterable[QueryView]:
    assigned = {assignment.query: assignment for assignment in rows.assignments}
    facts = {fact.query: fact for fact in rows.facts}
    at_work = {operation.query: operation.id for operation in rows.operations}
    ready = ready_now(rows.readiness, rows.at)
    known = settings.queries
    for name in sorted({*known, *assigned}):
        assignment, fact = assigned.get(name), facts.get(name)
        yield QueryView(
            query=name,
            cluster=assignment.cluster if assignment else None,
            runner=assignment.runner if assignment else None,
            epoch=assignment.epoch if assignment else None,
            state=state_of(assignment, fact),
            batch=fact.batch if fact else None,
            progressed_at=fact.progressed_at if fact else None,
            lag_records=lag_of(assignment, fact, rows.ends),
            operation=at_work.get(name),
            automatic=automatic_of(settings, name, rows.pauses, cooling.get(name), rows.at) if name in known else None,
            ready=ready.get(name),
            error=fact.error if fact else None,
        )


def state_of(assignment: Assignment | None, fact: QueryFact | None) -> str:
    """``never-run``, ``held``, ``waiting`` (assigned, not reported yet), or what the runner reports."""
    if assignment is None:
        return "never-run"
    if assignment.desired is Desired.HELD:
        return Desired.HELD.value
    return fact.state.value if fact is not None and fact.epoch == assignment.epoch else "waiting"


def automatic_of(
    settings: Tideover, query: str, pauses: Sequence[Pause], cooldown: Cooldown | None, now: datetime
) -> str:
    """Whether automatic mode may act on a declared query: ``off``, ``paused``, ``cooling-down`` or ``on``."""
    if not settings.policy_of(query).automatic:
        return "off"
    if pause_in_force(tuple(pauses), query, now) is not None:
        return "paused"
    return "cooling-down" if cooldown is not None and cooldown.until > now else "on"


def ready_now(readiness: Iterable[ReadinessFact], now: datetime) -> dict[str, bool | None]:
    """By query, what was found last; a query that was not looked at for a while is left out."""
    return {fact.query: fact.ready for fact in readiness if now - fact.sampled_at <= SAMPLE_STANDS}


def lag_of(
    assignment: Assignment | None, fact: QueryFact | None, ends: Mapping[str, Mapping[TopicPartition, EndSample]]
) -> int | None:
    """Records between what the query has read and its cluster's last sampled ends; None where any is not known."""
    if assignment is None or fact is None or fact.offsets is None or fact.cluster != assignment.cluster:
        return None
    sampled, lag = ends.get(fact.cluster, {}), 0
    for by_topic in fact.offsets.values():
        for topic, by_partition in by_topic.items():
            for partition, offset in by_partition.items():
                sample = sampled.get(TopicPartition(topic, int(partition)))
                if sample is None:
                    return None
                lag += max(0, sample.end - offset)
    return lag
