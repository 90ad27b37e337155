"""The JSON shape of the whole status, and the part of it that changes only when something happens."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from orchestrator.decide.status import QueryStatus, Status
from orchestrator.decide.times import iso
from orchestrator.shapes import json_shapes
from state.model.cluster_status import ClusterStatus, Layer
from state.model.entities import Operation
from state.model.notices import NoticeCursor

_EVENTS_FOR_PROGRAMS = 10


def status_json(status: Status) -> dict[str, object]:
    """The shape of ``watch -o json``."""
    leader = status.leader
    return {
        "at": iso(status.at),
        "leader": None if leader is None else {"name": leader.name, "holder": leader.holder, "term": leader.term},
        "clusters": [cluster_json(name, believed, status) for name, believed in status.clusters.items()],
        "queries": [_query_json(query, status.at) for query in status.queries],
        "operations": [_operation_json(operation) for operation in status.operations],
        "pauses": [json_shapes.pause_row(pause) for pause in status.pauses],
        "cooldowns": [
            {"query": query, "operation": each.operation, "until": iso(each.until)}
            for query, each in sorted(status.cooldowns.items())
        ],
        "notices": [_notice_json(cursor) for cursor in status.notices],
        "events": [json_shapes.event_row(event) for event in status.events[-_EVENTS_FOR_PROGRAMS:]],
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
    return {**json_shapes.query_row(query, at), "lag_records": query.lag_records, "error": query.error}


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
"""What is another at every look, though nothing has changed."""


def without_flows(value: object) -> object:
    """The part of a status's JSON that changes only when something happens."""
    if isinstance(value, Mapping):
        return {name: without_flows(inner) for name, inner in value.items() if name not in _FLOWS}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [without_flows(inner) for inner in value]
    return value
