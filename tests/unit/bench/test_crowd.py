"""Which queries make the crowd of the bench, and which of them count as moved to an exact place."""

from typing import Any

import pytest

from bench.crowd import is_exact


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
