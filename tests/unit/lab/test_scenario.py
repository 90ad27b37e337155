"""When a test run of the lab strikes: not before the queries could be moved."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.scenario import Script, foreseen, paced
from lab.stage import ScenarioFailed, Stage, TooSlow

GATE = {"name": "repeats-into-state", "measured": "unknown", "limit": "0 records", "text": "it lags"}


def plans(*, ok: bool, age: float | None = None) -> list[dict[str, Any]]:
    gates = [{**GATE, "ok": True}, {**GATE, "ok": ok}]
    return [{"query": "orders", "gates": gates, "totals": {"exposure_seconds": age}}]


class Answers(Stage):
    """A stage on which each plan that is requested is the next of these, and the last one over and over."""

    def __init__(self, folder: Path, answers: Sequence[tuple[int, Any]]) -> None:
        super().__init__(folder, lambda _: None)
        self.answers = list(answers)
        self.said: list[str] = []
        self.say = self.said.append
        self.rates: list[int] = []

    def tideover(self, *arguments: str, timeout: float = 180.0, check: bool = True) -> tuple[int, str]:
        assert (arguments[:3], check) == (("plan", "failover", "--all"), False)
        code, answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return code, json.dumps(answer)

    def start_traffic(self, cluster: str, rate: int, seconds: float) -> Any:
        self.rates.append(rate)
        return rate

    def stop(self, process: Any) -> int:
        return 0


def test_a_run_waits_until_no_query_would_be_refused(tmp_path: Path) -> None:
    on = Answers(tmp_path, [(1, plans(ok=False)), (1, plans(ok=False)), (0, plans(ok=True))])
    assert foreseen(on) == plans(ok=True)
    assert len(on.answers) == 1


def test_a_run_whose_queries_stay_refused_says_why(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFailed, match="for 0 s a failover would have been refused: orders: it lags"):
        foreseen(Answers(tmp_path, [(1, plans(ok=False))]), within=0.0)


LAGS, KEEPS_UP = (1, plans(ok=False)), (0, plans(ok=True, age=1.0))
SCRIPT = Script(rate=400, lowers_rate=True)
TRAFFIC: Any = 400


def test_a_rate_that_the_machine_keeps_up_with_stays(tmp_path: Path) -> None:
    on = Answers(tmp_path, [KEEPS_UP])
    assert paced(on, SCRIPT, TRAFFIC) == (SCRIPT, TRAFFIC, KEEPS_UP[1])
    assert (on.rates, on.said) == ([], [])


@pytest.mark.parametrize("slow", [LAGS, (0, plans(ok=True, age=11.0))], ids=["refused", "copies too old"])
def test_a_rate_that_is_too_high_is_halved_and_the_reason_is_printed(tmp_path: Path, slow: tuple[int, Any]) -> None:
    on = Answers(tmp_path, [slow, slow, KEEPS_UP])
    script, traffic, _ = paced(on, SCRIPT, TRAFFIC, within=0.0)
    assert (script.rate, traffic, on.rates) == (100, 100, [200, 100])
    assert [text.partition(" records/s")[0] for text in on.said] == ["400", "200"]


def test_a_machine_too_slow_for_the_lowest_rate_ends_the_demo_in_one_line(tmp_path: Path) -> None:
    on = Answers(tmp_path, [LAGS])
    with pytest.raises(TooSlow, match=r"^this machine does not keep up with 100 records/s: .*it lags$"):
        paced(on, SCRIPT, TRAFFIC, within=0.0)
    assert on.rates == [200, 100]


def test_an_unknown_age_of_the_copies_lowers_no_rate(tmp_path: Path) -> None:
    on = Answers(tmp_path, [(0, plans(ok=True))])
    assert paced(on, SCRIPT, TRAFFIC)[0].rate == 400
