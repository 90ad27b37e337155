"""Following the history: a line that was pruned is no alarm, a restored store is one, and no line is swallowed."""

from datetime import timedelta

import pytest

from orchestrator.history_tail import HistoryTail
from state.model.entities import Event
from tests.contract import samples

SECOND = timedelta(seconds=1)


def line(sequence: int, text: str = "", *, at: int | None = None) -> Event:
    """A line that was written so many seconds after the first."""
    return samples.event(sequence=sequence, text=text or str(sequence), at=samples.AT + (at or sequence) * SECOND)


class History:
    """Lines that a store keeps, and the tail that follows them."""

    def __init__(self, *lines: Event, is_kept: bool) -> None:
        self.lines = list(lines)
        self.lost: list[int | None] = []
        self.tail = HistoryTail(
            self.read, restored=lambda event: self.lost.append(event.sequence), is_kept=lambda event: is_kept
        )
        self.tail.begin(1)

    def read(self, after: int, newest: int) -> list[Event]:
        return [each for each in self.lines if (each.sequence or 0) > after][-newest:]

    def news(self) -> list[str]:
        return [event.text for event in self.tail.news()]


@pytest.mark.parametrize("is_kept", [True, False])
def test_lines_behind_a_pruned_one_are_shown_without_an_alarm(is_kept: bool) -> None:
    history = History(line(1), line(2), is_kept=is_kept)
    history.lines = [line(3), line(4)]
    assert history.news() == ["3", "4"]
    assert history.lost == []


def test_a_line_that_was_pruned_while_older_ones_stay_is_no_alarm() -> None:
    history = History(line(1), line(2), is_kept=False)
    history.lines = [line(1)]
    assert history.news() == []
    history.lines.append(line(3))
    assert history.news() == ["3"]
    assert history.lost == []


def test_a_young_line_that_is_gone_means_a_restored_store() -> None:
    history = History(line(1), line(2), is_kept=True)
    history.lines = [line(1)]
    assert history.news() == []
    assert history.lost == [2]
    history.lines.append(line(2, "again", at=9))
    assert history.news() == ["again"]
    assert history.lost == [2]


@pytest.mark.parametrize("more", [0, 5])
def test_lines_written_between_the_restoring_and_the_look_are_shown(more: int) -> None:
    """They have the numbers of lines that were shown already, the last one included where enough were written."""
    history = History(line(1), line(2), line(3), is_kept=True)
    history.lines = [line(1), *(line(2 + index, f"new {index}", at=10 + index) for index in range(1 + more))]
    assert history.news() == [f"new {index}" for index in range(1 + more)]
    assert history.lost == [3]
    assert history.news() == []


def test_a_history_that_was_empty_is_shown_from_its_first_line() -> None:
    history = History(is_kept=True)
    assert history.news() == []
    history.lines = [line(1)]
    assert history.news() == ["1"]
