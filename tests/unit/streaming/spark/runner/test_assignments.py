"""What a runner does with its rows, and how long it waits between starts."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from state.model.entities import Assignment, Desired, OperationKind
from streaming.spark.runner.assignments import FenceWait, Skip, Start, Stop, decide_runs, may_run
from streaming.spark.runner.supervisor import pause_seconds
from tests.contract import samples

ROW = Assignment(
    query="revenue",
    epoch=3,
    placed_epoch=1,
    desired=Desired.RUNNING,
    cluster="east",
    runner="a",
    checkpoint="/checkpoints/revenue",
    starting_offsets=None,
    operation=None,
    changed_at=datetime(2026, 1, 1, tzinfo=UTC),
)
NEWER = replace(ROW, epoch=4)


def test_a_row_of_ours_that_is_not_hosted_is_started() -> None:
    assert decide_runs("a", [ROW], {}, {}) == [Start(ROW)]


def test_queries_of_a_higher_priority_start_first_behind_all_stops() -> None:
    rows = [replace(ROW, query=name) for name in ("a", "b", "c", "stop")]
    rows[-1] = replace(rows[-1], epoch=4, desired=Desired.HELD)
    done = decide_runs("a", rows, {"stop": ROW}, {}, priority={"a": 0, "b": 2, "c": 2, "stop": 9}.__getitem__)
    assert [type(each) for each in done] == [Stop, Start, Start, Start]
    assert [each.assignment.query for each in done if isinstance(each, Start)] == ["b", "c", "a"]


def test_a_run_that_agrees_with_its_row_is_left_alone() -> None:
    assert decide_runs("a", [ROW], {"revenue": ROW}, {"revenue": 3}) == []


def test_a_run_whose_row_gives_it_to_another_runner_is_stopped() -> None:
    row = replace(ROW, runner="b")
    assert decide_runs("a", [row], {"revenue": ROW}, {"revenue": 3}) == [Stop("revenue", 3, "runner b has it now")]


def test_a_newer_epoch_stops_the_old_run_and_starts_the_new_at_once() -> None:
    row = replace(ROW, epoch=4, placed_epoch=4, cluster="west")
    assert decide_runs("a", [row], {"revenue": ROW}, {"revenue": 3}) == [
        Stop("revenue", 3, "epoch 3 is over, the assignment is at 4"),
        Start(row),
    ]


def test_a_newer_epoch_that_is_held_only_stops() -> None:
    row = replace(ROW, epoch=4, desired=Desired.HELD)
    assert decide_runs("a", [row], {"revenue": ROW}, {"revenue": 3}) == [
        Stop("revenue", 3, "epoch 3 is over, the assignment is at 4")
    ]


def test_a_query_held_by_a_planned_move_runs_until_its_fence() -> None:
    row = replace(ROW, epoch=4, desired=Desired.HELD, operation="op")
    assert decide_runs("a", [row], {"revenue": ROW}, {"revenue": 3}, lambda _: True) == []
    placed = replace(row, desired=Desired.RUNNING)
    assert decide_runs("a", [placed], {"revenue": ROW}, {"revenue": 3}, lambda _: True) == [
        Stop("revenue", 3, "epoch 3 is over, the assignment is at 4"),
        Start(placed),
    ]


def test_a_query_whose_row_is_gone_continues() -> None:
    assert decide_runs("a", [], {"revenue": ROW}, {"revenue": 3}) == []


def test_a_row_that_went_back_to_an_old_epoch_is_never_started() -> None:
    (refrain,) = decide_runs("a", [ROW], {}, {"revenue": 4})
    assert isinstance(refrain, Skip)
    assert refrain.why(is_held=True) == (
        "the store says epoch 3 of revenue, but said 4 before: the store was restored from an older backup; "
        "tideover reconcile revenue"
    )
    assert refrain.why(is_held=False).endswith("; restart runner a to continue from there")
    assert decide_runs("b", [ROW], {}, {"revenue": 4}) == []


@pytest.mark.parametrize("row", [replace(ROW, runner="b"), replace(ROW, desired=Desired.HELD)])
def test_nothing_is_started_for_others_or_while_it_is_held(row: Assignment) -> None:
    assert decide_runs("a", [row], {}, {}) == []


def test_a_run_continues_under_a_row_that_went_back_to_an_old_epoch() -> None:
    for row in (ROW, replace(ROW, runner="b"), replace(ROW, desired=Desired.HELD)):
        assert decide_runs("a", [row], {"revenue": NEWER}, {"revenue": 4}) == []


PLACED = replace(ROW, epoch=4, placed_epoch=4, cluster="west")


@pytest.mark.parametrize(
    "older",
    [
        replace(ROW, epoch=4, desired=Desired.HELD, operation="op"),
        replace(PLACED, desired=Desired.HELD, operation="op"),
        replace(PLACED, desired=Desired.HELD, operation="op", runner="b"),
        replace(ROW, epoch=5),
        replace(ROW, epoch=9, desired=Desired.HELD, operation="later"),
        replace(PLACED, epoch=5, cluster="south"),
        replace(PLACED, epoch=5, checkpoint="/checkpoints/other", operation="op"),
    ],
    ids=[
        "its own hold",
        "its hold, placed",
        "its hold, of another runner",
        "aborted since",
        "held since",
        "elsewhere",
        "another checkpoint",
    ],
)
def test_a_row_from_before_the_commit_of_a_run_never_stops_it(older: Assignment) -> None:
    assert decide_runs("a", [older], {"revenue": PLACED}, {"revenue": 4}) == []


def test_a_run_ends_where_a_person_has_put_a_copy_of_its_folder_in_its_place() -> None:
    """Its positions count on, so the row was not placed later. It could not start from the lost folder any more."""
    row = replace(PLACED, epoch=5, checkpoint="s3a://copy/revenue")
    assert decide_runs("a", [row], {"revenue": PLACED}, {"revenue": 4}) == [
        Stop("revenue", 4, "epoch 4 is over, the assignment is at 5"),
        Start(row),
    ]
    for older in (replace(row, epoch=4), replace(row, mapping="2-op.1"), replace(row, checkpoint="/c/epoch-2-op")):
        assert decide_runs("a", [older], {"revenue": PLACED}, {"revenue": 4}) == []


def test_a_row_of_the_same_place_is_obeyed_whenever_the_query_came_there() -> None:
    """As of a store that was restored from before an earlier restore."""
    row, under = replace(PLACED, epoch=6, placed_epoch=1), PLACED
    assert [type(each) for each in decide_runs("a", [row], {"revenue": under}, {"revenue": 4})] == [Stop, Start]


def test_a_hold_and_an_abort_behind_the_commit_of_a_run_are_obeyed() -> None:
    held = replace(PLACED, epoch=5, desired=Desired.HELD)
    assert [type(each) for each in decide_runs("a", [held], {"revenue": PLACED}, {"revenue": 4})] == [Stop]
    back = replace(PLACED, epoch=6)
    assert [type(each) for each in decide_runs("a", [back], {"revenue": PLACED}, {"revenue": 5})] == [Stop, Start]


def test_nothing_is_started_while_a_runner_reports_a_newer_epoch() -> None:
    assert may_run("a", ROW, 3, 3)
    assert not may_run("a", ROW, 3, 4)


def test_a_start_is_only_allowed_under_the_epoch_of_the_store() -> None:
    assert may_run("a", ROW, 3, None)
    assert not may_run("a", ROW, 2, None)
    assert not may_run("a", None, 3, None)
    assert not may_run("a", replace(ROW, desired=Desired.HELD), 3, None)


def test_pauses_double_up_to_half_a_minute() -> None:
    assert [pause_seconds(failures) for failures in (0, 1, 2, 3, 7, 8, 10_000)] == [
        0.0,
        0.5,
        1.0,
        2.0,
        30.0,
        30.0,
        30.0,
    ]


# -- what is left to its fence ---------------------------------------------------------------------------------------
HELD = replace(ROW, desired=Desired.HELD, operation="op")


def waits_for(kind: OperationKind, *, switched: bool = False, held: bool = False) -> list[bool]:
    """Whether the query is left to its fence at once, after 2 s, and after an hour."""
    passed = [0.0]
    found = samples.operation(id="op", query="revenue", kind=kind)
    wait = FenceWait(lambda _: found, lambda: passed[0], lambda _: switched, lambda _: held)
    left = []
    for seconds in (0.0, 2.0, 3600.0):
        passed[0] = seconds
        left.append(wait.goes_on(HELD))
    return left


def test_a_failover_stops_its_query_at_once_unless_it_can_be_held() -> None:
    assert waits_for(OperationKind.FAILOVER) == [False, False, False]
    assert waits_for(OperationKind.FAILOVER, switched=True) == [True, True, False]
    assert waits_for(OperationKind.SWITCHOVER) == [True, True, False]


def test_a_run_that_waits_in_its_hold_is_left_there() -> None:
    assert waits_for(OperationKind.FAILOVER, held=True) == [True, True, True]
