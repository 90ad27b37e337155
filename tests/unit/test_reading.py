"""Reading what tracks wait for: once for all of them, and nothing that is known."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pytest

from state.model import TopicPartition
from streaming.log import Fetched
from streaming.memory import MemoryCluster
from streaming.spark.follow import Batch
from streaming.spark.hosting import Subject
from streaming.spark.reading import read_ends
from streaming.spark.track import Track

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class CountingCluster(MemoryCluster):
    """Remembers where it was read from."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[int] = []

    def fetch(
        self,
        starts: Mapping[TopicPartition, tuple[int, int]],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:
        self.starts += [offset for offset, _ in starts.values()]
        return super().fetch(starts, until=until, read_committed=read_committed, timeout=timeout)


def cluster(records: int) -> CountingCluster:
    made = CountingCluster()
    made.create("orders")
    append(made, range(records))
    return made


def append(to: MemoryCluster, offsets: Iterable[int]) -> None:
    for offset in offsets:
        to.append("orders", 0, 1_000 + offset, offset.to_bytes(16))


def track(query: str, batch: int, end: int) -> Track:
    made = Track(Subject(query, 1, "east", f"/{query}"))
    see(made, batch, end)
    return made


def see(known: Track, batch: int, end: int) -> None:
    known.see(Batch(id=batch, offsets={"orders": {"orders": {"0": end}}}, committed=True))


def ring(of: Track) -> list[int]:
    return [each.offset for each in of.positions(NOW, {}, {})[-1].ring]


def test_the_second_end_is_read_from_the_first_on() -> None:
    log, one = cluster(200), track("one", 7, 100)
    read_ends(log, [one], timeout=1)
    assert ring(one) == list(range(68, 100))
    see(one, 8, 110)
    read_ends(log, [one], timeout=1)
    assert ring(one) == list(range(68, 110))
    assert log.starts == [64, 100]


@pytest.mark.parametrize("newer_first", [False, True])
def test_two_queries_at_one_end_are_served_by_one_reading_that_reaches_back_for_both(newer_first: bool) -> None:
    log, one = cluster(200), track("one", 7, 100)
    read_ends(log, [one], timeout=1)
    see(one, 8, 110)
    two = track("two", 3, 110)
    read_ends(log, [two, one] if newer_first else [one, two], timeout=1)
    assert ring(one) == list(range(68, 110))
    assert ring(two) == list(range(78, 110))
    assert log.starts == [64, 74]


def test_two_queries_at_different_ends_are_each_read_at_their_own() -> None:
    log = cluster(200)
    one, two = track("one", 7, 100), track("two", 3, 110)
    read_ends(log, [one, two], timeout=1)
    assert ring(one) == list(range(68, 100))
    assert ring(two) == list(range(78, 110))


def test_records_that_another_leader_wrote_over_the_known_ones_replace_them() -> None:
    log, one = cluster(100), track("one", 7, 100)
    read_ends(log, [one], timeout=1)
    overwritten = log.partition("orders", 0)
    del overwritten.records[90:]
    overwritten.end, overwritten.leader_epoch = 90, 1
    append(log, range(1_000, 1_030))
    see(one, 8, 110)
    read_ends(log, [one], timeout=1)
    read_ends(log, [one], timeout=1)
    assert [each.timestamp_ms for each in one.positions(NOW, {}, {})[-1].ring[-20:]] == [*range(2_000, 2_020)]
