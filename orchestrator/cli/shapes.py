"""The JSON shapes of what the store holds (DESIGN section 6), made from its nouns."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from orchestrator.decide.times import iso
from state.model import Assignment, Desired, Event, Operation, QueryFact, RunnerFact, Step
from state.settings import Tideover

MEASURED = (
    "detect_seconds",
    "switch_seconds",
    "first_commit_at",
    "replay_records",
    "exposure_records",
    "dropped_late_rows",
)


def query_rows(
    settings: Tideover,
    assignments: Iterable[Assignment],
    facts: Iterable[QueryFact],
    operations: Iterable[Operation],
    now: datetime,
) -> list[dict[str, object]]:
    """One row per query, declared or merely known to the store."""
    assigned = {assignment.query: assignment for assignment in assignments}
    known = {fact.query: fact for fact in facts}
    at_work = {operation.query: operation.id for operation in operations}
    return [
        query_row(name, assigned.get(name), known.get(name), at_work.get(name), now)
        for name in sorted({*settings.queries, *assigned})
    ]


def query_row(
    name: str, assignment: Assignment | None, fact: QueryFact | None, operation: str | None, now: datetime
) -> dict[str, object]:
    """Where one query runs and how it goes."""
    if assignment is None:
        blank = dict.fromkeys(("cluster", "runner", "epoch", "batch", "progress_age_seconds", "operation"))
        return {"query": name, **blank, "state": "never-run"}
    current = fact if fact is not None and fact.epoch == assignment.epoch else None
    state = "held" if assignment.desired is Desired.HELD else current.state.value if current else "waiting"
    progressed = fact.progressed_at if fact else None
    return {
        "query": name,
        "cluster": assignment.cluster,
        "runner": assignment.runner,
        "epoch": assignment.epoch,
        "state": state,
        "batch": fact.batch if fact else None,
        "progress_age_seconds": round(max(0.0, (now - progressed).total_seconds()), 1) if progressed else None,
        "operation": operation,
    }


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
        "input_rows": fact.input_rows,
        "dropped_late_rows": fact.dropped_late_rows,
        "stateful": fact.stateful,
        "deduplicates_ahead": fact.deduplicates_ahead,
        "error": fact.error,
        "reported_at": iso(fact.reported_at),
    }


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


def operation_json(operation: Operation, steps: Sequence[Step]) -> dict[str, object]:
    """One operation with its steps; ``plan.operation`` names the operation."""
    plan: Mapping[str, object] | None = operation.plan
    return {
        "id": operation.id,
        "group": operation.group,
        "kind": operation.kind.value,
        "query": operation.query,
        "from": operation.source,
        "to": operation.target,
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
        "measured": {name: operation.measured.get(name) for name in MEASURED},
        "plan": dict(plan) if plan is not None else None,
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
