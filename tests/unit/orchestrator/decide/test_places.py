"""An unknown number of one partition is never taken for 0: not by a total, not by a readiness."""

from dataclasses import replace
from itertools import product
from typing import Any

from orchestrator.decide.gates.checks import judge_move
from orchestrator.decide.gates.readiness import judge_readiness
from orchestrator.decide.move.plan import plan_of
from streaming.resume.model import Target
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import GOOD, resolution
from tests.unit.orchestrator.decide.gates.test_readiness import READY

NUMBERS = ("replay_records", "replay_later_records", "exposure_records")
VALUES = [
    {"replay_records": replay, "replay_later_records": later, "exposure_records": exposure, "exposure_seconds": seconds}
    for replay, later, exposure, seconds in product((None, 0, 5), (None, 0, 5), (None, 0, 5), (None, 0.0, 5.0))
]


def beside_a_good_one(values: dict[str, Any]) -> tuple[Target, Target]:
    """A place of which nothing is wrong, and one with these numbers."""
    proven = values["replay_records"] == 0 and values["replay_later_records"] == 0
    return place(), place(partition=1, target_partition=1, exact=proven, **values)


def test_a_total_is_unknown_where_one_partition_is() -> None:
    for values in VALUES:
        check_totals(values)


def check_totals(values: dict[str, Any]) -> None:
    targets = beside_a_good_one(values)
    facts = replace(GOOD, resolution=resolution(*targets))
    totals: Any = plan_of(facts, judge_move(facts)).totals.as_json()
    for name in NUMBERS:
        assert totals[name] == values[name]
    known = (
        0.0 if values["exposure_records"] == 0 and values["exposure_seconds"] is None else values["exposure_seconds"]
    )
    assert totals["exposure_seconds"] == known


def test_a_readiness_knows_no_more_than_its_partitions() -> None:
    for values in VALUES:
        check_readiness(values)


def check_readiness(values: dict[str, Any]) -> None:
    facts = replace(READY.facts, resolution=resolution(*beside_a_good_one(values)))
    found = judge_readiness(replace(READY, facts=facts))
    assert found.exposure_records == values["exposure_records"]
    known = (
        0.0 if values["exposure_records"] == 0 and values["exposure_seconds"] is None else values["exposure_seconds"]
    )
    assert found.exposure_seconds == known
