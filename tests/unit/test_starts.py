"""As many queries start at once as there are cores, the urgent ones first, and nobody waits for a slow one for ever."""

import threading
from collections.abc import Callable

import pytest

from streaming.spark.query.starts import LONGEST_SECONDS, Starts, Turn
from tests.waiting import until


class Queries:
    """Queries that each take a turn in a thread of their own, against a clock that is set by hand."""

    def __init__(self, at_once: int) -> None:
        self.now = 0.0
        self.starts = Starts(at_once, monotonic=lambda: self.now)
        self.began: list[str] = []
        self.turns: dict[str, Turn] = {}
        self.over: set[str] = set()
        self._threads: list[threading.Thread] = []

    def come(self, name: str, priority: int = 0) -> None:
        """It waits for its turn, and this returns once it does, or has it."""
        waits = threading.Event()

        def is_over() -> bool:
            waits.set()
            return name in self.over

        thread = threading.Thread(target=lambda: self._take(name, priority, is_over), daemon=True)
        thread.start()
        self._threads.append(thread)
        assert waits.wait(60)

    def _take(self, name: str, priority: int, is_over: Callable[[], bool]) -> None:
        turn = self.starts.take(priority, is_over)
        self.turns[name] = turn
        self.began.append(name)

    def await_begun(self, name: str) -> None:
        until(lambda: name in self.began)

    def end(self) -> None:
        """All that wait come to their turn."""
        self.over |= {"a", "b", "c", "d"}
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture
def queries() -> Queries:
    return Queries(2)


def test_the_next_start_begins_when_one_of_those_before_it_is_done(queries: Queries) -> None:
    for name in "abcd":
        queries.come(name)
    until(lambda: len(queries.began) == 2)
    assert queries.began == ["a", "b"]
    queries.turns["b"].give()
    queries.turns["b"].give()
    until(lambda: len(queries.began) == 3)
    assert queries.began == ["a", "b", "c"]
    queries.end()


def test_of_those_that_wait_the_urgent_ones_begin_first() -> None:
    queries = Queries(1)
    queries.come("a")
    until(lambda: queries.began == ["a"])
    for name, priority in (("b", 0), ("c", 5), ("d", 0)):
        queries.come(name, priority)
    for done, begun in (("a", "c"), ("c", "b"), ("b", "d")):
        queries.turns[done].give()
        queries.await_begun(begun)
    assert queries.began == ["a", "c", "b", "d"]
    queries.end()


def test_a_start_that_takes_long_keeps_nobody_waiting_any_more(queries: Queries) -> None:
    for name in "abc":
        queries.come(name)
    until(lambda: queries.began == ["a", "b"])
    queries.now = LONGEST_SECONDS - 0.1
    queries.come("d")
    assert queries.began == ["a", "b"]
    queries.now = LONGEST_SECONDS
    until(lambda: len(queries.began) == 4)
    queries.end()


def test_who_is_told_to_stop_waits_no_longer(queries: Queries) -> None:
    for name in "abc":
        queries.come(name)
    until(lambda: queries.began == ["a", "b"])
    queries.over.add("c")
    until(lambda: queries.began == ["a", "b", "c"])
    queries.end()


def test_as_many_start_at_once_as_the_process_may_use_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5})
    starts = Starts()
    turns = [starts.take(0, lambda: False) for _ in range(3)]
    assert len({id(turn) for turn in turns}) == 3
    waited = threading.Thread(target=lambda: starts.take(0, lambda: False), daemon=True)
    waited.start()
    waited.join(0.2)
    assert waited.is_alive()
    turns[0].give()
    waited.join(60)
    assert not waited.is_alive()
