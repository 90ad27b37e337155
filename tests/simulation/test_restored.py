"""Each case of a restored store ends with the query running on its records, as the page says."""

import pytest

from tests.simulation.restored import PAGE, Case, NotReached, cases, line, play

EVERY = 30
"""Of these one is played in each run of the tests, the others by ``make test-long``."""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.long if index % EVERY else ())
        for index, case in enumerate(cases())
    ],
)
def test_a_restored_store_ends_as_the_page_says(case: Case) -> None:
    try:
        done = play(case)
    except NotReached:
        pytest.skip("the history is never in this phase")
    assert "WRONG" not in done.result
    assert line(case, done) in PAGE.read_text(encoding="utf-8")
