"""What plans cost, in one sentence and for each query."""

from dataclasses import replace

import pytest

from orchestrator.decide.desk.plan_cost import again_later, cost, group_rows
from state.model.plan import Plan
from tests.unit.orchestrator.cli.test_plan_summary import moved, plan


def test_the_cost_of_a_move_is_one_sentence_of_proven_numbers() -> None:
    earlier = [moved(16.04)]
    assert (
        cost([plan("a")], earlier, at_once=1) == "Reads 0 records twice, leaves 0 records behind, takes about 16.0 s."
    )
    assert cost([plan("a", replay=1, exposure=None)], (), at_once=1) == (
        "Reads 1 record twice, leaves an unknown number of records behind, takes an unknown time."
    )
    both = [plan("a", exposure=3), plan("b", exposure=None), plan("c", "lag", exposure=99)]
    assert cost(both, [moved(40)], at_once=1) == (
        "Reads 0 records twice, leaves at most 3 records for each query (unknown for 1 of 2 queries) behind, "
        "takes about 1 min 20 s."
    )
    assert cost([plan("c", "lag")], earlier, at_once=1) == "Nothing moves: a gate refuses."


def test_a_row_of_a_group_has_the_reason_of_a_refusal_and_its_own_time() -> None:
    first, second, there = group_rows(
        [plan("a", exposure=None), plan("b", "lag", "loss"), plan("c", "not-already-there")],
        [replace(moved(2.0), query="a"), replace(moved(9.0), query="b"), replace(moved(4.0), query="a")],
    )
    assert (first.seconds, first.refusals, first.is_there) == (3.0, (), False)
    assert (second.seconds, second.refusals) == (9.0, ("lag: no", "loss: no"))
    assert (there.seconds, there.refusals, there.is_there) == (4.0, ("not-already-there: no",), True)


def test_records_of_a_topic_that_many_queries_leave_are_not_added_up() -> None:
    cost_text = cost([plan("a", exposure=3), plan("b", exposure=4)], (), at_once=1)
    assert "leaves at most 4 records for each query (7 counted once per query) behind" in cost_text


@pytest.mark.parametrize("kind", ["switchover", "failback"])
def test_a_planned_move_leaves_nothing_behind_and_says_what_it_waits_for(kind: str) -> None:
    def cost_text(*later: int | None) -> str:
        plans = [plan(f"q{number}", exposure=9, later=each, kind=kind) for number, each in enumerate(later)]
        return cost(plans, (), at_once=1)

    moves = "Reads 0 records twice, leaves none behind, takes an unknown time."
    assert cost_text(0) == cost_text(0, 0) == moves
    assert cost_text(4) == f"{moves} It first waits for 4 records that west does not have yet."
    assert cost_text(None) == f"{moves} It first waits for an unknown number of records that west does not have yet."
    each = f"{moves} Each query first waits for records that its target does not have yet"
    assert cost_text(4, 1) == f"{each}: at most 4 records each now."
    assert cost_text(4, None) == f"{each}: at most 4 records each now, unknown for 1 of 2 queries."
    assert cost_text(None, 0) == f"{each}: how many is unknown."


@pytest.mark.parametrize(
    ("plans", "said"),
    [
        ([plan("a", later=1)], "1 record that the query has"),
        ([plan("a", later=None)], "an unknown number of records that the query has"),
        ([plan("a", later=2), plan("b", later=3)], "each query up to 3 records that it has"),
        (
            [plan("a", later=2), plan("b", later=None)],
            "each query up to 2 records (unknown for 1 of 2 queries) that it has",
        ),
        ([plan("a", later=0), plan("b", later=None)], "each query an unknown number of records that it has"),
        ([plan("a"), plan("b", "lag", later=5)], None),
        ([plan("a", later=5, kind="failback")], None),
        ([plan("a", later=5, kind="switchover")], None),
    ],
)
def test_a_failover_says_how_much_a_running_replicator_would_repeat(plans: list[Plan], said: str | None) -> None:
    assert again_later(plans) == (
        "" if said is None else f"Stop the replicator first: it would bring {said} read already."
    )
    if plans[0].kind == "failover":
        assert cost(plans, (), at_once=1).endswith(again_later(plans) or "time.")
