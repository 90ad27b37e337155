"""What the report on failovers that nobody typed says of its figures: what was to be reached, and what was missed."""

from lab.rehearsal import Fault
from tests.long.test_many_automatic import Told, _sum_up


def told(*seconds: tuple[float, float], fault: Fault = "kill") -> list[Told]:
    """Stories by their seconds to the verdict, and to the first commit."""
    return [Told(fault=fault, seed=1, down=down, commits=(first, first + 9.0), problems=()) for down, first in seconds]


def test_what_was_reached_is_called_met_beside_what_was_to_be_reached() -> None:
    assert _sum_up(told((1.0, 2.0), (2.0, 3.0), (1.5, 5.0))) == (
        "Fault to verdict DOWN: median 1.50 s, 95th percentile 2.00 s; to reach: 95th percentile <= 2 s: met."
        " Fault to first commit: median 3.00 s, 95th percentile 5.00 s;"
        " to reach: median <= 3 s, 95th percentile <= 5 s: met."
    )


def test_a_median_that_is_too_late_is_called_missed_and_explained() -> None:
    said = _sum_up(told((1.0, 3.1), (1.5, 3.1), (1.2, 3.2)))
    assert "95th percentile <= 5 s: **missed**." in said
    assert "Of the median 3.10 s, 1.20 s pass until the verdict" in said


def test_one_late_commit_among_ten_is_called_missed() -> None:
    said = _sum_up([*told(*[(1.0, 2.0)] * 9), *told((1.0, 5.1))])
    assert "median 2.00 s, 95th percentile 5.10 s" in said
    assert said.count("**missed**") == 1


def test_a_late_verdict_is_called_missed_and_a_freeze_may_take_a_second_more() -> None:
    assert "<= 2 s: **missed**." in _sum_up(told((2.1, 2.5)))
    assert "<= 3 s: met." in _sum_up(told((2.1, 2.5), fault="freeze"))
    assert "<= 3 s: **missed**." in _sum_up(told((3.1, 3.2), fault="freeze"))
