"""How old the samples are that an exposure goes by."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, NOW, judged, resolution


@pytest.mark.parametrize(
    ("ages", "text"),
    [
        ((30.0, 2.0), "as east was last seen 30.0 s before;"),
        ((59.9,), "as east was last seen 59.9 s before;"),
        ((60.0, None), "as east was last seen 1 min 0 s before;"),
        ((-3.0,), "as east was last seen 0.0 s before;"),
    ],
)
def test_an_exposure_says_how_old_the_oldest_sample_is(ages: tuple[float | None, ...], text: str) -> None:
    taken = [None if age is None else NOW - timedelta(seconds=age) for age in ages]
    targets = [place(partition=number, sampled_at=at) for number, at in enumerate(taken)]
    gate = judged("exposure", replace(GOOD, resolution=resolution(*targets)))
    assert gate is not None
    assert text in gate.text


def test_an_exposure_without_a_sample_has_no_age() -> None:
    gate = judged("exposure", GOOD)
    assert gate is not None
    assert "last seen" not in gate.text
