"""Every name that Prometheus reads, with its labels, its meaning and its rows of one moment. Pure.

``docs/metrics.md`` lists the same. A number that is not known is left out, never 0; while the store does not answer
everything is left out that comes from it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from orchestrator.decide.desk.status import SAMPLE_VALID, SILENT, QueryStatus
from orchestrator.decide.operation.snapshot import awaits_start
from orchestrator.decide.replication_age import worst_of
from orchestrator.http.figures import Figures, Seen
from state.model.cluster_status import Verdict
from state.model.entities import QUIET, RunState
from state.model.maintenance import ReadinessFact, ReplicationSample

Labels = tuple[str, ...]


Rows = Iterable[tuple[Labels, float | None]]


_STATES = ("never-run", "stuck", "held", "waiting", SILENT, *(state.value for state in RunState))


_AUTOMATIC = ("on", "off", "paused", "cooling-down")


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """One name."""

    name: str
    meaning: str
    labels: Labels = ()
    rows: Callable[[Figures], Rows] | None = None
    """Of this process: exported whether or not the store answers."""
    seen: Callable[[Seen], Rows] | None = None
    """Of the store: exported while it answers."""
    is_counter: bool = False

    def rows_of(self, figures: Figures) -> Rows:
        """Of one moment; a value of None is left out."""
        if self.rows is not None:
            return self.rows(figures)
        return () if self.seen is None or figures.seen is None else self.seen(figures.seen)


def _age(at: datetime, then: datetime | None) -> float | None:
    return None if then is None else max(0.0, (at - then).total_seconds())


def _each(value: Callable[[QueryStatus, Seen], float | None]) -> Callable[[Seen], Rows]:
    """One row a query."""

    def rows(seen: Seen) -> Rows:
        return [((query.query,), value(query, seen)) for query in seen.status.queries]

    return rows


def _one_of(words: Iterable[str], is_now: str) -> Iterator[tuple[str, float]]:
    """Every word, 1 for the one that holds now: a series that ends says nothing."""
    return ((word, float(word == is_now)) for word in words)


def _verdicts(seen: Seen) -> Rows:
    for cluster, believed in seen.status.clusters.items():
        fresh = believed is not None and not seen.status.is_stale(believed)
        verdict = believed.verdict if believed is not None and fresh else Verdict.UNKNOWN
        for word, value in _one_of(Verdict, verdict):
            yield (cluster, word), value


def _query_states(seen: Seen) -> Rows:
    for query in seen.status.queries:
        for word, value in _one_of(_STATES, query.state):
            yield (query.query, word), value


def _silence(query: QueryStatus, seen: Seen) -> float | None:
    if query.report is None:
        return None
    return 0.0 if query.report.silent_since is None else _age(seen.status.at, query.report.silent_since)


def _automatic_states(seen: Seen) -> Rows:
    for query in seen.status.queries:
        if query.automatic is not None:
            for word, value in _one_of(_AUTOMATIC, query.automatic):
                yield (query.query, word), value


def _active(seen: Seen) -> Rows:
    for query in seen.status.queries:
        if query.cluster is not None:
            known = dict.fromkeys((*seen.clusters_of.get(query.query, ()), query.cluster))
            for cluster, value in _one_of(known, query.cluster):
                yield (query.query, cluster), value


def _checked(query: QueryStatus, seen: Seen) -> ReadinessFact | None:
    """The last check of its standby, as long as it speaks of now."""
    fact = query.readiness
    return fact if fact is not None and seen.status.at - fact.sampled_at <= SAMPLE_VALID else None


def _unproven(query: QueryStatus, seen: Seen) -> float | None:
    fact = _checked(query, seen)
    if fact is None or fact.proven is None or fact.partitions is None:
        return None
    return float(fact.partitions - fact.proven)


def _gates(seen: Seen) -> Rows:
    for query in seen.status.queries:
        fact = _checked(query, seen)
        for gate in fact.gates if fact is not None else ():
            yield (query.query, str(gate["name"])), float(bool(gate["ok"]))


def _sample(query: QueryStatus, seen: Seen) -> ReplicationSample | None:
    """Of the copies of where it is now, as long as it speaks of now."""
    sample = seen.replication.get(query.query)
    is_fresh = sample is not None and seen.status.at - sample.sampled_at <= SAMPLE_VALID
    return sample if is_fresh and sample is not None and sample.source == query.cluster else None


def _exposure_records(query: QueryStatus, seen: Seen) -> float | None:
    sample = _sample(query, seen)
    known = [copy.records for copy in sample.copies] if sample is not None else []
    return float(sum(each for each in known if each is not None)) if known and None not in known else None


def _exposure_seconds(query: QueryStatus, seen: Seen) -> float | None:
    sample = _sample(query, seen)
    worst = worst_of(sample) if sample is not None else None
    return None if worst is None or worst.age_ms is None else worst.age_ms / 1000


def _tracked(query: QueryStatus, seen: Seen) -> float | None:
    batch = seen.tracked.get(query.query)
    return None if batch is None else float(batch)


def _reported(query: QueryStatus, number: str) -> float | None:
    value = getattr(query.report, number, None)
    return None if value is None else float(value)


def _running_epoch(query: QueryStatus) -> float | None:
    """Of a run that is over, an older epoch says nothing: the next run reports its own."""
    report = query.report
    is_over = report is not None and report.state in QUIET and query.epoch is not None and report.epoch < query.epoch
    return None if is_over else _reported(query, "epoch")


AWAITS_START = "AWAITS_START"
"""Instead of BLOCKED, of an operation that the next start of a scheduled application completes: no person is needed."""


def _open(seen: Seen) -> Rows:
    for each in seen.status.operations:
        phase = AWAITS_START if awaits_start(each) else each.phase.value
        yield (each.query, each.kind.value, phase), _age(seen.status.at, each.started_at)


_OF_PROCESS = (
    Exported(
        name="tideover_build_info", labels=("version",), meaning="1; the version is the label",
        rows=lambda figures: [((figures.version,), 1.0)],
    ),
    Exported(
        name="tideover_loop_turn_age_seconds", meaning="Seconds since the controller's loop turned last",
        rows=lambda figures: [((), figures.turn_age_seconds)],
    ),
    Exported(
        name="tideover_store_last_success_timestamp_seconds",
        meaning="When the store answered last, Unix time of this host; 0 before the first answer",
        rows=lambda figures: [((), figures.store_answered_at)],
    ),
    Exported(
        name="tideover_leader", meaning="1 on the controller that leads, 0 on the others and while the store is away",
        rows=lambda figures: [((), float(figures.seen is not None and figures.seen.is_leading))],
    ),
    Exported(
        name="tideover_operations_total", labels=("kind", "result"), is_counter=True,
        meaning="Operations that ended since this controller began to serve, whichever controller led them",
        rows=lambda figures: sorted(figures.tally.operations.items()),
    ),
    Exported(
        name="tideover_lost_records_total", labels=("query",), is_counter=True,
        meaning="Records that the standby lacked at the moment of a move (exposure), as measured on the old cluster",
        rows=lambda figures: [((query,), value) for query, value in sorted(figures.tally.lost.items())],
    ),
    Exported(
        name="tideover_repeated_records_total", labels=("query",), is_counter=True,
        meaning="Records that a query read a second time after a move (replay), as measured",
        rows=lambda figures: [((query,), value) for query, value in sorted(figures.tally.repeated.items())],
    ),
)  # fmt: skip


_OF_CLUSTERS = (
    Exported(
        name="tideover_term", meaning="The term of the controller that leads; it grows with every change of leader",
        seen=lambda seen: [((), None if seen.status.leader is None else float(seen.status.leader.term))],
    ),
    Exported(
        name="tideover_cluster_verdict", labels=("cluster", "verdict"), seen=_verdicts,
        meaning="1 for the verdict on the cluster, 0 for every other one; UNKNOWN where no controller gave one lately",
    ),
    Exported(
        name="tideover_replication_heartbeat_age_seconds", labels=("source", "target"),
        meaning="Age of the newest heartbeat of the source that the replicator brought to the target",
        seen=lambda seen: [(route, _age(seen.status.at, then)) for route, then in seen.heartbeats.items()],
    ),
    Exported(
        name="tideover_replication_heartbeat_expected", labels=("source", "target"),
        meaning="1 for each route whose heartbeats topic is configured",
        seen=lambda seen: [(route, 1.0) for route in seen.heartbeats],
    ),
    Exported(
        name="tideover_operation_open_seconds", labels=("query", "kind", "phase"), seen=_open,
        meaning="Age of the operation that is open, by the phase that it is in now",
    ),
    Exported(
        name="tideover_notification_failures_total", labels=("target",), is_counter=True,
        meaning="Tries to send a notice that the receiver did not take, since it is known",
        seen=lambda seen: [((each.target,), float(each.failures)) for each in seen.status.notices],
    ),
    Exported(
        name="tideover_notification_failing", labels=("target",),
        meaning="1 while the receiver takes no notices, else 0",
        seen=lambda seen: [((each.target,), float(each.failing_since is not None)) for each in seen.status.notices],
    ),
    Exported(
        name="tideover_runner_seen_age_seconds", labels=("runner",), meaning="Age of the runner's last heartbeat",
        seen=lambda seen: [((each.runner,), _age(seen.status.at, each.seen_at)) for each in seen.runners],
    ),
    Exported(
        name="tideover_runner_warm", labels=("runner",), meaning="1 if the runner said that its Spark session is warm",
        seen=lambda seen: [((each.runner,), float(each.warm)) for each in seen.runners],
    ),
)  # fmt: skip


_OF_QUERIES = (
    Exported(
        name="tideover_query_epoch", labels=("query",), meaning="The epoch of the query's assignment",
        seen=_each(lambda query, _: None if query.epoch is None else float(query.epoch)),
    ),
    Exported(
        name="tideover_query_reported_epoch", labels=("query",),
        meaning="The epoch under which the runner's newest report says that it runs the query",
        seen=_each(lambda query, _: _running_epoch(query)),
    ),
    Exported(
        name="tideover_query_active", labels=("query", "cluster"), seen=_active,
        meaning="1 for the cluster that the query is assigned to, 0 for its other clusters",
    ),
    Exported(
        name="tideover_query_home", labels=("query",), meaning="1 on the query's first cluster, 0 while away",
        seen=_each(lambda query, _: None if query.cluster is None or query.home is None else float(not query.is_away)),
    ),
    Exported(
        name="tideover_query_state", labels=("query", "state"), seen=_query_states,
        meaning="1 for the state that `list` shows, 0 for every other",
    ),
    Exported(
        name="tideover_query_automatic", labels=("query", "state"), seen=_automatic_states,
        meaning="1 for what automatic failover may do with the query, 0 for every other",
    ),
    Exported(
        name="tideover_query_progress_age_seconds", labels=("query",),
        meaning="Seconds since the query committed a batch, or found nothing new to read",
        seen=_each(lambda query, seen: _age(seen.status.at, query.progressed_at)),
    ),
    Exported(
        name="tideover_query_silence_seconds", labels=("query",), seen=_each(_silence),
        meaning="Seconds for which the query has waited for its cluster, which does not answer it; 0 while it does",
    ),
    Exported(
        name="tideover_query_lag_records", labels=("query",),
        meaning="Records that the query had not read when the ends of its cluster were sampled last",
        seen=_each(lambda query, _: None if query.lag_records is None else float(query.lag_records)),
    ),
    Exported(
        name="tideover_query_batch", labels=("query",), meaning="The newest batch that the query committed",
        seen=_each(lambda query, _: None if query.batch is None else float(query.batch)),
    ),
    Exported(
        name="tideover_query_tracked_batch", labels=("query",), seen=_each(_tracked),
        meaning="The newest batch whose positions the store holds, tracked where the query is now",
    ),
    Exported(
        name="tideover_query_dropped_late_rows", labels=("query",),
        meaning="Rows that the watermark dropped since this run of the query began",
        seen=_each(lambda query, _: _reported(query, "dropped_late_rows")),
    ),
    Exported(
        name="tideover_exposure_records", labels=("query",), seen=_each(_exposure_records),
        meaning="Records of the query's topics that the standby lacks, as sampled within the last 5 minutes",
    ),
    Exported(
        name="tideover_exposure_seconds", labels=("query",), seen=_each(_exposure_seconds),
        meaning="By how much the standby's copy of the worst partition is older than the source, sampled alike",
    ),
    Exported(
        name="tideover_exposure_limit_seconds", labels=("query",), meaning="policy.max_exposure of the query",
        seen=lambda seen: [((query,), limit) for query, limit in seen.limits.items()],
    ),
    Exported(
        name="tideover_ready", labels=("query", "gate"), seen=_gates,
        meaning="1 if the gate would let a failover pass, 0 if it refuses or does not know; sampled alike",
    ),
    Exported(
        name="tideover_unproven_resume_offsets", labels=("query",), seen=_each(_unproven),
        meaning="Partitions whose resume offset on the standby is not exact; sampled alike",
    ),
    Exported(
        name="tideover_drill_last_success_timestamp_seconds", labels=("query",),
        meaning="When the query's last drill that succeeded ended, Unix time by the store's clock",
        seen=lambda seen: [((query,), at.timestamp()) for query, at in sorted(seen.drills.items())],
    ),
)  # fmt: skip


METRICS = (*_OF_PROCESS, *_OF_CLUSTERS, *_OF_QUERIES)
"""All names but that of the histogram, ``DURATION``."""
