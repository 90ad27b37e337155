"""The status of everything at one moment, as one value, which `list`, `show`, `watch` and `check` read. Pure.

The clock is the store's: what was written with it is compared with it, so all of them say the same of one moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from orchestrator.decide.gates.automatic import VERDICT_VALID, Cooldown, pause_in_force
from orchestrator.decide.operation.snapshot import is_stuck
from orchestrator.decide.operation.turns import waits
from orchestrator.decide.times import iso
from state.model.automation import NoticeCursor, Pause
from state.model.cluster_status import GONE, ClusterStatus, ProbeReport, Verdict
from state.model.entities import (
    COMPLETE,
    Assignment,
    Departure,
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
from state.model.maintenance import ReadinessFact
from state.settings.keys import Tideover

SILENT = "silent"
"""A query that runs, and waits for its cluster."""
WELL_STATES = frozenset({RunState.RUNNING}) | COMPLETE
"""Of a query that needs no attention: it runs, or has read all that its application wanted of it."""
SAMPLE_VALID = timedelta(minutes=5)
"""A readiness that was last looked at longer ago than this says nothing of now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Leader:
    """The process that leads now."""

    name: str | None
    """The controller's name; None for a verb that leads while it works."""
    holder: str
    term: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryStatus:
    """One query: where it runs and how it goes."""

    query: str
    cluster: str | None
    runner: str | None
    epoch: int | None
    checkpoint: str | None
    state: str
    """As ``state_of`` says it."""
    batch: int | None
    progressed_at: datetime | None
    lag_records: int | None
    """Records that it had not read when the ends of its cluster were sampled last."""
    home: str | None
    """The first of its clusters; None for a query that is not declared."""
    away_since: datetime | None
    """When the move began that took it away from home; None at home, and where no move is known that did."""
    operation: str | None
    """The one that is open."""
    requests: tuple[Request, ...]
    """Those that nothing has begun yet, oldest first."""
    automatic: str | None
    """``on``, ``off``, ``paused`` or ``cooling-down``; None for a query that is not declared."""
    pause: Pause | None
    """The one in force; of two, the one that ends last."""
    cooldown: Cooldown | None
    """The one in force."""
    ready: bool | None
    """What the last readiness check found; None where that is unknown, or there was none for a while."""
    readiness: ReadinessFact | None
    """The last readiness check, however old."""
    report: QueryFact | None
    """What its runner reported last."""
    drill: Operation | None = None
    """The drill that began last, open or not."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """As declared."""

    @property
    def is_away(self) -> bool:
        """Whether it is placed on another cluster than its first."""
        return self.home is not None and self.cluster is not None and self.cluster != self.home

    @property
    def away(self) -> str:
        """From which cluster it is away and since when, in words; empty at home."""
        since = iso(self.away_since)
        return f"from {self.home}" + (f" since {since}" if since else "") if self.is_away else ""

    @property
    def silent(self) -> str:
        """Since when its cluster has not answered it, in words; empty while it does."""
        since = iso(self.report.silent_since) if self.report and self.state == SILENT else None
        return (
            f"{self.cluster} has not answered since {since}: the query waits (policy.outage_patience)" if since else ""
        )

    @property
    def unfinished(self) -> str:
        """How many runs in a row ended in the batch that is planned, in words; empty where fewer than two did."""
        seen = self.report.seen if self.report else None
        ended = seen.ended_in_batch if seen else 0
        return f"{ended} runs ended in batch {seen.planned}, which is not committed" if seen and ended > 1 else ""

    @property
    def error(self) -> str | None:
        return self.report.error if self.report else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """Everything at one moment of the store's clock."""

    at: datetime
    leader: Leader | None
    clusters: Mapping[str, ClusterStatus | None]
    """The verdict on each declared cluster; None: no controller gave one."""
    probes: Mapping[str, ProbeReport]
    """By cluster, the newest probe of the controller that leads."""
    queries: tuple[QueryStatus, ...]
    """Those that are declared or that have an assignment, by name."""
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
    notices: tuple[NoticeCursor, ...] = ()
    """How much of the history each receiver of notices has got; those that are configured."""

    def is_stale(self, status: ClusterStatus) -> bool:
        """Whether a verdict was last given too long ago to speak for now."""
        return self.at - status.decided_at > VERDICT_VALID

    def is_well(self, query: QueryStatus) -> bool:
        """Whether a query needs no attention: it runs, without an error, on a cluster that is not in doubt."""
        status = self.clusters.get(query.cluster or "")
        calm = status is None or status.verdict in {Verdict.UP, Verdict.DEGRADED}
        return calm and query.state in WELL_STATES and query.operation is None and query.error is None


