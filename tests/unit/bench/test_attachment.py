"""The figures of an attached application: the move of the later query, and what is not known."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from bench.attachment import Taken, attendant_of, memory_mb, rows, switched
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


def test_memory_is_that_of_a_living_process() -> None:
    assert 1.0 < memory_mb(os.getpid()) < 10_000.0
    with pytest.raises(BenchError, match="has no attendant"):
        attendant_of(os.getpid())


def test_a_restarted_driver_is_held_against_a_plain_restart() -> None:
    taken = Taken(
        moves={"running": [1.0], "frozen": [1.5], "restarted": [20.0]},
        ordinary=[0.5], restarts=[10.0], fresh=[12.0],
        plain_batches=[0.100, 0.200], attached_batches=[0.101, 0.201], memory=[90.0, 120.0, 95.0],
    )  # fmt: skip
    lines = {row.what.split(":")[0]: row for row in rows(taken)}
    assert [row.met for row in lines.values()] == [None, None, False, True, True]
    restarted = lines["both queries, driver killed with the primary and started again"]
    assert restarted.limit == 15.0


def test_a_figure_that_was_not_measured_is_none() -> None:
    assert {row.met for row in rows(Taken())} == {None}
