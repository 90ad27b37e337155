"""One operation as the page shows it: its steps in time, its gates, and the forecast beside what came of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.decide.move.outcome import PartitionOutcome, outcome_rows
from state.model.entities import Operation, Step
from state.model.plan import Gate, Plan, PlannedPartition, UpperBound


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
    """One number that was forecast, and what was measured; None where it is unknown, or not known yet."""

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


def gates_of(plan: Plan | None) -> list[Gate]:
    """The gates of a plan, those that refuse first."""
    return sorted(plan.gates if plan is not None else (), key=lambda gate: gate.ok)


_TOTALS = {
    "replay_records": "records read twice",
    "replay_later_records": "records read twice once the replicator brings them",
    "exposure_records": "records left behind",
}


def forecast_lines(operation: Operation) -> list[ForecastLine]:
    """The totals of a plan beside what was measured; none without a plan."""
    if operation.plan is None:
        return []
    totals, most = operation.plan.totals, operation.plan.totals.at_most or UpperBound()
    measured = operation.measured
    came = {
        "replay_records": _number(measured.replay_records),
        "replay_later_records": _number(measured.replay_later_records),
        "exposure_records": _number(measured.exposure_records),
    }
    forecasts = {
        "replay_records": (totals.replay_records, None),
        "replay_later_records": (totals.replay_later_records, most.replay_later_records),
        "exposure_records": (totals.exposure_records, most.exposure_records),
    }
    lines = [
        ForecastLine(what=_TOTALS[name], forecast=each, measured=came[name]) for name, (each, _) in forecasts.items()
    ]
    return lines + [
        ForecastLine(what=f"{_TOTALS[name]}, at most", forecast=bound, measured=came[name])
        for name, (forecast, bound) in forecasts.items()
        if totals.at_most is not None and name != "replay_records" and forecast is None
    ]


def placed_lines(operation: Operation) -> list[PlacedLine]:
    """The partitions of an operation's plan with what came of them, those that cost most first."""
    return placed_of(operation.plan, outcome_rows(operation))


def placed_of(plan: Plan | None, came: Sequence[PartitionOutcome] = ()) -> list[PlacedLine]:
    """The partitions of a plan; ``came`` is what was measured of them."""
    measured = {(row.topic, row.partition): row for row in came}
    rows = [row for row in (plan.partitions if plan is not None else ()) if row.target_topic]
    lines = [_placed(row, measured.get((row.target_topic, row.target_partition))) for row in rows]
    return sorted(lines, key=_cost, reverse=True)


def _placed(row: PlannedPartition, came: PartitionOutcome | None) -> PlacedLine:
    replay = came.replay_records if came is not None else None
    exposure = came.exposure_records if came is not None else None
    return PlacedLine(
        topic=row.target_topic,
        partition=row.target_partition,
        offset=row.offset,
        target_offset=row.target_offset,
        method=row.method or "none",
        replay=ForecastLine(what="replay_records", forecast=row.replay_records, measured=replay),
        exposure=ForecastLine(what="exposure_records", forecast=row.exposure_records, measured=exposure),
        note=row.note,
    )


def _cost(line: PlacedLine) -> tuple[bool, float, float]:
    """A partition without a place, or whose cost is not known, is the worst."""
    exposure, replay = (
        max(each.forecast or 0.0, each.measured or 0.0) for each in (line.exposure, line.replay)
    )  # fmt: skip
    return line.target_offset is None, exposure, replay


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