def gone_lines(status: Status) -> list[str]:
    """A sentence for each cluster that is gone, and still has queries."""
    found = []
    for name, believed in status.clusters.items():
        there = sum(query.cluster == name for query in status.queries)
        if believed is not None and not status.is_stale(believed) and believed.verdict in GONE and there:
            count = "1 query is" if there == 1 else f"{there} queries are"
            found.append(f"{name} is {believed.verdict} since {believed.since:%H:%M:%S} UTC: {count} there")
    return found


Label = tuple[str, str]
"""A key and its value."""


def known_labels(settings: Tideover) -> list[str]:
    """Every label that a query has, as ``key=value``."""
    return sorted({f"{key}={value}" for query in settings.queries.values() for key, value in query.labels.items()})


def has_labels(labels: Mapping[str, str], wanted: Iterable[Label]) -> bool:
    """Whether every wanted label is there."""
    return all(labels.get(key) == value for key, value in wanted)


def only_labelled(status: Status, wanted: Sequence[Label]) -> Status:
    """The same moment with those queries alone that have all of these labels, and what is under way with them."""
    queries = tuple(each for each in status.queries if has_labels(each.labels, wanted))
    names = {each.query for each in queries}
    return replace(
        status,
        queries=queries,
        operations=tuple(each for each in status.operations if each.query in names),
        cooldowns={query: each for query, each in status.cooldowns.items() if query in names},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """What the store says at one moment, as it is there."""

    at: datetime
    lease: Lease | None
    probe_reports: Sequence[ProbeReport]
    statuses: Sequence[ClusterStatus]
    assignments: Sequence[Assignment]
    facts: Sequence[QueryFact]
    ends: Mapping[str, Mapping[TopicPartition, EndSample]]
    """By cluster."""
    operations: Sequence[Operation]
    """Open ones."""
    departures: Sequence[Departure]
    """The last move away from each cluster, of each query."""
    pauses: Sequence[Pause]
    cooldowns: Mapping[str, Cooldown]
    """Over or not."""
    requests: Sequence[Request]
    """Those that nothing has begun yet, oldest first."""
    readiness: Sequence[ReadinessFact]
    events: Sequence[Event]
    drills: Mapping[str, Operation] = field(default_factory=dict)
    """By query, the one that began last."""
    notices: Sequence[NoticeCursor] = ()


def status_of(rows: Rows, settings: Tideover) -> Status:
    """The rows put together."""
    believed = {status.cluster: status for status in rows.statuses}
    at_once = settings.operations.at_once
    receivers = {target.name for target in settings.notify.targets}
    cooling = {query: each for query, each in rows.cooldowns.items() if each.until > rows.at}
    return Status(
        at=rows.at,
        leader=_leader(rows),
        clusters={cluster: believed.get(cluster) for cluster in settings.clusters},
        probes={seen.cluster: seen for seen in rows.probe_reports if _is_leaders(seen, rows)},
        queries=tuple(_queries(rows, settings, cooling)),
        operations=tuple(sorted(rows.operations, key=lambda each: (each.started_at, each.id))),
        pauses=tuple(pause for pause in rows.pauses if pause.is_in_force(rows.at)),
        cooldowns=cooling,
        waiting=tuple(filter(None, (waits(each, rows.operations, at_once) for each in rows.requests))),
        events=tuple(rows.events),
        notices=tuple(each for each in rows.notices if each.target in receivers),
    )


def _leader(rows: Rows) -> Leader | None:
    lease = rows.lease
    if lease is None or lease.expires_at <= rows.at:
        return None
    names = (seen.viewpoint for seen in rows.probe_reports if _is_leaders(seen, rows))
    name = next((each.partition(":")[2] for each in names), None)
    return Leader(name=name, holder=lease.holder, term=lease.term)


def _is_leaders(seen: ProbeReport, rows: Rows) -> bool:
    return rows.lease is not None and seen.instance == rows.lease.holder and seen.viewpoint.startswith("controller:")


def _queries(rows: Rows, settings: Tideover, cooling: Mapping[str, Cooldown]) -> Iterable[QueryStatus]:
    assigned = {assignment.query: assignment for assignment in rows.assignments}
    facts = {fact.query: fact for fact in rows.facts}
    at_work = {operation.query: operation for operation in rows.operations}
    checks = {fact.query: fact for fact in rows.readiness}
    left = {(each.query, each.source): each.at for each in rows.departures}
    for name in sorted({*settings.queries, *assigned}):
        assignment, fact, checked = assigned.get(name), facts.get(name), checks.get(name)
        pause, cooldown = pause_in_force(tuple(rows.pauses), name, rows.at), cooling.get(name)
        home, cluster = _home(settings, name), assignment.cluster if assignment else None
        yield QueryStatus(
            query=name,
            cluster=cluster,
            runner=assignment.runner if assignment else None,
            epoch=assignment.epoch if assignment else None,
            checkpoint=assignment.checkpoint if assignment else None,
            state=state_of(assignment, fact, at_work.get(name)),
            batch=fact.batch if fact else None,
            progressed_at=fact.progressed_at if fact else None,
            lag_records=lag_of(assignment, fact, rows.ends),
            home=home,
            away_since=left.get((name, home)) if home is not None and cluster not in {None, home} else None,
            operation=at_work[name].id if name in at_work else None,
            requests=tuple(request for request in rows.requests if request.query == name),
            automatic=_automatic(settings, name, pause, cooldown) if name in settings.queries else None,
            pause=pause,
            cooldown=cooldown,
            ready=checked.ready if checked and rows.at - checked.sampled_at <= SAMPLE_VALID else None,
            readiness=checked,
            report=fact,
            drill=rows.drills.get(name),
            labels=settings.queries[name].labels if name in settings.queries else {},
        )


def _home(settings: Tideover, query: str) -> str | None:
    return settings.queries[query].clusters[0] if query in settings.queries else None


def state_of(assignment: Assignment | None, fact: QueryFact | None, operation: Operation | None = None) -> str:
    """``never-run``, ``stuck``, ``held``, ``waiting``, ``silent`` or what the runner reports.

    Stuck: its open operation cannot continue; waiting: assigned, and not reported yet; silent: it runs, and its cluster
    does not answer it. A query that awaits the next start of its application cannot report a new epoch before that. A
    move that was cancelled in between leaves it on its cluster, so it is awaited as before.
    """
    if assignment is None:
        return "never-run"
    if operation is not None and is_stuck(operation):
        return "stuck"
    if assignment.desired is Desired.HELD:
        return Desired.HELD.value
    if fact is None or (fact.epoch != assignment.epoch and not _is_still_awaited(assignment, fact)):
        return "waiting"
    return SILENT if fact.state is RunState.RUNNING and fact.silent_since is not None else fact.state.value


def _is_still_awaited(assignment: Assignment, fact: QueryFact) -> bool:
    """Whether the last run ended as its application wanted, on the cluster that the next one reads.

    A higher epoch than that of the row is of a store that was restored: no run of this row reported it.
    """
    is_older = fact.epoch < assignment.epoch
    return is_older and fact.state is RunState.AWAITED and fact.cluster == assignment.cluster


def _automatic(settings: Tideover, query: str, pause: Pause | None, cooldown: Cooldown | None) -> str:
    """Whether automatic mode may act on a declared query."""
    if not settings.policy_of(query).automatic:
        return "off"
    if pause is not None:
        return "paused"
    return "on" if cooldown is None else "cooling-down"


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
