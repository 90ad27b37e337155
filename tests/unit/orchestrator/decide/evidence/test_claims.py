"""Claims about exposure, and what all claims of a document come to."""

from typing import Any

from orchestrator.decide.evidence.claims import Claim, Placed, Verdict, of_exposure, verdict_of
from orchestrator.decide.move.left_behind import Exposed
from state.model.plan import PlannedPartition, StandbyPartition

HOLDS, WRONG, UNKNOWN = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.CANNOT_BE_CHECKED


def one(**changes: Any) -> Placed:
    """A partition of which the plan expected that 5 records are missing."""
    row = {
        "offset": 20,
        "target_offset": 20,
        "method": "exact",
        "begin": 0,
        "end": 30,
        "exposure_records": 5,
        **changes,
    }
    return Placed(key=StandbyPartition("s", "orders", 0), row=PlannedPartition.of(row), followed=None)


def test_fewer_exposed_records_than_forecast_hold_and_more_do_not() -> None:
    reported = [of_exposure(one(), number, "east is gone").verdict for number in (4, 5, 6, None)]
    assert reported == [HOLDS, HOLDS, WRONG, UNKNOWN]
    assert of_exposure(one(), None, "east is gone").text == "east is gone"
    assert of_exposure(one(exposure_records=None), 3, "").verdict is UNKNOWN


def test_an_upper_bound_is_a_claim_where_the_number_was_unknown() -> None:
    bounded = one(exposure_records=None, at_most={"exposure_records": 5})
    claims = [of_exposure(bounded, number, "east is gone") for number in (4, 6, None)]
    assert [(claim.verdict, claim.expected) for claim in claims] == [(HOLDS, 5), (WRONG, 5), (UNKNOWN, 5)]
    assert claims[1].text == "1 more records were missing than the upper bound of the plan"


def test_records_behind_the_last_sample_break_no_claim() -> None:
    """Under load records come between the last sample of a cluster and its death: no forecast knows them."""
    claim = of_exposure(one(), 40, "", Exposed(40, 0, 40, sampled=5))
    assert (claim.verdict, claim.expected, claim.found) == (HOLDS, 5, 5)
    assert claim.text.endswith("; 35 more were written after it and are missing, too")
    assert of_exposure(one(), 40, "", Exposed(40, 0, 40, sampled=6)).verdict is WRONG
    unknown = of_exposure(one(), None, "", Exposed(None, 0, 40, at_least=5, at_most=9, sampled=5))
    assert unknown.verdict is HOLDS
    assert unknown.text.endswith("how many were written after it is unknown (0 to 4)")
    nothing = of_exposure(one(), None, "in doubt", Exposed(None, 0, 40, at_least=5, at_most=9))
    assert (nothing.verdict, nothing.text) == (UNKNOWN, "between 5 and 9 records; in doubt")


def test_one_claim_that_does_not_hold_decides() -> None:
    def of(*verdicts: Verdict) -> Verdict:
        return verdict_of(Claim("x", None, None, each, None, None, "") for each in verdicts)

    assert (of(HOLDS, HOLDS), of(HOLDS, UNKNOWN), of(UNKNOWN, WRONG, HOLDS)) == (HOLDS, UNKNOWN, WRONG)
