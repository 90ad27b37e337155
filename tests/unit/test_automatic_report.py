"""What the report on failovers that nobody typed says of its figures: what was to be reached, and what was missed."""

from dataclasses import replace

from lab.scenario import Fault
from tests.long.test_many_automatic import Told, _row, _sum_up, page


def told(*seconds: tuple[float, float], fault: Fault = "kill") -> list[Told]:
    """Stories by their seconds to the verdict, and to the first commit."""
    return [
        Told(
            fault=fault, seed=1, down=down, commits=(first, first + 9.0), exposed=56, judged="q by 8 sums", problems=()
        )
        for down, first in seconds
    ]


def test_a_row_says_what_was_exposed_and_by_what_it_was_judged() -> None:
    (one,) = told((1.0, 2.0))
    assert _row(one) == "| kill | 1 | 1.00 s | 2.00 s | 11.00 s | 56 | q by 8 sums | kept |"
    assert "| not judged | q was not judged |" in _row(replace(one, judged="", problems=("q was not judged",)))


def test_a_reached_figure_is_called_met_beside_its_target() -> None:
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


def test_a_page_has_a_chapter_for_each_fault_whichever_was_played_first() -> None:
    stories = [*told((2.0, 3.0), fault="freeze"), *told(*[(1.0, 2.0)] * 10)]
    text = page(stories, "make reports", "commit `abc`")
    assert text.index("## By kill\n\n10 stories.") < text.index("## By freeze\n\n1 story of the 10 of a full report.")
    assert "## By freeze\n\n0 stories of the 10 of a full report." in page(stories[1:], "make reports", "commit `abc`")
