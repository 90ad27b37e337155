"""A JVM that does not answer costs a runner no heartbeat, is reported, and is ended when it stays silent."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from state.errors import NotAllowed
from streaming.probe.identities import Identities
from streaming.spark.errors import SparkMissing
from streaming.spark.query.session import Liveness
from streaming.spark.runner import runner as module
from streaming.spark.runner.runner import Runner
from tests.unit.streaming.spark.runner.test_supervisor import Stage, until


class Jvm:
    """Answers when it is let; the clock is the test's."""

    def __init__(self) -> None:
        self.requested, self.answer = threading.Semaphore(0), threading.Event()
        self.over, self.now = threading.Event(), 0.0
        self.liveness = Liveness(self.has_stopped, lambda: self.now)

    def has_stopped(self) -> bool:
        self.requested.release()
        assert self.answer.wait(60)
        return False

    def silent_after(self, *seconds: float) -> list[float]:
        found = []
        for each in seconds:
            self.now += each
            found.append(self.liveness.silence())
        return found


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jvm]:
    monkeypatch.setattr("streaming.spark.query.session._PAUSE_SECONDS", 0.001)
    known = Jvm()
    known.liveness.begin(lambda: None, known.over)
    assert known.requested.acquire(timeout=60)
    yield known
    known.over.set()
    known.answer.set()


def test_a_question_that_waits_is_silence_until_it_is_answered(jvm: Jvm) -> None:
    assert jvm.silent_after(0.0, 0.5, 1.0, 0.25) == [0.0, 0.5, 1.5, 1.75]
    jvm.answer.set()
    until(lambda: jvm.silent_after(0.1) == [0.0])


def test_a_time_in_which_this_process_did_not_run_is_no_silence_of_the_jvm(jvm: Jvm) -> None:
    assert jvm.silent_after(0.0, 0.5, 3600.0, 0.5) == [0.0, 0.5, 1.5, 2.0]


class Hanging:
    """A hosted run of a JVM that is frozen: every look at it hangs."""

    is_alive = is_quiet = False

    def __init__(self, go_on: threading.Event) -> None:
        self.subject = SimpleNamespace(query="q")
        self.unrest_or_error: Callable[[], str | None] = lambda: str(go_on.wait(60))

    def close(self) -> None:
        """It is ordered to."""

    def report_stopped(self) -> bool:
        raise AssertionError("nobody has seen it quiet")


def test_a_runner_beats_reports_and_ends_a_jvm_that_never_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats: list[Any] = []
    ended: list[Any] = []
    stage = Stage(tmp_path)
    silences = iter([0.0, 4.9, 5.0, 30.0, 0.0, 5.0, 59.9, 60.0])
    monkeypatch.setattr(module, "_TICK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(module, "end_jvm", lambda: ended.append(len(beats)))
    registration = SimpleNamespace(renew=lambda: beats.append(1), clear_dead=lambda: None)
    liveness = SimpleNamespace(silence=lambda: next(silences))
    runner = Runner(
        stage.hosting, cast(Any, registration), cast(Any, None), cast(Any, liveness), Identities(stage.hosting.settings)
    )
    monkeypatch.setattr(runner, "_obey", lambda _: None)
    with capture_logs() as lines, pytest.raises(SparkMissing, match="has not answered for 60 s and was killed"):
        runner.run()
    assert ended == [8]
    assert [line["event"] for line in lines if "JVM" in line["event"]] == [
        "the JVM does not answer", "the JVM answers again", "the JVM does not answer"
    ]  # fmt: skip


def test_a_query_that_the_store_refuses_keeps_no_other_from_being_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controllers' file does not name it yet."""
    stage = Stage(tmp_path)
    registration = SimpleNamespace(renew=lambda: None, clear_dead=lambda: None)
    runner = Runner(
        stage.hosting, cast(Any, registration), cast(Any, None), cast(Any, None), Identities(stage.hosting.settings)
    )
    obeyed: list[object] = []
    monkeypatch.setattr(runner, "_obey", obeyed.append)
    monkeypatch.setattr(runner, "_missing", lambda _: ["q"])

    def refuse(_: object) -> None:
        raise NotAllowed("the token of runner a does not include query q")

    monkeypatch.setattr(runner._store, "adopt", refuse)
    with capture_logs() as lines:
        runner._tick()
        runner._tick()
    assert len(obeyed) == 2
    assert [line["why"] for line in lines if line["event"] == "query not adopted"] == [
        "the token of runner a does not include query q"
    ]


def test_a_retired_run_is_not_polled_in_the_loop(tmp_path: Path) -> None:
    stage, go_on = Stage(tmp_path), threading.Event()
    runner = Runner(
        stage.hosting, cast(Any, None), cast(Any, None), cast(Any, None), Identities(stage.hosting.settings)
    )
    requested: list[str] = []
    hanging = Hanging(go_on)
    hanging.unrest_or_error = lambda: requested.append("JVM")
    runner._hosted["q"] = cast(Any, hanging)
    runner._retire("q", close=True)
    assert runner.hosts("q"), "a fence still has to find it"
    assert requested == []


def test_a_runner_ends_in_time_though_its_jvm_does_not_answer(tmp_path: Path) -> None:
    stage, go_on = Stage(tmp_path), threading.Event()
    runner = Runner(
        stage.hosting, cast(Any, None), cast(Any, None), cast(Any, None), Identities(stage.hosting.settings)
    )
    runner._hosted["q"] = cast(Any, Hanging(go_on))
    closed: list[bool] = []
    closing = threading.Thread(target=lambda: closed.append(runner.close(0.1)), daemon=True)
    closing.start()
    closing.join(60.0)
    go_on.set()
    assert closed == [False]
