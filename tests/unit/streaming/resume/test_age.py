"""How old a copy is: from the oldest record that may lack, found behind the newest copy (KIP-734)."""

from collections.abc import Mapping
from typing import Any

import pytest

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import Fetched, PartitionError
from streaming.resolve.comparison import replication_ages
from streaming.resume.age import UNREAD, ReplicationAge
from tests.memory_log import MemoryCluster
from tests.replicas import CatchingUp, hold_back

KEY, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
NOW_MS = 10_000
AHEAD_MS = NOW_MS + 3_000_000


def cluster(topic: str, *times: int) -> MemoryCluster:
    made = MemoryCluster(topic)
    made.create(topic)
    for time in times:
        made.append(topic, 0, time, b"")
    return made


def aged(east: MemoryCluster, west: MemoryCluster) -> ReplicationAge:
    return replication_ages(east, west, {KEY: COPY}, Deadline.after(1), now_ms=NOW_MS)[KEY]


@pytest.mark.parametrize(
    ("here", "there", "seconds", "records"),
    [
        ((1000, 2000, 3000), (1000, 2000, 3000), 0.0, 0),
        ((1000, 2000, 3000), (1000,), 2.0, 2),
        ((1000, 2000, 3000), (), None, 3),
        ((), (), 0.0, 0),
        ((), (1000,), 0.0, 0),
        ((1000, 2000), (1000, 2000, 9000), None, None),
        ((5000, 1000, 2000), (5000, 1000), 4.0, 2),
        ((1000, AHEAD_MS, 4000, 5000), (1000, AHEAD_MS), 6.0, 2),
        ((1000, AHEAD_MS, AHEAD_MS - 5, 4000), (1000, AHEAD_MS), 6.0, 2),
        ((1000, 8000, 2000, 9000), (1000, 8000), 7.0, 2),
        ((1000, 2000, AHEAD_MS), (1000,), 9.0, 2),
        ((1000, 2000, 2000, 2000), (1000, 2000, 2000, 2000), 0.0, 2),
        ((2000, 3000), (1000, 1500), 1.5, 2),
    ],
    ids=["level", "behind", "empty copy", "both empty", "emptied source", "ahead", "the last is not the newest",
         "dated ahead", "two dated ahead", "was dated ahead", "the source alone is ahead", "one batch", "expired here"],
)  # fmt: skip
def test_an_age_is_an_upper_bound_by_what_follows_the_newest_copy(
    here: tuple[int, ...], there: tuple[int, ...], seconds: float | None, records: int | None
) -> None:
    found = aged(cluster("orders", *here), cluster("east.orders", *there))
    assert (found.seconds, found.records, found.error) == (seconds, records, None)
    assert found.newest_ms == max(there, default=None)


def test_markers_behind_the_newest_copy_are_no_records_that_lack() -> None:
    east = cluster("orders", 1000, 2000)
    east.skip("orders", 0, 2)
    assert aged(east, cluster("east.orders", 1000, 2000)).seconds == 0.0
    assert aged(east, cluster("east.orders", 1000)).seconds == 1.0


def test_records_unread_behind_the_newest_copy_leave_the_age_unknown() -> None:
    class Unread(MemoryCluster):
        def fetch(self, *_: Any, **__: Any) -> Mapping[TopicPartition, Fetched]:
            return {}

    east = Unread("orders")
    east.create("orders")
    for time in (1000, AHEAD_MS, 4000):
        east.append("orders", 0, time, b"")
    found = aged(east, cluster("east.orders", 1000, AHEAD_MS))
    assert (found.seconds, found.records, found.note) == (None, 1, UNREAD)


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


def test_a_side_that_is_replicated_a_moment_later_is_read_again() -> None:
    east = CatchingUp("orders")
    east.create("orders")
    for time in (1000, 3000):
        east.append("orders", 0, time, b"")
    hold_back(east, KEY)
    found = aged(east, cluster("east.orders", 1000))
    assert (found.seconds, found.error) == (2.0, None)
