"""When a query of an application waits for its application, and when the application has to end."""

import threading
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import pytest

from streaming.spark.attach.attached import AttachedRun, AttachedSupervisor
from streaming.spark.errors import RunError, RunFenced
from streaming.spark.query.query_run import Run
from tests.waiting import until

KEY = "file:/checkpoint"


class Driver:
    """An application in which nothing runs, and that begins nothing before ``requested``."""

    def __init__(self) -> None:
        self.requested: list[str] = []

    def key(self, path: str) -> str:
        return KEY

    def running(self, key: str) -> None:
        return None

    def requests(self) -> list[str]:
        return self.requested


def condemned(unrest: str | None = None) -> AttachedRun:
    run = object.__new__(AttachedRun)
    run.is_condemned = True
    run.unrest = lambda: unrest  # type: ignore[method-assign]
    return run


@pytest.fixture
def waiting() -> AttachedSupervisor:
    """One without a thread, whose run was held in a batch that cannot continue on the other cluster, and was ended."""
    made = object.__new__(AttachedSupervisor)
    made.driver = cast(Any, Driver())
    made._closing, made._quiet, made._lock = threading.Event(), threading.Event(), threading.Lock()
    made._assignment = cast(Any, SimpleNamespace(query="orders", checkpoint="/checkpoint"))
    made._subject = cast(Any, SimpleNamespace(checkpoint="/checkpoint"))
    made._before, made._runs, made._is_at_rest = (), [condemned()], False
    return made


def test_an_ended_batch_is_run_again_by_the_next_start_of_the_application(
    waiting: AttachedSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is admitted that the application has not begun, and the application has to end before it begins again."""
    started, admitted = threading.Event(), list[str]()

    def admit(key: str) -> NoReturn:
        admitted.append(key)
        raise RunError("seen")

    def start() -> None:
        with pytest.raises(RunError, match="seen"):
            waiting._start()
        started.set()

    monkeypatch.setattr(waiting, "_admitted", admit)
    threading.Thread(target=start, daemon=True).start()
    until(lambda: waiting.must_end, "the application has to end")
    assert admitted == []
    cast(Any, waiting.driver).requested = [KEY]
    assert started.wait(30)
    assert (admitted, waiting.must_end) == ([KEY], False)


@pytest.mark.parametrize("runs", [[], [condemned("a callback is running")], [object.__new__(Run)]])
def test_an_application_stays_while_something_runs_or_nothing_was_stopped(
    waiting: AttachedSupervisor, runs: list[Run]
) -> None:
    for each in runs:
        if not isinstance(each, AttachedRun):
            each.unrest = lambda: None  # type: ignore[method-assign]
    waiting._runs = runs
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(RunFenced):
            waiting._await_start()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not ended.wait(0.3)
    assert not waiting.must_end
    waiting._closing.set()
    assert ended.wait(30)
