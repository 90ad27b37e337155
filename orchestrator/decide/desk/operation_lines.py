"""One operation as the page shows it: its steps in time, its gates, and the forecast beside what came of it. Pure.

A plan is kept as JSON, and one of an earlier version may lack a member: what is not there is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orchestrator.decide.outcome import outcome_rows
from state.model.entities import Operation, Step


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLine:
    """One step on the scale of the whole operation; ``begin`` and ``share`` are in hundredths of it."""

    step: Step
    seconds: float
    """Until now, of a step that has not ended."""
    begin: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastLine:
    """One number that was forecast, and what was measured; None where nobody can tell, or not yet."""

    what: str
    forecast: float | None
    measured: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedLine:
    """One partition of the standby with the place where the query resumes."""

    topic: str
    partition: int
    offset: int | None
    """Read so far on the cluster that was left."""
    target_offset: int | None
    method: str
    replay: ForecastLine
    exposure: ForecastLine
    note: str


def step_lines(operation: Operation, steps: Sequence[Step], now: datetime) -> list[StepLine]:
    """In their order."""
    end = operation.ended_at or now
    whole = max((end - operation.started_at).total_seconds(), 0.001)
    return [_step(each, operation.started_at, end, whole) for each in steps]


def _step(step: Step, began: datetime, end: datetime, whole: float) -> StepLine:
    seconds = max(0.0, ((step.ended_at or end) - step.started_at).total_seconds())
    begin = min(100.0, max(0.0, 100 * (step.started_at - began).total_seconds() / whole))
    return StepLine(step=step, seconds=seconds, begin=begin, share=min(100.0 - begin, 100 * seconds / whole))


def gates_of(plan: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The gates of a plan, those that refuse first."""
    return sorted((plan or {}).get("gates") or (), key=lambda gate: bool(gate["ok"]))


_TOTALS = {
    "replay_records": "records read twice",
    "replay_later_records": "records read twice once the replicator brings them",
    "exposure_records": "records left behind",
}


def forecast_lines(operation: Operation) -> list[ForecastLine]:
    """The totals of a plan beside what was measured; none without a plan."""
    plan: Mapping[str, Any] = operation.plan or {}
    totals: Mapping[str, Any] = plan.get("totals") or {}
    lines = [
        ForecastLine(what=words, forecast=totals.get(name), measured=_number(operation.measured.get(name)))
        for name, words in _TOTALS.items()
        if name in totals
    ]
    bounds: Mapping[str, Any] = totals.get("at_most") or {}
    return lines + [
        ForecastLine(what=f"{words}, at most", forecast=bounds[name], measured=_number(operation.measured.get(name)))
        for name, words in _TOTALS.items()
        if name in bounds and totals.get(name) is None
    ]


def placed_lines(operation: Operation) -> list[PlacedLine]:
    """The partitions of an operation's plan with what came of them, those that cost most first."""
    return placed_of(operation.plan, outcome_rows(operation))


def placed_of(plan: Mapping[str, Any] | None, came: Sequence[Mapping[str, Any]] = ()) -> list[PlacedLine]:
    """The partitions of a plan; ``came`` is what was measured of them."""
    measured = {(row["topic"], row["partition"]): row for row in came}
    plan = plan or {}
    rows = [row for row in plan.get("partitions") or () if "target_topic" in row]
    lines = [_placed(row, measured.get((row["target_topic"], row["target_partition"]), {})) for row in rows]
    return sorted(lines, key=_cost, reverse=True)


def _placed(row: Mapping[str, Any], came: Mapping[str, Any]) -> PlacedLine:
    return PlacedLine(
        topic=row["target_topic"],
        partition=row["target_partition"],
        offset=row.get("offset"),
        target_offset=row.get("target_offset"),
        method=row.get("method") or "none",
        replay=_pair("replay_records", row, came),
        exposure=_pair("exposure_records", row, came),
        note=row.get("note") or "",
    )


def _pair(name: str, row: Mapping[str, Any], came: Mapping[str, Any]) -> ForecastLine:
    return ForecastLine(what=name, forecast=_number(row.get(name)), measured=_number(came.get(name)))


def _cost(line: PlacedLine) -> tuple[bool, float, float]:
    """A partition without a place, or whose cost is not known, is the worst."""
    exposure, replay = (
        max(each.forecast or 0.0, each.measured or 0.0) for each in (line.exposure, line.replay)
    )  # fmt: skip
    return line.target_offset is None, exposure, replay


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
