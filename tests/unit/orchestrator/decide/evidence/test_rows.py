"""What the sink got before and after a move: rows that came late, and an output that stopped."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.evidence.claims import LATE, OUTPUT, SINK, Claim, Verdict, verdict_of
from orchestrator.decide.evidence.rows import (
    of_rows,
    of_sink,
    operation_rows,
    rows_json,
    rows_since,
)
from orchestrator.decide.move.forecast import rows_before_of
from state.model.entities import QueryFact
from state.model.measured import NO_ROWS, NOTHING, RECENT, BatchRows, Measured, RowCounts, RowSums
from state.model.plan import Plan
from streaming.spark.query.query_report import Totals
from tests.contract import samples

HOLDS, WRONG, UNKNOWN = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.CANNOT_BE_CHECKED


def counts(batches: int, *, read: int = 100, written: int | None = 10, dropped: int = 0) -> RowCounts:
    """Batches that are all alike."""
    found = NO_ROWS
    for batch in range(batches):
        found = found.after(BatchRows(batch, read, written, dropped))
    return found


def fact(rows: RowCounts | None, **changes: Any) -> QueryFact:
    return samples.fact(rows=rows, **changes)


def claims(before: RowCounts | None, after: RowCounts | None) -> dict[str, Claim]:
    since = None if after is None else rows_since(None, fact(after))
    return {each.name: each for each in of_rows(rows_json(rows_before_of(fact(before), "east"), since))}


STEADY = counts(20)
LATE_CASES: dict[str, tuple[RowCounts | None, RowCounts | None, Verdict]] = {
    "none was dropped": (STEADY, counts(5), HOLDS),
    "some were, and none before": (STEADY, counts(5, dropped=1), WRONG),
    "as many as before": (counts(20, dropped=3), counts(5, dropped=3), HOLDS),
    "thrice as many as before": (counts(20, dropped=3), counts(5, dropped=9), WRONG),
    "some were, and before is unknown": (None, counts(5, dropped=1), UNKNOWN),
    "nothing was read yet": (STEADY, None, UNKNOWN),
}
OUTPUT_CASES: dict[str, tuple[RowCounts | None, RowCounts | None, Verdict]] = {
    "as much as before": (STEADY, counts(5), HOLDS),
    "nothing, after enough input": (STEADY, counts(5, written=0), WRONG),
    "a hundredth, after enough input": (counts(20, written=100), counts(5, written=1), WRONG),
    "nothing, in the first batches": (STEADY, counts(2, written=0), UNKNOWN),
    "nothing, of little input": (STEADY, counts(6, read=1, written=0), UNKNOWN),
    "nothing was written before": (counts(20, written=0), counts(5, written=0), UNKNOWN),
    "too few batches before": (counts(2), counts(5, written=0), UNKNOWN),
    "a sink that does not say": (counts(20, written=None), counts(5, written=None), UNKNOWN),
    "nothing is known": (None, counts(5), UNKNOWN),
}


@pytest.mark.parametrize("case", LATE_CASES)
def test_rows_dropped_by_the_watermark_are_compared_with_those_before(case: str) -> None:
    before, after, verdict = LATE_CASES[case]
    assert claims(before, after)[LATE].verdict is verdict


@pytest.mark.parametrize("case", OUTPUT_CASES)
def test_an_output_that_stops_with_the_move_is_a_claim_that_does_not_hold(case: str) -> None:
    before, after, verdict = OUTPUT_CASES[case]
    assert claims(before, after)[OUTPUT].verdict is verdict


def test_a_claim_names_its_numbers() -> None:
    late = claims(STEADY, counts(5, dropped=1))[LATE]
    assert (late.expected, late.found) == (0, 5)
    assert late.text == "5 of 500 rows read since the move were dropped by the watermark, and 0 of 2000 before it"
    stopped = claims(STEADY, counts(5, written=0))[OUTPUT]
    assert (stopped.expected, stopped.found) == (50, 0)
    assert stopped.text.endswith("50 at the rate of before: the output has stopped")


def test_a_count_that_a_sink_does_not_report_decides_nothing() -> None:
    known = Claim("replay", "t", 0, HOLDS, 0, 0, "")
    assert verdict_of([known, *claims(None, counts(5, written=None)).values()]) is HOLDS
    assert verdict_of([known, *claims(STEADY, counts(5, written=0)).values()]) is WRONG


@pytest.mark.parametrize(("took", "verdict"), [(True, HOLDS), (False, WRONG), (None, UNKNOWN), ("yes", UNKNOWN)])
def test_a_sink_that_took_nothing_of_the_first_batch_fails_its_claim(took: object, verdict: Verdict) -> None:
    found = of_sink(took)
    assert (found.name, found.verdict) == (SINK, verdict)
    known = Claim("replay", "t", 0, HOLDS, 0, 0, "")
    assert verdict_of([known, found]) is (WRONG if verdict is WRONG else HOLDS)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.one_of(st.none(), st.integers(0, 50)), st.integers(0, 5)), max_size=90)
)
def test_counts_add_up_and_stay_small(given: list[tuple[int, int | None, int]]) -> None:
    found = NO_ROWS
    for batch, rows in enumerate(given):
        found = found.after(BatchRows(batch, *rows))
    assert found.read == sum(read for read, _, _ in given)
    assert found.dropped == sum(dropped for _, _, dropped in given)
    unknown = any(written is None for _, written, _ in given)
    assert found.written == (None if unknown else sum(written or 0 for _, written, _ in given))
    assert len(found.recent) <= RECENT
    assert found.batches == sum(read > 0 for read, _, _ in given)


def test_a_run_that_is_started_again_loses_nothing_of_what_was_counted() -> None:
    first = rows_since(None, fact(counts(3, dropped=2)))
    grown = rows_since(first, fact(counts(4, dropped=2)))
    assert grown is not None
    assert grown.total == RowSums(batches=4, read=400, written=40, dropped=8)
    again = fact(counts(2, dropped=1), started_at=samples.AT + 60 * samples.SECOND)
    total = rows_since(grown, again)
    assert total is not None
    assert total.total == RowSums(batches=6, read=600, written=60, dropped=10)
    assert total.first == BatchRows(0, 100, 10, 2)
    assert rows_since(total, replace(again, rows=None)) == total


def test_the_run_on_another_cluster_is_not_the_one_before() -> None:
    assert rows_before_of(fact(STEADY), "west") is None
    known = rows_before_of(fact(STEADY), "east")
    assert known is not None
    assert known.as_json() == {"batches": 20, "read": 2000, "written": 200, "dropped": 0, "usual_batch": 100}


def test_an_operation_shows_its_rows_beside_each_other() -> None:
    plan = Plan(rows_before=rows_before_of(fact(STEADY), "east"))
    since = Measured(rows_since=rows_since(None, fact(counts(2))))
    shown = operation_rows(samples.operation(plan=plan, measured=since, outcome="done"))
    assert shown is not None
    assert shown["after"] == {"batches": 2, "read": 200, "written": 20, "dropped": 0}
    assert operation_rows(samples.operation(plan=Plan(), measured=NOTHING, outcome="done")) is None


def progress(batch: int, read: int, *, written: int = -1, dropped: int = 0) -> dict[str, Any]:
    """As Spark reports it."""
    return {
        "batchId": batch, "numInputRows": read, "durationMs": {"addBatch": 5, "triggerExecution": 9},
        "sink": {"description": "x", "numOutputRows": written},
        "stateOperators": [{"numRowsDroppedByWatermark": dropped}],
    }  # fmt: skip


def test_rows_are_taken_from_sparks_progress_and_minus_1_is_unknown() -> None:
    totals = Totals().after([progress(1, 5, written=4, dropped=1), progress(2, 7, written=6)])
    assert totals.rows[:4] == (2, 12, 10, 1)
    assert totals.rows.usual == 6
    assert Totals().after([progress(1, 5)]).rows.written is None
    assert totals.after([progress(2, 7, written=6)]) == totals, "a batch counts once"
