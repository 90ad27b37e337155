"""By how much a batch's offsets differ on another cluster; the cases are those of ``ShiftTest.java``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from streaming.resume.shift import Ends, Naming, shift_between

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[3] / "cases/shift.json").read_text(encoding="utf-8"))


def naming(reported: Mapping[str, Any]) -> Naming:
    names, prefix = reported.get("names", {}), reported.get("prefix", "")
    return lambda topic: names.get(topic, topic.removeprefix(prefix))


@pytest.mark.parametrize("case", CASES, ids=[each["why"] for each in CASES])
def test_a_batch_is_shifted_by_one_number_per_partition_or_not_at_all(case: dict[str, Any]) -> None:
    here, there = Ends(**case["here"]), Ends(**case["there"])
    found = shift_between(here, naming(case.get("here_names", {})), there, naming(case.get("there_names", {})))
    assert found == case["shift"]
