"""How old a copy is, by the largest timestamp of each side (KIP-734), in seconds and records."""

import pytest

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import PartitionError
from streaming.resolve.comparison import replication_ages
from streaming.resume.age import ReplicationAge
from tests.memory_log import MemoryCluster
from tests.replicas import CatchingUp, hold_back

KEY, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)


def cluster(topic: str, *times: int) -> MemoryCluster:
    made = MemoryCluster(topic)
    made.create(topic)
    for time in times:
        made.append(topic, 0, time, b"")
    return made


def aged(east: MemoryCluster, west: MemoryCluster) -> ReplicationAge:
    return replication_ages(east, west, {KEY: COPY}, Deadline.after(1))[KEY]


@pytest.mark.parametrize(
    ("here", "there", "seconds", "records"),
    [
        ((1000, 2000, 3000), (1000, 2000, 3000), 0.0, 0),
        ((1000, 2000, 3000), (1000,), 2.0, 2),
        ((1000, 2000, 3000), (), None, 3),
        ((), (), 0.0, 0),
        ((), (1000,), 0.0, 0),
        ((1000, 2000), (1000, 2000, 9000), 0.0, 0),
        ((5000, 1000, 2000), (5000, 1000), 0.0, 0),
    ],
    ids=["level", "behind", "empty copy", "both empty", "emptied source", "ahead", "the last is not the newest"],
)
def test_a_copy_is_as_old_as_its_largest_timestamp(
    here: tuple[int, ...], there: tuple[int, ...], seconds: float | None, records: int
) -> None:
    found = aged(cluster("orders", *here), cluster("east.orders", *there))
    assert (found.seconds, found.records, found.error) == (seconds, records, None)
    assert found.newest_ms == max(there, default=None)


def test_an_error_of_either_side_leaves_the_age_unknown() -> None:
    error = PartitionError(name="UNSUPPORTED_VERSION", text="too old", retriable=False)
    for broken in ("orders", "east.orders"):
        sides = {"orders": cluster("orders", 1000), "east.orders": cluster("east.orders", 1000)}
        sides[broken].partition(broken, 0).error = error
        found = aged(sides["orders"], sides["east.orders"])
        assert (found.seconds, found.records, found.error) == (None, None, error)


@pytest.mark.parametrize("ahead", ["orders", "east.orders"])
def test_a_side_without_its_newest_record_yet_is_not_taken_for_empty(ahead: str) -> None:
    sides = {"orders": cluster("orders", 1000, 2000), "east.orders": cluster("east.orders", 1000, 2000)}
    hold_back(sides[ahead], TopicPartition(ahead, 0))
    found = aged(sides["orders"], sides["east.orders"])
    assert (found.seconds, found.records, found.by_standby) == (None, None, ahead == "east.orders")
    assert found.error is not None
    assert (found.error.name, found.error.retriable) == ("OFFSET_NOT_AVAILABLE", True)


def test_a_side_that_is_replicated_a_moment_later_is_asked_again() -> None:
    east = CatchingUp("orders")
    east.create("orders")
    for time in (1000, 3000):
        east.append("orders", 0, time, b"")
    hold_back(east, KEY)
    found = aged(east, cluster("east.orders", 1000))
    assert (found.seconds, found.error) == (2.0, None)
