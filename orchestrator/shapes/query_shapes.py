"""The JSON of queries, positions, runners and pauses: where they are, and how they go."""

from collections.abc import Iterable
from datetime import datetime

from orchestrator.decide.desk.status import QueryStatus
from orchestrator.decide.lookup_wants import newest_of
from orchestrator.decide.times import iso
from state.model.automation import Acknowledgement, Pause
from state.model.column_uses import ColumnUses
from state.model.entities import (
    Assignment,
    Position,
    QueryFact,
    RunnerFact,
)
from state.model.found_places import FoundPlace
from state.model.maintenance import ReadinessFact


def query_row(query: QueryStatus, at: datetime) -> dict[str, object]:
    """Where one query runs and how it goes: what ``list``, ``show`` and ``watch`` have in common."""
    age = None if query.progressed_at is None else round(max(0.0, (at - query.progressed_at).total_seconds()), 1)
    return {
        "query": query.query,
        "cluster": query.cluster,
        "runner": query.runner,
        "epoch": query.epoch,
        "state": query.state,
        "batch": query.batch,
        "progress_age_seconds": age,
        "operation": query.operation,
        "automatic": query.automatic,
        "ready": query.ready,
        "home": query.home,
        "away_since": iso(query.away_since),
        "labels": dict(query.labels),
    }


def list_row(query: QueryStatus, at: datetime) -> dict[str, object]:
    """One query as ``list`` shows it. Of several requests that wait the oldest is named."""
    return {**query_row(query, at), "request": query.requests[0].id if query.requests else None}


def fact_detail(fact: QueryFact | None) -> dict[str, object] | None:
    """What the runner last reported."""
    if fact is None:
        return None
    return {
        "runner": fact.runner,
        "epoch": fact.epoch,
        "cluster": fact.cluster,
        "state": fact.state.value,
        "batch": fact.batch,
        "offsets": fact.offsets,
        "started_at": iso(fact.started_at),
        "first_commit_at": iso(fact.first_commit_at),
        "progressed_at": iso(fact.progressed_at),
        "silent_since": iso(fact.silent_since),
        "sink_took": fact.sink_took,
        "input_rows": fact.input_rows,
        "dropped_late_rows": fact.dropped_late_rows,
        "stateful": fact.stateful,
        "deduplicates_ahead": fact.deduplicates_ahead,
        "error": fact.error,
        "contradicted": fact.contradicted,
        "runs_ended_in_batch": fact.seen.ended_in_batch if fact.seen else None,
        "retained_from": iso(fact.retained_from),
        "columns": column_rows(fact.columns),
        "reported_at": iso(fact.reported_at),
    }


def column_rows(columns: ColumnUses | None) -> list[dict[str, object]] | None:
    """Where the plan uses columns whose values belong to a cluster; null where no runner has read it."""
    if columns is None:
        return None
    return [
        {
            "source": use.source,
            "column": use.column.value,
            "operator": use.operator,
            "logic": use.is_logic,
            "delay_ms": use.delay_ms,
        }
        for use in columns
    ]


def position_rows(positions: Iterable[Position]) -> list[dict[str, object]]:
    """The newest position of each partition; ``remembered`` records stand right before it, to be found again."""
    return [
        {
            "source": row.source,
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "timestamp_ms": row.timestamp_ms,
            "leader_epoch": row.leader_epoch,
            "batch": row.batch,
            "remembered": len(row.ring),
            "tracked_at": iso(row.tracked_at),
        }
        for row in newest_of(positions)
    ]


def runner_row(fact: RunnerFact, now: datetime) -> dict[str, object]:
    """One runner's registration."""
    return {
        "runner": fact.runner,
        "site": fact.site,
        "host": fact.host,
        "pid": fact.pid,
        "warm": fact.warm,
        "seen_seconds_ago": round(max(0.0, (now - fact.seen_at).total_seconds()), 1),
    }


def automatic_json(query: QueryStatus) -> dict[str, object]:
    """Whether automatic mode may act on a declared query, and what keeps it from that."""
    cooling = query.cooldown
    return {
        "state": query.automatic,
        "on": query.automatic != "off",
        "pause": pause_row(query.pause) if query.pause else None,
        "cooldown": {"operation": cooling.operation, "until": iso(cooling.until)} if cooling else None,
    }


def readiness_json(fact: ReadinessFact | None) -> dict[str, object] | None:
    """What the last readiness check found, with the gates that refused."""
    if fact is None:
        return None
    return {
        "target": fact.target,
        "ready": fact.ready,
        "since": iso(fact.since),
        "sampled_at": iso(fact.sampled_at),
        "proven": fact.proven,
        "partitions": fact.partitions,
        "refused": [dict(gate) for gate in fact.gates if not gate["ok"]],
    }


def pause_row(pause: Pause) -> dict[str, object]:
    """One pause; ``resumed_at`` where a person ended it before its time."""
    return {
        "scope": pause.scope,
        "since": iso(pause.since),
        "until": iso(pause.until),
        "actor": pause.actor,
        "reason": pause.reason,
        "resumed_at": iso(pause.resumed_at),
    }


def acknowledgement_row(given: Acknowledgement) -> dict[str, object]:
    """One acknowledgement."""
    return {
        "query": given.query,
        "operation": given.operation,
        "actor": given.actor,
        "reason": given.reason,
        "at": iso(given.at),
    }


def assignment_side(assignment: Assignment | None) -> dict[str, object]:
    """What the store says of a query, to be laid beside what runs."""
    if assignment is None:
        return {"side": "store", **dict.fromkeys(("epoch", "cluster", "runner", "checkpoint", "state", "batch", "at"))}
    return {
        "side": "store",
        "epoch": assignment.epoch,
        "cluster": assignment.cluster,
        "runner": assignment.runner,
        "checkpoint": assignment.checkpoint,
        "state": assignment.desired.value,
        "batch": None,
        "at": iso(assignment.changed_at),
    }


def found_side(found: FoundPlace) -> dict[str, object]:
    """Where the files of a query show it, to be laid beside what the store says."""
    return {
        "side": "files",
        "epoch": found.epoch,
        "cluster": found.cluster,
        "runner": found.runner,
        "checkpoint": found.checkpoint,
        "state": None if found.held_by is None else "held",
        "batch": found.batch,
        "at": iso(found.found_at),
    }


def fact_side(fact: QueryFact) -> dict[str, object]:
    """What runs, to be laid beside what the store says."""
    return {
        "side": "runner",
        "epoch": fact.epoch,
        "cluster": fact.cluster,
        "runner": fact.runner,
        "checkpoint": fact.checkpoint,
        "state": fact.state.value,
        "batch": fact.batch,
        "at": iso(fact.reported_at),
    }
