"""What a writer's sink can know of a batch, by its format."""

from types import SimpleNamespace
from typing import cast

import pytest

from state.settings.keys import Query
from streaming.spark.hosting import Hosting
from streaming.spark.query.launch import changes_in_its_run


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"resume": "switch"}, True),
        ({"sources": {"orders": {"pattern": "orders-.*"}}}, True),
        ({"resume": "carry"}, False),
        ({"resume": "fresh"}, False),
        ({"settings_by_cluster": {"west": {"table": "w"}}}, False),
        ({"settings_by_cluster": {"north": {"table": "n"}}}, True),
        ({"settings": {"table": "w"}, "settings_by_cluster": {"west": {"table": "w"}}}, True),
        ({"output": {"topic": "out", "cluster": "active"}}, False),
        ({"output": {"topic": "out", "cluster": "north"}}, True),
        ({"output": {"topic": "out"}, "pipeline": None, "attach": "a"}, True),
    ],
)
def test_a_run_leaves_its_cluster_by_switch_where_nothing_else_changes(changes: dict[str, object], same: bool) -> None:
    known = {"pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"]}
    query = Query.model_validate({**known, "runners": ["a"], "checkpoint": "c", **changes})
    hosting = SimpleNamespace(query=lambda _: query, resume=lambda _: query.resume_with(companion=True))
    assert changes_in_its_run(cast(Hosting, hosting), "q", "east", "west") is same
