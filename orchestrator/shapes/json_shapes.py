"""The JSON shapes of what the store holds (``docs/programs.md`` lists their keys), made from its nouns."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from orchestrator.decide.desk.status import QueryStatus
from orchestrator.decide.evidence.rows import operation_rows
from orchestrator.decide.lookup_wants import newest_of
from orchestrator.decide.move.outcome import announced, outcome_rows
from orchestrator.decide.times import iso
from state.model.automation import Acknowledgement, Pause, Schedule
from state.model.column_uses import ColumnUses
from state.model.entities import (
    Assignment,
    Event,
    Operation,
    OperationKind,
    Position,
    QueryFact,
    Request,
    RunnerFact,
    Step,
)
from state.model.evidence import Evidence
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


def request_row(request: Request) -> dict[str, object]:
    """What was requested and not answered yet."""
    return {
        "id": request.id,
        "kind": request.kind.value,
        "to": request.target,
        "parameters": dict(request.parameters),
        "actor": request.actor,
        "reason": request.reason,
        "created_at": iso(request.created_at),
        "expires_at": iso(request.expires_at),
    }


def row_of_request(request: Request) -> dict[str, object]:
    """Which request it is, where its outcome is reported."""
    return {"request": request.id, "query": request.query, "group": request.group}


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


def move_row(operation: Operation) -> dict[str, object]:
    """One operation of a query, in short: where from and to, when, and what it cost as far as that is measured."""
    return {
        "id": operation.id,
        "kind": operation.kind.value,
        "from": operation.source,
        "to": operation.target,
        "phase": operation.phase.value,
        "outcome": operation.outcome,
        "started_at": iso(operation.started_at),
        "ended_at": iso(operation.ended_at),
        "exposure_records": operation.measured.exposure_records,
        "replay_records": operation.measured.replay_records,
        "actor": operation.actor,
        "sentence": operation.sentence,
    }


def operation_json(operation: Operation, steps: Sequence[Step], kept: Evidence | None) -> dict[str, object]:
    """One operation with its steps; ``plan.operation`` names the operation. ``kept``: its evidence."""
    plan = replace(operation.plan, followed=None) if operation.plan is not None else None
    return {
        "id": operation.id,
        "group": operation.group,
        "kind": operation.kind.value,
        "query": operation.query,
        "from": operation.source,
        "to": operation.target,
        "parameters": dict(operation.parameters),
        "epoch": operation.epoch,
        "phase": operation.phase.value,
        "outcome": operation.outcome,
        "sentence": operation.sentence,
        "actor": operation.actor,
        "reason": operation.reason,
        "consents": list(operation.consents),
        "started_at": iso(operation.started_at),
        "ended_at": iso(operation.ended_at),
        "steps": [step_json(step) for step in steps],
        "measured": {
            **measured_json(operation),
            "partitions": [row.as_json() for row in outcome_rows(operation)],
            **({"rows": rows} if (rows := operation_rows(operation)) else {}),
            **_drilled(operation),
        },
        "plan": plan.as_json() if plan is not None else None,
        "evidence": evidence_json(kept),
    }


def evidence_json(kept: Evidence | None) -> dict[str, object] | None:
    """The place of an operation's evidence in the chain; None while there is none."""
    if kept is None:
        return None
    return {
        "sequence": kept.sequence,
        "sha256": kept.sha256,
        "written_at": iso(kept.written_at),
        "kept": kept.document is not None,
    }


def schedule_row(schedule: Schedule) -> dict[str, object]:
    """One entry of the schedule."""
    return {
        "id": schedule.id,
        "kind": schedule.kind.value,
        "queries": ", ".join(schedule.queries) or "all",
        "target": schedule.target,
        "next_at": iso(schedule.next_at),
        "cron": schedule.cron,
        "zone": schedule.zone if schedule.cron else None,
        "last_at": iso(schedule.last_at),
        "last_outcome": schedule.last_outcome,
        "cancelled_by": schedule.cancelled_by,
        "consents": list(schedule.consents),
        "actor": schedule.actor,
        "reason": schedule.reason,
        "created_at": iso(schedule.created_at),
    }


def measured_json(operation: Operation) -> dict[str, object]:
    """What was measured. Of records announced to come later, none come where none were announced."""
    known = operation.measured.shown()
    return known | {"replay_later_records": 0} if announced(operation) == 0 else known


def _drilled(operation: Operation) -> dict[str, object]:
    """What a drill measured; moves have no such member."""
    if operation.kind is not OperationKind.DRILL:
        return {}
    drill = operation.measured.drill
    return {"drill": None if drill is None else drill.as_json()}


def drill_row(drill: Operation | None) -> dict[str, object] | None:
    """How the last drill of a query ended; None where there was none."""
    if drill is None:
        return None
    return {
        "id": drill.id,
        "to": drill.target,
        "outcome": drill.outcome,
        "started_at": iso(drill.started_at),
        "ended_at": iso(drill.ended_at),
        "sentence": drill.sentence,
    }


def step_json(step: Step) -> dict[str, object]:
    """One recorded step."""
    return {
        "name": step.name,
        "started_at": iso(step.started_at),
        "ended_at": iso(step.ended_at),
        "outcome": step.outcome,
        "detail": dict(step.detail),
    }


def event_row(event: Event) -> dict[str, object]:
    """One line of the history."""
    return {
        "sequence": event.sequence,
        "at": iso(event.at),
        "kind": event.kind,
        "query": event.query,
        "operation": event.operation,
        "epoch": event.epoch,
        "actor": event.actor,
        "text": event.text,
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
        "batch": None,
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
