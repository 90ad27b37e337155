"""The watcher: what it saw, and what it says when it could not see."""

import json
import subprocess
import sys

from chaos.docker import Environment
from chaos.errors import DockerFailed
from chaos.faults import Observation, When
from chaos.watcher import Watcher
from tests.unit.chaos.test_scenarios import sight


def _well(seen: Observation) -> bool:
    return seen.shows(When.WELL)


class Quiet(Environment):
    """An environment whose watch reported one situation and says nothing from then on; looks get one answer each."""

    def __init__(self, *answers: str | DockerFailed) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def stream(self, service: str, *command: str) -> subprocess.Popen[str]:
        said = f"print({json.dumps(dict(sight().told))!r}, flush=True); import time; time.sleep(60)"
        return subprocess.Popen([sys.executable, "-c", said], stdout=subprocess.PIPE, text=True)

    def execute(self, service: str, *command: str, timeout: float = 0, check: bool = True) -> tuple[int, str]:
        self.asked.append(command[-1])
        answer = self.answers.pop(0)
        if isinstance(answer, DockerFailed):
            raise answer
        return 0, answer


def test_a_condition_that_must_hold_now_is_read_again() -> None:
    def line(seen: Observation) -> str:
        return f"{json.dumps(dict(seen.told))}\n"

    gone, unled = "", Observation({**sight().told, "leader": None})
    environment = Quiet(gone, DockerFailed("it took too long"), line(unled), line(sight()))
    with Watcher(environment) as watcher:
        watcher.begin()
        assert watcher.await_sight(_well, 20.0, "all is well").leader == "controller-one"
        assert not environment.asked, "what was told last is taken where nothing else is asked for"
        assert watcher.await_sight(_well, 20.0, "all is well", afresh=_well).leader
    assert len(environment.asked) == 4
    assert environment.asked[0].endswith("| head -n 1"), "nobody reads more than one, so the watch ends by itself"
