"""The JSON of schedules, operations and events: what was done, and what it cost."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.decide.evidence.rows import operation_rows
from orchestrator.decide.move.outcome import announced, outcome_rows
from orchestrator.decide.times import iso
from state.model.automation import Schedule
from state.model.entities import (
    Event,
    Operation,
    OperationKind,
    Step,
)
from state.model.evidence import Evidence


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
