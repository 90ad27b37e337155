"""The end of the demo of a query that a move makes wrong."""

from typing import Any

import pytest

from lab.wrong import RIGHT, WRONG, Outcome, judge, page


def row(**changes: int) -> dict[str, int]:
    return {"acked": 2_000, "delivered": 2_000, "lost": 0, "duplicated": 0, **changes}


def outcome(**changes: Any) -> Outcome:
    reported: dict[str, Any] = {
        "gate": {"ok": False}, "refused": 1, "insisted": 0, "verdict": {WRONG: row(lost=900), RIGHT: row()},
    }  # fmt: skip
    return Outcome(**{**reported, **changes})


def test_the_demo_shows_a_refusal_a_loss_and_a_right_result() -> None:
    assert judge(outcome()) == []
    assert page(outcome(), [])[-1] == (
        "verdict: once was refused, and lost records when a person insisted; once-at-home lost 0, repeated 0"
    )
    assert page(outcome(), [])[1].split() == ["once", "2,000", "2,000", "900", "0"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"gate": {"ok": True}}, "check lets once pass"),
        ({"refused": 0}, "the failover of once ended with exit code 0"),
        ({"insisted": 2}, "with the consent it ended with exit code 2"),
        ({"verdict": {WRONG: row(), RIGHT: row()}}, "once lost nothing, so the example shows nothing"),
        ({"verdict": {WRONG: row(lost=1), RIGHT: row(lost=2)}}, "once-at-home lost 2, repeated 0"),
        ({"verdict": {WRONG: row(lost=1), RIGHT: row(duplicated=3)}}, "once-at-home lost 0, repeated 3"),
    ],
)
def test_whatever_happens_otherwise_is_a_problem(changes: dict[str, Any], problem: str) -> None:
    assert judge(outcome(**changes)) == [problem]
    assert page(outcome(**changes), [problem])[-1] == f"verdict: {problem}"
