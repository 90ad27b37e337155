"""The document of one closed operation: everything that shows what was done, why, and on what proof, without another
source.

It is written once, soon after the operation has closed. What is measured later (records that come late, the exposure
once a dead cluster is back) is not in it: ``tideover verify-op`` counts that again from the brokers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.decide.evidence.rows import operation_rows
from orchestrator.decide.move.outcome import outcome_rows
from orchestrator.decide.times import iso
from state.messages import FenceReport, FenceRequest, PrepareRequest
from state.model.entities import Event, Intent, IntentKind, IntentState, Operation, Step
from state.model.pins import Pin

MOST_HISTORY = 1_000
"""Lines of history that a document holds, the newest; one that waited for hours has more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What the store says of an operation, once it has closed."""

    operation: Operation
    """With what could be measured by now."""
    steps: Sequence[Step]
    intents: Sequence[Intent]
    events: Sequence[Event]
    """One more than ``MOST_HISTORY`` where there are more."""
    pins: Sequence[Pin]
    versions: Mapping[str, str | None]
    at: datetime
    actor: str


def document(facts: Facts) -> dict[str, object]:
    """The document, but for its place in the chain. JSON values only; a number that is not known is None."""
    operation, plan = facts.operation, facts.operation.plan
    lines = facts.events[-MOST_HISTORY:]
    return {
        "operation": {
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
            "started_at": iso(operation.started_at),
            "ended_at": iso(operation.ended_at),
        },
        "who": {"actor": operation.actor, "reason": operation.reason, "consents": list(operation.consents)},
        "versions": dict(facts.versions),
        "clusters": [_cluster(role, name, facts.pins) for role, name in _sides(operation)],
        "checkpoint": _checkpoint(facts.intents),
        "moved": any(step.name == "commit" for step in facts.steps),
        "fences": [_fence(each) for each in facts.intents if each.kind is IntentKind.FENCE],
        "steps": [_step(each) for each in facts.steps],
        "plan": None if plan is None else plan.without_partitions(),
        "measured": operation.measured.documented(),
        **({"rows": rows} if (rows := operation_rows(operation)) else {}),
        "partitions": _partitions(operation),
        "history": [_line(each) for each in lines],
        "history_left_out": len(facts.events) > len(lines),
        "written": {"at": iso(facts.at), "by": facts.actor},
    }


def _sides(operation: Operation) -> list[tuple[str, str]]:
    sides = [("from", operation.source), ("to", operation.target)]
    return sides if operation.source != operation.target else sides[:1]


def _cluster(role: str, name: str, pins: Sequence[Pin]) -> dict[str, object]:
    pin = next((each for each in pins if each.cluster == name), None)
    return {"role": role, "cluster": name, "id": pin.id if pin is not None else None}


def _checkpoint(intents: Iterable[Intent]) -> dict[str, object]:
    """The folder that the query read on from before, and the one that was made for it, if one was."""
    intents_made = [each for each in intents if each.kind in {IntentKind.FENCE, IntentKind.PREPARE}]
    made = [each for each in intents_made if each.kind is IntentKind.PREPARE]
    done = next((each for each in reversed(made) if each.state is IntentState.DONE), None)
    request = PrepareRequest.of(done.request) if done is not None else None
    return {
        "from": str(intents_made[0].request["checkpoint"]) if intents_made else None,
        "to": request.target if request is not None else None,
        "batch": request.batch if request is not None else None,
        "offsets": request.target_offsets if request is not None else None,
    }


def _fence(intent: Intent) -> dict[str, object]:
    """One order for proof that the old run has stopped, and what was found."""
    hosting = FenceRequest.of(intent.request).hosting
    row: dict[str, object] = {
        "name": intent.name,
        "epoch": intent.epoch,
        "asked_of": intent.runner,
        "state": intent.state.value,
        "answered_at": iso(intent.ended_at),
        "run": hosting.as_json() if hosting is not None else None,
    }
    if intent.state is not IntentState.DONE:
        text = (intent.result or {}).get("text")
        return {**row, "proof": None, "planted": [], "detail": text if isinstance(text, str) else ""}
    report = FenceReport.of(intent.result)
    proof = report.proof.value if report.proof is not None else None
    return {**row, "proof": proof, "planted": list(report.planted), "detail": report.detail}


def _step(step: Step) -> dict[str, object]:
    took = round((step.ended_at - step.started_at).total_seconds(), 3) if step.ended_at is not None else None
    return {
        "name": step.name,
        "started_at": iso(step.started_at),
        "seconds": None if took is None else max(0.0, took),
        "outcome": step.outcome,
        "detail": dict(step.detail),
    }


def _partitions(operation: Operation) -> list[dict[str, object]]:
    """The plan's rows: where each partition resumed and its forecast, beside what was measured until now."""
    rows = operation.plan.partitions if operation.plan is not None else ()
    measured = outcome_rows(operation)
    found = measured if len(measured) == len(rows) else [None] * len(rows)
    return [
        {
            **row.as_json(),
            "measured_replay_records": came.replay_records if came is not None else None,
            "measured_exposure_records": came.exposure_records if came is not None else None,
        }
        for row, came in zip(rows, found, strict=True)
    ]


def _line(event: Event) -> dict[str, object]:
    return {
        "sequence": event.sequence,
        "at": iso(event.at),
        "kind": event.kind,
        "epoch": event.epoch,
        "actor": event.actor,
        "text": event.text,
    }
