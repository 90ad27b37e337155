"""What starts of queries open on a cluster, as an estimate; what is not known stays unknown."""

from typing import Any

import pytest

from state.settings.connection_estimate import connections_of_move, connections_of_start, tasks_of
from state.settings.keys import Tideover


def settings(limit: int | None = 20, **query: Any) -> Tideover:
    one = {
        "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
        "runners": ["a"], "checkpoint": "c", **query,
    }  # fmt: skip
    return Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {
                "east": {"bootstrap": ["e:1"]},
                "west": {"bootstrap": ["w:1", "w:2", "w:3"], "connections_per_second": limit},
            },
            "runners": {"a": {}},
            "queries": {"one": one, "two": one | {"checkpoint": "d"}},
        }
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, 4 + 2 * 8),
        ({"output": {"topic": "totals"}}, 2 * 4 + 2 * 8),
        ({"sources": {name: {"topics": [name]} for name in ("a", "b")}}, 2 * 4 + 2 * 8),
    ],
)
def test_a_start_opens_two_for_each_task_and_those_of_its_clients(query: dict[str, Any], expected: int) -> None:
    known = settings(**query)
    assert connections_of_start(known.queries["one"], 8, 3) == expected


def test_a_move_of_all_is_their_sum_and_takes_the_time_of_the_limit() -> None:
    need = connections_of_move(settings(20), "west", {"one": 8, "two": 18})
    assert need is not None
    assert (need.queries, need.connections, need.largest, need.seconds) == (2, 60, 40, 3.0)


def test_one_query_of_unknown_partitions_makes_the_sum_unknown() -> None:
    need = connections_of_move(settings(), "west", {"one": 8, "two": None})
    assert need is not None
    assert (need.connections, need.seconds, need.unknown) == (None, None, ("two",))


def test_a_cluster_without_a_limit_is_not_compared() -> None:
    assert connections_of_move(settings(None), "west", {"one": 8}) is None
    assert connections_of_move(settings(), "west", {}) is None


@pytest.mark.parametrize(
    ("source", "known", "tasks"),
    [
        ({"topics": ["orders"]}, {"orders": 6}, 6),
        ({"topics": ["orders"], "options": {"minPartitions": 40}}, {"orders": 6}, 40),
        ({"topics": ["orders", "more"]}, {"orders": 6}, None),
        ({"pattern": "ord.*"}, {"orders": 6, "ordinary": 2, "payments": 9}, 8),
        ({"pattern": "ord.*"}, {"payments": 9}, None),
    ],
)
def test_tasks_are_counted_by_the_partitions_of_its_topics(
    source: dict[str, Any], known: dict[str, int], tasks: int | None
) -> None:
    found = settings(sources={"orders": source})
    assert tasks_of(found, found.queries["one"], "east", known) == tasks
