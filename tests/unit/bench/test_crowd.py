"""Which queries make the crowd of the bench, and which of them count as moved to an exact place."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.crowd import QUERIES, declare, is_exact


def test_each_query_of_a_crowd_has_a_checkpoint_and_slots_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "tideover.yaml"
    model = {"pipeline": "examples.orders:archive", "checkpoint": str(tmp_path / "archive"), "runners": ["a"]}
    config.write_text(yaml.safe_dump({"spark": {"master": "local[32]", "conf": {}}, "queries": {"archive": model}}))
    places = declare(config)
    declared = yaml.safe_load(config.read_text())
    assert tuple(declared["queries"]) == QUERIES
    assert len({query["checkpoint"] for query in declared["queries"].values()}) == len(QUERIES) == 25
    assert {name: str(place) for name, place in places.items()} == {
        name: query["checkpoint"] for name, query in declared["queries"].items()
    }
    assert declared["spark"]["master"] == "local[200]"


@pytest.mark.parametrize(
    ("methods", "replay", "exact"),
    [
        (["exact", "exact"], 0, True),
        (["exact", "timestamp"], 0, False),
        (["exact"], 3, False),
        (["exact"], None, False),
    ],
)
def test_a_place_is_exact_by_content_and_repeats_nothing(methods: list[str], replay: int | None, exact: bool) -> None:
    plan: dict[str, Any] = {
        "totals": {"replay_records": replay}, "partitions": [{"method": each} for each in methods],
    }  # fmt: skip
    assert is_exact({"plan": plan}) is exact
