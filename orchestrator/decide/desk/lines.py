"""One line for each query, route and cluster, as the page shows them. Pure.

Of a query the exposure and the age of its copies are those of the last readiness check, which the leading controller
makes each minute. A check that is too old to speak for now says nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.decide.desk.status import SAMPLE_VALID, QueryStatus, Status
from orchestrator.decide.replication_age import replication_text, worst_of
from state.model.cluster_status import ClusterStatus, ProbeReport
from state.model.entities import OperationKind, Phase
from state.model.maintenance import PartitionCopy, ReplicationSample
from state.settings.keys import Tideover

PHASES = (Phase.FENCING, Phase.RESOLVING, Phase.PREPARING, Phase.STARTING, Phase.VERIFYING, Phase.SETTLED)
"""The phases of a move that goes well, in their order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyAge:
    """How old the copies of one query's topics are, without its partitions."""

    query: str
    source: str
    target: str
    sampled_at: datetime
    age_seconds: float | None
    """Of the oldest copy whose age is known."""
    worst: str
    """The partition to look at first; empty where none is known."""
    is_missing: bool
    """Whether the other cluster holds nothing of that partition."""
    unknown: int
    """Partitions whose age is unknown."""
    text: str


def copy_age(query: str, sample: ReplicationSample) -> CopyAge:
    """One sample without its partitions."""
    worst = worst_of(sample)
    known = [copy for copy in sample.copies if copy.age_ms is not None]
    return CopyAge(
        query=query,
        source=sample.source,
        target=sample.target,
        sampled_at=sample.sampled_at,
        age_seconds=max((copy.age_ms or 0 for copy in known), default=0) / 1000 if known else None,
        worst=worst.name if worst is not None else "",
        is_missing=worst is not None and worst.is_missing,
        unknown=sum(_is_unknown(copy) for copy in sample.copies),
        text=replication_text(sample, sample.sampled_at).partition("; sampled")[0],
    )


def _is_unknown(copy: PartitionCopy) -> bool:
    return copy.age_ms is None and not copy.is_missing


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterLine:
    """One cluster and what is believed of it."""

    name: str
    believed: ClusterStatus | None
    is_stale: bool
    queries: int
    """Placed there."""
    probe: ProbeReport | None

    @property
    def verdict(self) -> str | None:
        return None if self.believed is None or self.is_stale else self.believed.verdict.value


@dataclass(frozen=True, kw_only=True, slots=True)
class RouteLine:
    """One way of replication, with the oldest copies of the queries that would go that way now."""

    source: str
    target: str
    queries: int
    """Whose copies were sampled."""
    oldest: CopyAge | None


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryLine:
    """One query."""

    query: QueryStatus
    exposure: Mapping[str, object] | None
    """The gate of that name as it was judged last: measured, limit, whether it holds."""
    copies: CopyAge | None
    refusing: Mapping[str, object] | None
    """The first gate that refuses, or could not be judged."""
    is_well: bool


def cluster_lines(status: Status) -> tuple[ClusterLine, ...]:
    """In the order of the configuration."""
    return tuple(
        ClusterLine(
            name=name,
            believed=believed,
            is_stale=believed is not None and status.is_stale(believed),
            queries=sum(1 for query in status.queries if query.cluster == name),
            probe=status.probes.get(name),
        )
        for name, believed in status.clusters.items()
    )


def route_lines(settings: Tideover, ages: Mapping[str, CopyAge]) -> tuple[RouteLine, ...]:
    """In the order of the configuration. A missing copy is older than any that is there."""
    return tuple(_routes(settings, ages.values()))


def _routes(settings: Tideover, ages: Iterable[CopyAge]) -> Iterator[RouteLine]:
    known = list(ages)
    for route in settings.routes:
        there = [each for each in known if (each.source, each.target) == (route.source, route.target)]
        oldest = max(there, key=lambda each: (each.is_missing, each.age_seconds or 0.0), default=None)
        yield RouteLine(source=route.source, target=route.target, queries=len(there), oldest=oldest)


def query_lines(status: Status, ages: Mapping[str, CopyAge]) -> tuple[QueryLine, ...]:
    """Those that need attention first, then by name."""
    lines = [query_line(query, status, ages.get(query.query)) for query in status.queries]
    return tuple(sorted(lines, key=lambda line: (line.is_well, line.query.query)))


def query_line(query: QueryStatus, status: Status, copies: CopyAge | None) -> QueryLine:
    """One query, with what was last found of its standby."""
    gates: Sequence[Mapping[str, object]] = ()
    if query.readiness is not None and status.at - query.readiness.sampled_at <= SAMPLE_VALID:
        gates = query.readiness.gates
    refusing = next((gate for gate in gates if not gate["ok"]), None)
    return QueryLine(
        query=query,
        exposure=next((gate for gate in gates if gate["name"] == "exposure"), None),
        copies=copies,
        refusing=refusing,
        is_well=status.is_well(query) and query.ready is not False,
    )


def phases_of(kind: OperationKind, phase: Phase) -> list[tuple[str, str]]:
    """Each phase of the way with ``done``, ``now`` or ``ahead``; a drill and an end before the commit have no way."""
    if kind is OperationKind.DRILL or phase not in {*PHASES, Phase.BLOCKED}:
        return [(phase.value, "now")]
    here = PHASES.index(Phase.FENCING if phase is Phase.BLOCKED else phase)
    states = ["done" if index < here else "now" if index == here else "ahead" for index in range(len(PHASES))]
    names = [Phase.BLOCKED.value if phase is Phase.BLOCKED and each is Phase.FENCING else each.value for each in PHASES]
    return list(zip(names, states, strict=True))
