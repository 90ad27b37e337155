"""How a story waits for its queries: by the runner's log, and by few commands."""

import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from lab import stage
from lab.runner_log import STARTED, WARM, RunnerLog
from lab.stage import Stage, StoryFailed, await_running, reason_in

AT = "2026-11-29T07:36:38.336054Z"
LINES = {
    STARTED: f"{AT} [info     ] query started     cluster=east query=orders\n",
    WARM: f"{AT} [info     ] warmed up     records=(38, 38) runner=a seconds=5.7\n",
}


class Runner:
    """A process that runs until it has ended with ``returncode``."""

    pid = 4711
    returncode: int | None = None

    def poll(self) -> int | None:
        return self.returncode


class Looks(Stage):
    """A stage whose runner says one more thing at each reading of its log, and which counts the looks."""

    def __init__(self, folder: Path, says: Sequence[str], batches: Sequence[int | None] = (0,)) -> None:
        self.told: list[str] = []
        super().__init__(folder, self.told.append)
        self.says = list(says)
        self.batches = itertools.chain(batches, itertools.repeat(batches[-1]))
        self.looks = 0

    def start(self, name: str, *command: str, inside: Sequence[str] = ()) -> "subprocess.Popen[bytes]":
        self._logs[Runner.pid] = RunnerLog(self.directory / f"{name}.log")
        return cast("subprocess.Popen[bytes]", Runner())

    def hear(self, runner: "subprocess.Popen[bytes]") -> set[str]:
        with (self.directory / "runner-a.log").open("a") as log:
            log.write(LINES.get(self.says.pop(0), "") if self.says else "")
        return super().hear(runner)

    def ask(self, *arguments: str, timeout: float = 60.0) -> Any:
        assert arguments == ("list",)
        self.looks += 1
        return [{"query": "orders", "state": "running", "batch": next(self.batches)}]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_GLANCE_SECONDS", 0.001)
    monkeypatch.setattr(stage, "_LOOK_SECONDS", 0.01)


def test_a_run_looks_when_the_log_says_that_queries_have_started(tmp_path: Path) -> None:
    on = Looks(tmp_path, ["", "", "", STARTED])
    await_running(on, on.start_runner())
    assert on.says == []
    assert on.looks == 1
    assert on.told == ["started on east: orders"]


def test_a_run_looks_when_the_log_says_that_the_runner_is_warm(tmp_path: Path) -> None:
    on = Looks(tmp_path, [STARTED, "", "", WARM])
    await_running(on, on.start_runner(), warm=True)
    assert on.says == []
    assert on.looks == 1


def test_a_runner_that_was_heard_to_be_warm_is_not_waited_for_again(tmp_path: Path) -> None:
    on = Looks(tmp_path, [STARTED, WARM])
    runner = on.start_runner()
    await_running(on, runner, warm=True)
    await_running(on, runner, warm=True)
    assert on.looks == 2


def test_a_run_looks_until_enough_batches_are_committed(tmp_path: Path) -> None:
    on = Looks(tmp_path, [STARTED], batches=[None, 0, 1, 2])
    await_running(on, on.start_runner(), batches=2)
    assert on.looks == 3


def test_a_run_looks_now_and_then_where_the_log_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_RARE_SECONDS", 0.01)
    on = Looks(tmp_path, [])
    await_running(on, on.start_runner())
    assert on.looks == 1


def test_a_run_whose_runner_never_warms_up_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_RARE_SECONDS", 0.01)
    on = Looks(tmp_path, [STARTED])
    with pytest.raises(StoryFailed, match=r"within 0\.05 s: see runner-a\.log"):
        await_running(on, on.start_runner(), warm=True, timeout=0.05)


def test_a_run_whose_runner_has_ended_says_how(tmp_path: Path) -> None:
    on = Looks(tmp_path, [])
    runner = on.start_runner()
    runner.returncode = 78
    with pytest.raises(StoryFailed, match="the runner ended with exit code 78"):
        await_running(on, runner)


def test_the_reason_of_a_verb_that_failed_is_the_line_that_the_lab_marks() -> None:
    assert reason_in("starting Kafka\nerror: another process uses port 7\nat java.Main\nchoose 20 free ports\n") == (
        "another process uses port 7"
    )
    assert reason_in("one\n\ntwo\n") == "two"
    assert reason_in("") == "it printed nothing"


def test_a_verb_that_does_not_end_is_named_with_its_time(tmp_path: Path) -> None:
    on = Stage(tmp_path, lambda _: None)
    with pytest.raises(StoryFailed, match=r"did not end within 0\.01 s"):
        on.lab("status", timeout=0.01)
