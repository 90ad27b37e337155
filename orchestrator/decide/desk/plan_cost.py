"""What plans cost together: records read twice, records left behind, and the time. Pure.

The question of the command line and the page of a plan have the same sentence from here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from statistics import median

from orchestrator.decide.gates.copies import CAUGHT_UP
from orchestrator.decide.operation.turns import THERE
from orchestrator.decide.times import length
from state.model.entities import Operation, OperationKind
from state.model.plan import Plan, Totals
from state.plain_text import amount


def cost(plans: Sequence[Plan], moved: Sequence[Operation], *, at_once: int) -> str:
    """One sentence: how many records are read twice, how many stay behind, how long it takes."""
    moving = [each for each in plans if not each.refused]
    if not moving:
        return "Nothing moves: a gate refuses." if len(plans) == 1 else "Nothing moves: gates refuse all of them."
    twice = _amount(moving, lambda totals: totals.replay_records)
    seconds = expected_seconds(len(moving), seconds_taken(moved), at_once)
    time = "an unknown time" if seconds is None else f"about {_length(seconds)}"
    if all(plan.rewind is not None for plan in moving):
        return f"Reads {twice} twice, takes {time}."  # it stays on its cluster
    if all(waits_for_copies(plan) for plan in moving):
        waits = waits_of(moving)
        return f"Reads {twice} twice, leaves none behind, takes {time}.{f' {waits}' if waits else ''}"
    later = again_later(moving)
    return f"Reads {twice} twice, leaves {_behind(moving)} behind, takes {time}.{f' {later}' if later else ''}"


def waits_for_copies(plan: Plan) -> bool:
    """Whether it is a planned move: it begins on the target once that has every record that the query has read.

    What the target lacks at the time of the plan is still on its way, and is neither left behind nor read twice.
    """
    return any(gate.name == CAUGHT_UP for gate in plan.gates)


def waits_of(plans: Iterable[Plan]) -> str:
    """What planned moves wait for first; empty where the target has it all."""
    plans = [each for each in plans if not each.refused and waits_for_copies(each)]
    known, unknown = _later(plans)
    if not unknown and not any(known):
        return ""
    if len(plans) == 1:
        records = amount(known[0], "record") if known else "an unknown number of records"
        return f"It first waits for {records} that {plans[0].target} does not have yet."
    most = f"at most {amount(max(known), 'record')} each now" if any(known) else "how many is unknown"
    some = f", unknown for {unknown} of {len(plans)} queries" if any(known) and unknown else ""
    return f"Each query first waits for records that its target does not have yet: {most}{some}."


def _later(plans: Sequence[Plan]) -> tuple[list[int], int]:
    """How many records that were read each target lacks, where that is known, and of how many it is not."""
    numbers = [each.totals.replay_later_records for each in plans]
    known = [number for number in numbers if number is not None]
    return known, len(numbers) - len(known)


def again_later(plans: Sequence[Plan]) -> str:
    """What failovers read twice if the replicator runs on, and what to do against it; empty where it is nothing.

    A planned move waits for these copies, and needs the replicator.
    """
    failovers = [
        each for each in plans if not (each.refused or waits_for_copies(each)) and each.kind == OperationKind.FAILOVER
    ]
    known, missing = _later(failovers)
    if not missing and not any(known):
        return ""
    records = amount(max(known), "record") if any(known) else "an unknown number of records"
    unknown = f" (unknown for {missing} of {len(failovers)} queries)" if any(known) and missing else ""
    if len(failovers) == 1:
        return f"Stop the replicator first: it would bring {records} that the query has read already."
    most = f"up to {records}" if any(known) else records
    return f"Stop the replicator first: it would bring each query {most}{unknown} that it has read already."


def _length(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else length(timedelta(seconds=seconds))


def _behind(plans: Sequence[Plan]) -> str:
    """What failovers leave behind. Queries of one topic leave the same records: their sum is no number of records."""
    known = [number for each in plans if (number := each.totals.exposure_records) is not None]
    if len(plans) == 1 or not any(known):
        return _amount(plans, lambda totals: totals.exposure_records)
    unknown = len(plans) - len(known)
    notes = [f"{sum(known)} counted once per query"] if len(known) > 1 else []
    notes += [f"unknown for {unknown} of {len(plans)} queries"] if unknown else []
    return f"at most {amount(max(known), 'record')} for each query ({', '.join(notes)})"


def _amount(plans: Sequence[Plan], total: Callable[[Totals], int | None]) -> str:
    numbers = [total(each.totals) for each in plans]
    known = [number for number in numbers if number is not None]
    if not known:
        return "an unknown number of records"
    records = amount(sum(known), "record")
    unknown = len(numbers) - len(known)
    return f"{records} (unknown for {unknown} of {len(numbers)} queries)" if unknown else records


def expected_seconds(queries: int, took: Sequence[float], at_once: int) -> float | None:
    """The median of earlier moves, for each row of those that move side by side; None where none was measured."""
    return ceil(queries / at_once) * median(took) if took else None


def seconds_taken(moved: Sequence[Operation]) -> list[float]:
    """The seconds of earlier moves that were measured."""
    return [seconds for each in moved if (seconds := each.measured.switch_seconds) is not None]


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRow:
    """One query of a group of plans."""

    plan: Plan
    refusals: tuple[str, ...]
    """Each gate that refuses, with its sentence."""
    is_there: bool
    """Whether it is where it was to go already: nothing is wrong with it."""
    waits: bool
    """Whether it begins only once all that was read is there, and so leaves nothing behind."""
    seconds: float | None
    """The median of earlier moves of this query, else of all; None where none was measured."""


def group_rows(plans: Iterable[Plan], moved: Sequence[Operation]) -> list[GroupRow]:
    """One row for each plan, in the same order."""
    every = seconds_taken(moved)
    rows = []
    for plan in plans:
        own = seconds_taken([each for each in moved if each.query == plan.query])
        rows.append(
            GroupRow(
                plan=plan,
                refusals=tuple(f"{gate.name}: {gate.text}" for gate in plan.refusing),
                is_there=any(gate.name == THERE for gate in plan.refusing),
                waits=waits_for_copies(plan),
                seconds=median(own or every) if own or every else None,
            )
        )
    return rows
