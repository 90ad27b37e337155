"""The JSON shapes of the status: the whole, what of it changes only when something happens, and one query's."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from orchestrator.decide.desk.status import QueryStatus, Status
from orchestrator.decide.desk.trend import rates_of
from orchestrator.decide.replication_age import replication_json
from orchestrator.decide.times import iso
from orchestrator.shapes import operation_shapes, query_shapes, request_shapes
from state.model.automation import NoticeCursor
from state.model.cluster_status import ClusterStatus, Layer
from state.model.entities import EVERY_KIND, Operation
from state.model.maintenance import StandbySample
from state.settings.keys import Query
from state.store.controller_store import ControllerStore

_EVENTS_FOR_PROGRAMS = 10
NEWEST = 5
"""How many operations of one query are shown."""


def status_json(status: Status) -> dict[str, object]:
    """The shape of ``watch -o json``."""
    leader = status.leader
    return {
        "at": iso(status.at),
        "leader": None if leader is None else {"name": leader.name, "holder": leader.holder, "term": leader.term},
        "clusters": [cluster_json(name, believed, status) for name, believed in status.clusters.items()],
        "queries": [_query_json(query, status.at) for query in status.queries],
        "operations": [_operation_json(operation) for operation in status.operations],
        "pauses": [query_shapes.pause_row(pause) for pause in status.pauses],
        "cooldowns": [
            {"query": query, "operation": each.operation, "until": iso(each.until)}
            for query, each in sorted(status.cooldowns.items())
        ],
        "notices": [_notice_json(cursor) for cursor in status.notices],
        "events": [operation_shapes.event_row(event) for event in status.events[-_EVENTS_FOR_PROGRAMS:]],
    }


def cluster_json(name: str, believed: ClusterStatus | None, status: Status) -> dict[str, object]:
    """One cluster\'s verdict; null where there is no recent one."""
    if believed is None or status.is_stale(believed):
        return {"cluster": name, "verdict": None, "since": None, "reasons": [], "layers_ms": None}
    probe = status.probes.get(name)
    return {
        "cluster": name,
        "verdict": believed.verdict.value,
        "since": iso(believed.since),
        "reasons": list(believed.reasons),
        "layers_ms": None if probe is None else {layer.value: probe.layers_ms.get(layer) for layer in Layer},
    }


def _query_json(query: QueryStatus, at: datetime) -> dict[str, object]:
    return {**query_shapes.query_row(query, at), "lag_records": query.lag_records, "error": query.error}


def _operation_json(operation: Operation) -> dict[str, object]:
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "query": operation.query,
        "from": operation.source,
        "to": operation.target,
        "epoch": operation.epoch,
        "phase": operation.phase.value,
        "sentence": operation.sentence,
        "actor": operation.actor,
        "started_at": iso(operation.started_at),
    }


def _notice_json(cursor: NoticeCursor) -> dict[str, object]:
    return {
        "target": cursor.target,
        "told_at": iso(cursor.told_at),
        "failing_since": iso(cursor.failing_since),
        "failures": cursor.failures,
        "error": cursor.error or None,
    }


_FLOWS = frozenset({"at", "reasons", "layers_ms", "batch", "progress_age_seconds", "lag_records", "failures"})
"""What differs at every look, although nothing has happened."""


def without_flows(value: object) -> object:
    """The part of a status's JSON that changes only when something happens."""
    if isinstance(value, Mapping):
        return {name: without_flows(inner) for name, inner in value.items() if name not in _FLOWS}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [without_flows(inner) for inner in value]
    return value


def query_json(store: ControllerStore, declared: Query | None, shown: QueryStatus, now: datetime) -> dict[str, object]:
    """The shape of ``show -o json``; ``declared`` is None for a query that only the store knows. ``StoreError``."""
    names = declared.runners if declared is not None else (shown.runner,)
    row = query_shapes.list_row(shown, now)
    runners = [query_shapes.runner_row(fact, now) for fact in store.runners() if fact.runner in names]
    hosting = next((each for each in runners if each["runner"] == shown.runner), None)
    newest = store.operations(query=shown.query, limit=NEWEST, kinds=EVERY_KIND)
    return {
        **row,
        "runner": hosting or {"runner": row["runner"], "warm": None},
        "checkpoint": shown.checkpoint,
        "report": query_shapes.fact_detail(shown.report),
        "runners": runners,
        "positions": query_shapes.position_rows(store.positions(shown.query, rings=False)),
        "operations": [operation_shapes.move_row(operation) for operation in newest],
        "requests": [request_shapes.request_row(request) for request in shown.requests],
        "automatic": query_shapes.automatic_json(shown),
        "readiness": query_shapes.readiness_json(shown.readiness),
        "replication": replication_json(store.replication(shown.query), now),
        "drill": operation_shapes.drill_row(shown.drill),
    }


def samples_json(samples: Sequence[StandbySample], limit_seconds: float) -> dict[str, object]:
    """The shape of ``samples`` in ``docs/programs.md``."""
    return {
        "limit_seconds": limit_seconds,
        "samples": [
            {
                "at": iso(each.sampled_at),
                "source": each.source,
                "target": each.target,
                "ready": each.ready,
                "exposure_records": each.exposure_records,
                "exposure_seconds": each.exposure_seconds,
                "copy_age_seconds": each.copy_age_seconds,
                "records_per_second": rate,
                "lag_records": each.lag_records,
            }
            for each, rate in zip(samples, rates_of(samples), strict=True)
        ],
    }
