"""Plans of many queries, for people: what they come to together, then a line for each; whole plans of a few."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from orchestrator.cli import render, tables
from orchestrator.cli.operation_text import plan_text
from orchestrator.decide.desk.plan_cost import again_later, cost, expected_seconds, seconds_taken, waits_of
from orchestrator.decide.operation.turns import THERE
from state.model.entities import Operation
from state.model.plan import Plan, Totals

MOST_WHOLE = 5
"""Of this many queries the whole plans are shown without an option."""
_SAID_EVERY = 25
_COLUMNS = (
    "query", "from", "to", "wave", "after", "replay_records", "exposure_records", "exposure_seconds", "refused_by",
)  # fmt: skip


def said(plans: Sequence[Plan], moved: Sequence[Operation], *, at_once: int, details: bool) -> str:
    """The text about several plans; ``moved`` are earlier operations, by which the time is estimated."""
    if not plans:
        return "there is nothing to move"
    if len(plans) == 1:
        return plan_text(plans[0], cost(plans, moved, at_once=at_once), details=details)
    text = [summary(plans, moved, at_once=at_once)]
    if details or len(plans) <= MOST_WHOLE:
        text += [plan_text(each, cost([each], moved, at_once=1), details=details) for each in plans]
    else:
        text += [tables.table([_row(each) for each in _refused_first(plans)], _COLUMNS), "--details shows every plan"]
    return "\n\n".join(text)


def counted(plans: Iterator[Plan], most: int) -> Iterator[Plan]:
    """The same plans; says how many there are so far, since each of them reads from the clusters."""
    for number, each in enumerate(plans, start=1):
        yield each
        if number % _SAID_EVERY == 0 and number < most:
            render.talk(f"planned {number} of {most}")


def summary(plans: Sequence[Plan], moved: Sequence[Operation], *, at_once: int) -> str:
    """A few lines: how many can move, which gates refuse how many, the worst exposure, what is read twice, how long."""
    there = [each for each in plans if THERE in _refusing(each)]
    refused = [each for each in plans if each.refused and each not in there]
    can_move = len(plans) - len(refused) - len(there)
    already = f", {len(there)} already there" if there else ""
    lines = [f"{len(plans)} queries: {can_move} can move, {len(refused)} refused{already}"]
    gates = Counter(gate for each in refused for gate in _refusing(each))
    named = {gate: next(each.query for each in refused if gate in _refusing(each)) for gate in gates}
    lines += [
        f"  {gate} refuses {number}: {named[gate]}" + (f" and {number - 1} more" if number > 1 else "")
        for gate, number in gates.most_common()
    ]
    lines.append("  " + _summed(plans, "exposure", lambda totals: totals.exposure_records, are_shared=True))
    lines.append("  " + _summed(plans, "read twice", lambda totals: totals.replay_records))
    if can_move:
        lines.append("  " + _time(can_move, moved, at_once))
    if later := again_later(plans) or waits_of(plans):
        lines.append(f"  {later}")
    sizes = Counter(each.wave for each in plans if each.wave is not None)
    if sizes:
        waves = ", then ".join(f"{sizes[wave]}" for wave in sorted(sizes))
        lines.append(f"  waves: {waves}; each begins when all moves before it are done")
    return "\n".join(lines)


def _refusing(plan: Plan) -> list[str]:
    return [gate.name for gate in plan.refusing]


def _refused_first(plans: Sequence[Plan]) -> list[Plan]:
    return sorted(plans, key=lambda each: not each.refused)


def _row(plan: Plan) -> Mapping[str, object]:
    return {
        "query": plan.query,
        "from": plan.source,
        "to": plan.target,
        "wave": plan.wave,
        "after": ", ".join(plan.after),
        **plan.totals.as_json(),
        "refused_by": ", ".join(_refusing(plan)),
    }


def _summed(
    plans: Sequence[Plan], what: str, total: Callable[[Totals], int | None], *, are_shared: bool = False
) -> str:
    """A line of sums; ``are_shared``: queries of one topic count the same records, each once."""
    known = [(number, each.query) for each in plans if (number := total(each.totals)) is not None]
    if not known:
        return f"{what}: unknown for all {len(plans)}"
    worst, query = max(known)
    of = f" ({query})" if worst else ""
    unknown = f"; unknown for {len(plans) - len(known)}" if len(known) < len(plans) else ""
    together = sum(each for each, _ in known)
    if are_shared:
        return f"{what}: {worst} records of a query at most{of}, {together} counted once per query{unknown}"
    return f"{what}: {together} records in all, {worst} at most{of}{unknown}"


def _time(queries: int, moved: Sequence[Operation], at_once: int) -> str:
    took = seconds_taken(moved)
    seconds = expected_seconds(queries, took, at_once)
    if seconds is None:
        return "expected time: unknown, no move was measured yet"
    middle = f"median of {len(took)} earlier moves {median(took):.1f} s"
    return f"expected time: about {seconds:.1f} s ({queries} queries, {at_once} at once; {middle})"
