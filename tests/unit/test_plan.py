"""The plan as programs read it."""

from dataclasses import replace

import pytest

from orchestrator.decide.operation.plan import plan_json
from streaming.resume.model import Target
from tests.unit.test_gates import GOOD, place, resolution

UNKNOWN = place(partition=1, exposure_seconds=None, exposure_records=None)


@pytest.mark.parametrize(
    ("targets", "seconds"),
    [
        ((place(exposure_seconds=2.5), place(partition=1, exposure_seconds=0.5)), 2.5),
        ((place(),), 0.0),
        ((place(exposure_seconds=2.5), UNKNOWN), None),
        ((place(exposure_seconds=2.5), place(partition=1, exposure_seconds=None)), 2.5),
        ((UNKNOWN,), None),
        ((), None),
    ],
    ids=["largest", "nothing", "one-unknown", "no-records-no-seconds", "all-unknown", "no-place"],
)
def test_exposure_in_seconds_is_the_worst_of_all_partitions_or_unknown(
    targets: tuple[Target, ...], seconds: float | None
) -> None:
    place_of_all = replace(resolution(), targets=targets)
    totals = plan_json(replace(GOOD, resolution=place_of_all), ())["totals"]
    assert isinstance(totals, dict)
    assert totals["exposure_seconds"] == seconds
