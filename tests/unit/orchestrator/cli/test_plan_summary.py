"""What a person reads before many queries move: what they come to together, then a line for each."""

from dataclasses import replace

import pytest

from orchestrator.cli.operation_text import plan_text
from orchestrator.cli.plan_summary import MOST_WHOLE, counted, said, summary
from state.model.entities import Operation
from state.model.measured import Measured
from state.model.plan import Gate, Plan, PlannedPartition, Totals, UpperBound
from tests.contract import samples


def plan(
    query: str, *refusing: str, replay: int | None = 0, exposure: int | None = 0, later: int | None = 0,
    kind: str = "failover",
) -> Plan:  # fmt: skip
    """Of ``replay`` and what follows, what the totals say; a planned move has the gate at which it waits."""
    gates = [{"name": each, "ok": False, "measured": 1, "limit": 0, "text": "no"} for each in refusing]
    if kind in {"switchover", "failback"}:
        gates.append({"name": "caught-up", "ok": True, "measured": 1, "limit": 1, "text": "yes"})
    totals = {"replay_records": replay, "exposure_records": exposure, "exposure_seconds": None}
    totals["replay_later_records"] = later
    return Plan.of({
        "kind": kind, "query": query, "from": "east", "to": "west", "resume": "carry", "epoch": 2,
        "resume_text": "a new checkpoint",
        "uncommitted_batch": "none", "fence": "pending", "gates": gates, "partitions": [], "totals": totals,
        "refused": bool(refusing),
    })  # fmt: skip


def moved(seconds: float) -> Operation:
    return replace(samples.operation(), measured=Measured(switch_seconds=seconds))


def test_gates_that_refuse_are_counted_with_one_query_each() -> None:
    plans = [plan("a"), plan("b", "exposure", "standby-reachable"), plan("c", "exposure"), plan("d", "lag")]
    text = summary(plans, (), at_once=128).splitlines()
    assert text[:4] == [
        "4 queries: 1 can move, 3 refused",
        "  exposure refuses 2: b and 1 more",
        "  standby-reachable refuses 1: b",
        "  lag refuses 1: d",
    ]


def test_a_query_that_is_there_already_is_not_refused() -> None:
    text = summary([plan("a"), plan("b", "not-already-there")], (), at_once=128)
    assert text.splitlines()[0] == "2 queries: 1 can move, 0 refused, 1 already there"


def test_sums_name_the_worst_and_say_of_how_many_nothing_is_known() -> None:
    plans = [plan("a", replay=5, exposure=7), plan("b", replay=6, exposure=None), plan("c", replay=0, exposure=9)]
    text = summary(plans, (), at_once=128)
    assert "  exposure: 9 records of a query at most (c), 16 counted once per query; unknown for 1\n" in text
    assert "  read twice: 11 records in all, 6 at most (b)\n" in text
    assert "exposure: unknown for all 1" in summary([plan("a", exposure=None)], (), at_once=1)


@pytest.mark.parametrize(
    ("queries", "at_once", "seconds"), [(4, 128, "2.0"), (5, 2, "6.0"), (4, 2, "4.0"), (1, 1, "2.0")]
)
def test_the_time_is_that_of_earlier_moves_for_each_row(queries: int, at_once: int, seconds: str) -> None:
    plans = [plan(f"q{number}") for number in range(queries)]
    text = summary(plans, [moved(1.0), moved(2.0), moved(9.0), samples.operation()], at_once=at_once)
    assert f"expected time: about {seconds} s ({queries} queries, {at_once} at once; median of 3 earlier moves" in text
    assert "expected time: unknown" in summary(plans, [samples.operation()], at_once=at_once)


def test_many_plans_are_lines_with_the_refused_ones_first() -> None:
    plans = [plan(f"q{number}") for number in range(MOST_WHOLE)] + [plan("last", "exposure")]
    lines = said(plans, (), at_once=128, details=False).splitlines()
    below = lines[next(number for number, line in enumerate(lines) if line.startswith("-----")) + 1 :]
    assert below[0].startswith("last  ")
    assert below[0].endswith("  exposure")
    assert below[1].startswith("q0  ")
    assert lines[-1] == "--details shows every plan"
    whole = said(plans, (), at_once=128, details=True)
    assert whole.count("failover of ") == len(plans)
    assert said(plans[:MOST_WHOLE], (), at_once=128, details=False).count("failover of ") == MOST_WHOLE
    assert said(plans[:1], (), at_once=128, details=False).startswith("failover of q0 from east to west")


def test_a_plan_shows_its_upper_bounds_on_a_line_of_their_own() -> None:
    bounds = {"exposure_records": 900, "exposure_seconds": 45.0, "replay_later_records": 700}
    shown = plan_text(replace(plan("q1"), totals=Totals(at_most=UpperBound.of(bounds))))
    assert shown.endswith(
        "exposure sampled at unknown\n\n  at most: exposure records 900, exposure seconds 45, replay later records 700"
    )


def test_a_long_count_of_plans_shows_its_progress(capsys: pytest.CaptureFixture[str]) -> None:
    plans = [plan(f"q{number}") for number in range(50)]
    assert list(counted(iter(plans), 50)) == plans
    assert capsys.readouterr().err == "planned 25 of 50\n"


def test_a_plan_names_the_source_of_each_partition_where_a_query_has_several() -> None:
    row = PlannedPartition(source="s", topic="t")
    one = replace(plan("q"), partitions=(row,))
    two = replace(plan("q"), partitions=(row, replace(row, source="again")))
    assert "again" in plan_text(two)
    assert "source" not in plan_text(one)


def test_a_single_plan_folds_the_gates_that_pass_until_details_are_wanted() -> None:
    gates = [Gate(name=name, ok=ok, measured=measured, limit="", text="no") for name, ok, measured in (
        ("quorum", True, "1"), ("lag", True, "unknown"), ("exposure", False, "9"),
    )]  # fmt: skip
    one = replace(plan("a"), gates=tuple(gates))
    folded = said([one], (), at_once=1, details=False)
    assert "1 other gates pass; --details shows them" in folded
    assert ["quorum" in folded, "lag" in folded, "exposure" in folded] == [False, True, True]
    assert "  quorum " in said([one], (), at_once=1, details=True)


def test_a_summary_says_when_to_stop_the_replicator() -> None:
    assert (
        "  Stop the replicator first: it would bring each query up to 4 records that it has read already."
        in summary([plan("a", later=3), plan("b", later=4), plan("c", "lag", later=90)], (), at_once=1).splitlines()
    )
    assert "replicator" not in summary([plan("a"), plan("b")], (), at_once=1)


def test_a_summary_of_planned_moves_says_what_they_wait_for() -> None:
    plans = [plan("a", later=3, kind="failback"), plan("b", later=4, kind="failback"), plan("c", kind="failback")]
    text = summary(plans, (), at_once=1).splitlines()
    assert "  Each query first waits for records that its target does not have yet: at most 4 records each now." in text
