"""Whether the store's clock advances as ours: a jump is reported once, a slow answer is none."""

from datetime import UTC, datetime, timedelta

import pytest

from streaming.clocks import Drift

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def requested(drift: Drift, at: float, *, seconds: float = 0.0, ahead: float = 0.0) -> float:
    """One question that takes so long, its answer read in its middle from a clock that is so far ahead."""
    now = NOON + timedelta(seconds=at + seconds / 2 + ahead)
    return drift.jumped(now, requested=at, answered=at + seconds)


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 0.5])
def test_a_clock_that_was_set_is_logged_once_and_by_how_much(jump: float) -> None:
    drift = Drift(limit=0.25)
    assert requested(drift, 0) == 0.0, "there is nothing to compare with"
    assert requested(drift, 10) == 0.0
    assert requested(drift, 11, ahead=jump) == pytest.approx(jump)
    assert requested(drift, 12, ahead=jump) == 0.0


def test_a_slow_answer_is_no_jump_wherever_in_its_time_the_clock_was_read() -> None:
    drift = Drift(limit=0.25)
    requested(drift, 0)
    for read in (-2.0, 0.0, 2.0):
        assert requested(drift, 10, seconds=4.0, ahead=read) == 0.0
        assert requested(drift, 20) == 0.0, "nor does it make one of the next"
