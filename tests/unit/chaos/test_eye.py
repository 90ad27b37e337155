"""The eye: what it saw, and what it says when it could not see."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.docker import Environment
from chaos.errors import StoryFailed
from chaos.eye import Eye
from tests.unit.chaos.test_scenarios import sight


class Short(Environment):
    """An environment in which the watch tells one situation, and ends."""

    def __init__(self) -> None:
        pass

    def stream(self, service: str, *command: str) -> subprocess.Popen[str]:
        said = f"print({json.dumps(dict(sight().told))!r})"
        return subprocess.Popen([sys.executable, "-c", said], stdout=subprocess.PIPE, text=True)


def test_a_watch_that_ends_by_itself_is_begun_anew_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.eye._AGAIN_SECONDS", 0.01)
    with Eye(Short()) as eye:
        eye.begin()
        deadline = time.monotonic() + 20
        while len(eye.since(0)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert eye.await_sight(lambda seen: seen.leader == "controller-one", 5.0, "it leads").all_on("east")
        assert eye.blinks


def test_the_newest_situation_does_not_stand_for_ever_where_nobody_watches_any_more() -> None:
    eye = Eye(Environment(Path("/"), project="p", files=(), env_file=None, log=sys.stderr))
    eye._sights.append(sight())
    with pytest.raises(StoryFailed, match="nobody watches any more"):
        eye.await_sight(lambda _: True, 1.0, "all is well")
