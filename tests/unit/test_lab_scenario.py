"""When a story of the lab strikes: not before the queries could be moved."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.scenario import foreseen
from lab.stage import Stage, StoryFailed

GATE = {"name": "repeats-into-state", "measured": "unknown", "limit": "0 records", "text": "it lags"}


def plans(*, ok: bool) -> list[dict[str, Any]]:
    return [{"query": "orders", "gates": [{**GATE, "ok": True}, {**GATE, "ok": ok}]}]


class Answers(Stage):
    """A stage on which each plan that is asked for is the next of these, and the last one over and over."""

    def __init__(self, folder: Path, answers: Sequence[tuple[int, Any]]) -> None:
        super().__init__(folder, lambda _: None)
        self.answers = list(answers)

    def tideover(self, *arguments: str, timeout: float = 180.0, check: bool = True) -> tuple[int, str]:
        assert (arguments[:3], check) == (("plan", "failover", "--all"), False)
        code, answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return code, json.dumps(answer)


def test_a_story_waits_until_no_query_would_be_refused(tmp_path: Path) -> None:
    on = Answers(tmp_path, [(1, plans(ok=False)), (1, plans(ok=False)), (0, plans(ok=True))])
    assert foreseen(on) == plans(ok=True)
    assert len(on.answers) == 1


def test_a_story_whose_queries_stay_refused_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoryFailed, match="for 0 s a failover would have been refused: orders: it lags"):
        foreseen(Answers(tmp_path, [(1, plans(ok=False))]), within=0.0)


def test_a_plan_that_cannot_be_made_ends_the_story(tmp_path: Path) -> None:
    with pytest.raises(StoryFailed, match="exit code 2"):
        foreseen(Answers(tmp_path, [(2, None)]))
