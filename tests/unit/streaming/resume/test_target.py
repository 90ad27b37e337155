"""By how many seconds the standby is behind: from what is known to be there to the newest time of the old log."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.unit.streaming.standby import T0, Slot, copied, one, sample, standby, want

STEADY = tuple(range(0, 200, 10))
"""Twenty records, one every 10 ms."""
BACK = (0, 10, 20, 30, 40, 50, 60, 70, 90, 80)
"""The last record is older than the one before."""


def seconds_of(
    times: Sequence[int],
    *,
    position: int,
    here: Sequence[int],
    newest: int,
    seen_at: int = 10_000,
    remembers: bool = True,
) -> float | None:
    """The exposure in seconds; ``here``: which of the old records the standby holds, ``seen_at``: when sampled, in ms.

    The sample saw the whole old log, whose largest time was ``newest``.
    """
    old = [(offset, T0 + time, f"r{offset}") for offset, time in enumerate(times)]
    read = want(old[:position], timestamp_ms=T0 + max(times[:position]))
    read = read if remembers else replace(read, ring=(), ring_offset=None)
    at = datetime.fromtimestamp(T0 / 1000, UTC) + timedelta(milliseconds=seen_at)
    ends = sample(len(old), T0 + newest, at=at)
    return one(standby(Slot(copied(old[each] for each in here))), read, None, ends).exposure_seconds


def test_a_time_ahead_of_the_clock_of_the_sample_counts_as_that_clock() -> None:
    assert seconds_of(STEADY, position=10, here=range(10), newest=9_000, seen_at=500) == 0.44


def test_records_read_later_than_the_sample_leave_no_seconds() -> None:
    assert seconds_of(STEADY, position=10, here=range(10), newest=190, seen_at=20) == 0.0


def test_holes_before_a_record_of_the_newest_time_count_from_what_was_read() -> None:
    assert seconds_of(STEADY[:13], position=8, here=(*range(8), 11, 12), newest=120, seen_at=120) == 0.08


def test_a_standby_that_lags_is_behind_from_its_newest_record() -> None:
    assert seconds_of(STEADY, position=10, here=range(9), newest=190) == 0.11


def test_a_standby_that_lacks_a_late_record_is_behind_from_the_top_time() -> None:
    assert seconds_of((*BACK, 150), position=10, here=range(9), newest=150) == 0.06
    assert seconds_of(BACK, position=10, here=range(9), newest=90) == 0.0


def test_without_remembered_records_the_time_that_was_read_to_counts() -> None:
    assert seconds_of(STEADY, position=10, here=range(10), newest=190, remembers=False) == 0.1
