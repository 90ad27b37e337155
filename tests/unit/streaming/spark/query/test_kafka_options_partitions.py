"""The task slots follow the partitions that are really there, as far as any broker answers."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from state.settings.keys import Tideover
from streaming.cluster_log import PartitionFacts, TopicFacts
from streaming.errors import ClusterUnreachable
from streaming.spark.query.kafka_options import count_tasks

FACTS = PartitionFacts(leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))


class Described:
    """A cluster that knows how many partitions its topics have, or is dead."""

    def __init__(self, counts: Mapping[str, int] | None) -> None:
        self._counts = counts

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        if self._counts is None:
            raise ClusterUnreachable
        return {
            topic: TopicFacts(
                name=topic,
                topic_id=None,
                partitions=dict.fromkeys(range(self._counts.get(topic, 0)), FACTS),
                timestamp_type=None,
                cleanup_policy=None,
            )
            for topic in topics
        }


def counted(clusters: Mapping[str, Mapping[str, int] | None], **options: Any) -> int:
    query: dict[str, Any] = {
        "pipeline": "shop:revenue",
        "sources": {"orders": {"topics": ["orders"], "options": options}, "payments": {"topics": ["payments"]}},
        "clusters": ["east", "west"],
        "runners": ["a"],
        "checkpoint": "c",
    }
    settings = Tideover.model_validate(
        {
            "store": "sqlite://",
            "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
            "routes": [{"from": "east", "to": "west", "topics": {"prefix": "east."}}],
            "runners": {"a": {}, "b": {}},
            "queries": {"revenue": query, "elsewhere": query | {"runners": ["b"], "checkpoint": "d"}},
        }
    )
    tasks = count_tasks(settings, "a", lambda name: Described(clusters[name]))  # type: ignore[arg-type, return-value] # only describes
    assert set(tasks) == {"revenue"}, "the other one is hosted elsewhere"
    return tasks["revenue"]


def test_partitions_are_counted_on_the_home_cluster() -> None:
    assert counted({"east": {"orders": 30, "payments": 6}, "west": None}) == 36


def test_a_dead_home_is_counted_on_its_standby_by_the_names_there() -> None:
    assert counted({"east": None, "west": {"east.orders": 30, "east.payments": 6}}) == 36


@pytest.mark.parametrize(("wanted", "slots"), [(4, 36), (100, 106), ("100", 106)])
def test_a_source_counts_as_the_tasks_that_it_makes(wanted: object, slots: int) -> None:
    assert counted({"east": {"orders": 30, "payments": 6}, "west": None}, minpartitions=wanted) == slots


def test_unknown_partition_counts_are_guessed() -> None:
    assert counted({"east": None, "west": None}) == 8
    assert counted({"east": {"orders": 30}, "west": None}) == 34
