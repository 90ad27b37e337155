"""What a query's sink got before and after a move, and whether that changed with it. Pure.

A move that lost and repeated nothing in the logs may still have left the table wrong. Rows that come late are dropped
by the watermark, and a sink that knows a batch's id drops the batch. Both show in the rows that Spark counts, compared
with the same query's rows before the move. What it does not report is unknown.
"""

from collections.abc import Mapping
from typing import Any

from orchestrator.decide.evidence.claims import LATE, OUTPUT, SINK, Claim, Verdict
from orchestrator.decide.times import iso
from state.model.entities import Operation, QueryFact
from state.model.measured import RowsSince, RowSums
from state.model.plan import RowsBefore

STEADY_BATCHES = 5
"""Batches with input that must have gone before, and after, until the output says anything."""
LEAST_EXPECTED = 10.0
"""Rows that would have been written at the rate of before, below which none written means nothing."""
STOPPED_BELOW = 0.1
"""Share of the expected output under which it counts as stopped."""

Rows = Mapping[str, Any]


def rows_since(known: RowsSince | None, fact: QueryFact) -> RowsSince | None:
    """The rows since a move by what its run reported last; ``known``: what was kept before.

    The first batch that read anything is a row of its own: what a move delays is late in that one. A run that was
    started again counts from 0, so what the runs before it had counted is added.
    """
    if fact.rows is None:
        return known
    run, now = iso(fact.started_at), RowSums.of_run(fact.rows)
    if known is None:
        return RowsSince(run=run, first=fact.rows.first, total=now)
    earlier = known.earlier if known.run == run else known.total
    total = now if earlier is None else earlier.plus(now)
    return RowsSince(run=run, first=known.first or fact.rows.first, earlier=earlier, total=total)


def rows_json(before: RowsBefore | None, after: RowsSince | None) -> dict[str, object] | None:
    """Both side by side, as ``show-op`` and the evidence have them; None where nothing is known of either."""
    if before is None and after is None:
        return None
    return {
        "before": before.as_json() if before is not None else None,
        "first_batch": after.first._asdict() if after is not None and after.first is not None else None,
        "after": after.total.as_json() if after is not None else None,
    }


def operation_rows(operation: Operation) -> dict[str, object] | None:
    """``rows_json`` of what an operation keeps: of its plan, and of what was measured since."""
    before = operation.plan.rows_before if operation.plan is not None else None
    return rows_json(before, operation.measured.rows_since) if operation.outcome == "done" else None


def of_sink(took: object) -> Claim:
    """Whether the sink holds the first batch that the query committed after the move, as it was read right then.

    ``took``: as in ``Measured``, from a document. A sink that knows the batch's id drops the batch without a word.
    """
    found = took if isinstance(took, bool) else None
    verdict = {True: Verdict.HOLDS, False: Verdict.DOES_NOT_HOLD, None: Verdict.CANNOT_BE_CHECKED}[found]
    text = {
        True: "the sink held the first batch after the move",
        False: "the sink took nothing of the first batch after the move: it holds no commit of that batch",
        None: "the sink could not be read for the first batch after the move",
    }[found]
    return Claim(SINK, None, None, verdict, True, found, text)


def of_rows(rows: Rows | None) -> list[Claim]:
    """The two claims about what the sink got. ``rows`` as ``rows_json`` made them."""
    before, after = (None, None) if rows is None else (rows["before"], rows["after"])
    return [_late(before, after), _output(before, after)]


def _late(before: Rows | None, after: Rows | None) -> Claim:
    """No more rows are dropped by the watermark, for each row read, than before the move."""

    def claim(verdict: Verdict, text: str, expected: object = None) -> Claim:
        return Claim(LATE, None, None, verdict, expected, None if after is None else after["dropped"], text)

    if after is None or not after["read"]:
        return claim(Verdict.CANNOT_BE_CHECKED, "the query has reported no rows since the move")
    if not after["dropped"]:
        return claim(Verdict.HOLDS, f"no row of {after['read']} read since the move was dropped by the watermark", 0)
    counted = f"{after['dropped']} of {after['read']} rows read since the move were dropped by the watermark"
    if before is None or not before["read"]:
        return claim(Verdict.CANNOT_BE_CHECKED, f"{counted}; how many were dropped before it is unknown")
    usual = before["dropped"] / before["read"]
    expected = usual * after["read"]
    text = f"{counted}, and {before['dropped']} of {before['read']} before it"
    more = after["dropped"] - expected
    within = more <= 0 or (before["dropped"] > 0 and after["dropped"] <= 2 * expected)
    return claim(Verdict.HOLDS if within else Verdict.DOES_NOT_HOLD, text, round(expected))


def _output(before: Rows | None, after: Rows | None) -> Claim:
    """The sink still gets rows, where it got them steadily before the move."""

    def claim(verdict: Verdict, text: str, expected: object = None) -> Claim:
        return Claim(OUTPUT, None, None, verdict, expected, None if after is None else after["written"], text)

    if before is None or after is None:
        side = "before" if before is None else "since"
        return claim(Verdict.CANNOT_BE_CHECKED, f"the query has reported no rows {side} the move")
    if before["written"] is None or after["written"] is None:
        return claim(Verdict.CANNOT_BE_CHECKED, "the sink does not report how many rows it was given")
    if before["batches"] < STEADY_BATCHES or not before["read"] or not before["written"]:
        return claim(Verdict.CANNOT_BE_CHECKED, "too little was written before the move to compare with")
    expected = after["read"] * before["written"] / before["read"]
    counted = f"{after['written']} rows written of {after['read']} read since the move"
    counted = f"{counted}, {expected:.0f} at the rate of before"
    if after["written"] >= STOPPED_BELOW * expected and after["written"]:
        return claim(Verdict.HOLDS, counted, round(expected))
    if after["batches"] < STEADY_BATCHES or expected < LEAST_EXPECTED:
        return claim(Verdict.CANNOT_BE_CHECKED, f"{counted}: too little has been read since", round(expected))
    return claim(Verdict.DOES_NOT_HOLD, f"{counted}: the output has stopped", round(expected))
