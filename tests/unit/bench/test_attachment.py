"""The figures of an attached application: the move of the later query, and what is not known."""

from datetime import UTC, datetime, timedelta

import pytest

from bench.attached_batches import Attendance
from bench.attachment import Taken, rows, switched
from bench.errors import BenchError

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def operation(query: str, began: float, seconds: float | None) -> dict[str, object]:
    at = _BEGAN + timedelta(seconds=began)
    return {
        "query": query,
        "outcome": "completed",
        "started_at": at.isoformat(),
        "measured": {} if seconds is None else {"switch_seconds": seconds},
    }


def test_a_move_ends_with_its_later_query() -> None:
    assert switched([operation("totals", 0.5, 1.0), operation("archive", 0.0, 2.0)]) == 2.0
    assert switched([operation("totals", 1.5, 1.0), operation("archive", 0.0, 2.0)]) == 2.5


def test_an_operation_without_a_commit_is_no_figure() -> None:
    with pytest.raises(BenchError, match="totals was not moved"):
        switched([operation("totals", 0.0, None)])


def test_a_restarted_driver_is_held_against_a_plain_restart() -> None:
    taken = Taken(
        moves={"running": [1.0], "frozen": [1.5], "restarted": [20.0]},
        ordinary=[0.5], restarts=[10.0], fresh=[12.0], attendance=Attendance(memory=[90.0, 120.0, 95.0]),
    )  # fmt: skip
    lines = {row.what.split(":")[0]: row for row in rows(taken)}
    assert [row.met for row in lines.values() if row.ours] == [None, None, False, True]
    restarted = lines["both queries, driver killed with the primary and started again"]
    assert restarted.limit == 15.0


def test_a_figure_that_was_not_measured_is_none() -> None:
    assert {row.met for row in rows(Taken())} == {None}
