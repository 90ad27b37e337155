"""What an attached application pays: percent of a batch, and the memory of its attendant."""

import os

import pytest

from bench.attached_batches import ALIKE, AS_IT_COMES, Attendance, attendance_rows, attendant_of, memory_mb
from bench.errors import BenchError
from bench.spark_progress import BATCH


def taken(files: str, attached: list[float], plain: list[float]) -> Attendance:
    found = Attendance(memory=[90.0, 120.0, 95.0], processor=[3.0])
    found.batches[files].attached[BATCH], found.batches[files].plain[BATCH] = attached, plain
    return found


def test_memory_is_that_of_a_living_process() -> None:
    assert 1.0 < memory_mb(os.getpid()) < 10_000.0
    with pytest.raises(BenchError, match="has no attendant"):
        attendant_of(os.getpid())


@pytest.mark.parametrize(("files", "met"), [(ALIKE, [True, None]), (AS_IT_COMES, [None, None])])
def test_the_limit_holds_where_both_have_the_same_files(files: str, met: list[bool | None]) -> None:
    rows = attendance_rows("attachment", taken(files, [101.0, 202.0], [100.0, 200.0]))
    batches = [row for row in rows if row.unit == "%"]
    assert [row.met for row in batches] == met
    (row,) = [row for row in batches if row.ours is not None]
    assert row.ours is not None
    assert row.ours.samples == pytest.approx((1.0, 1.0))


def test_a_batch_that_takes_longer_misses_the_limit() -> None:
    rows = attendance_rows("attachment", taken(ALIKE, [103.0], [100.0]))
    assert next(row for row in rows if row.unit == "%").met is False
    assert rows[-1].met is True


def test_a_figure_that_was_not_measured_is_none() -> None:
    assert {row.met for row in attendance_rows("attachment", Attendance())} == {None}
