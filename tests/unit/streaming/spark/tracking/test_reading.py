"""Reading what tracks wait for: once for all of them, and nothing that is known."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pytest

from state.model.entities import TopicPartition
from state.model.fingerprints import Fingerprints
from streaming.cluster_log import Fetched
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.tracking.reading import read_ends
from streaming.spark.tracking.track import RunProgress
from tests.memory_log import MemoryCluster

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


def track(query: str, batch: int, end: int) -> RunProgress:
    made = RunProgress(Subject(query, 1, "east", f"/{query}"))
    see(made, batch, end)
    return made


def see(known: RunProgress, batch: int, end: int) -> None:
    known.see(Batch(id=batch, offsets={"orders": {"orders": {"0": end}}}, committed=True))


def ring(of: RunProgress) -> list[int]:
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
def test_two_queries_at_one_end_share_a_read_that_reaches_back_for_both(newer_first: bool) -> None:
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


def in_a_transaction(log: CountingCluster, offsets: Iterable[int], *, is_open: bool = False) -> None:
    """These records were aborted, or not ended, so a read_committed reader is not given them."""
    held = log.partition("orders", 0)
    chosen = set(offsets)
    held.records = [each._replace(uncommitted=True) if each.offset in chosen else each for each in held.records]
    held.stable = min(chosen) if is_open else None


def tracked(committed_only: frozenset[str], end: int) -> RunProgress:
    made = RunProgress(Subject("one", 1, "east", "/one", committed_only))
    see(made, 7, end)
    return made


def test_each_query_remembers_what_its_own_isolation_level_gives_it() -> None:
    log = cluster(100)
    in_a_transaction(log, range(90, 96))
    everything, committed = tracked(frozenset(), 100), tracked(frozenset({"orders"}), 100)
    read_ends(log, [everything, committed], timeout=1)
    assert ring(everything) == list(range(68, 100))
    assert [each for each in ring(committed) if each >= 88] == [88, 89, 96, 97, 98, 99]


def test_which_of_them_were_not_committed_is_remembered_too() -> None:
    log, one = cluster(100), tracked(frozenset(), 100)
    in_a_transaction(log, range(90, 96))
    read_ends(log, [one], timeout=1)
    (position,) = one.positions(NOW, {}, {})
    assert Fingerprints.of(position.ring).uncommitted == frozenset(range(90, 96))


def test_records_of_an_open_transaction_are_remembered_by_who_has_read_them() -> None:
    log = cluster(100)
    in_a_transaction(log, range(95, 100), is_open=True)
    one = tracked(frozenset(), 100)
    read_ends(log, [one], timeout=1)
    assert ring(one) == list(range(68, 100))


def test_a_long_aborted_transaction_does_not_push_the_committed_records_out() -> None:
    log = cluster(300)
    in_a_transaction(log, range(200, 300))
    one = tracked(frozenset(), 300)
    read_ends(log, [one], timeout=1)
    (position,) = one.positions(NOW, {}, {})
    committed = [each.offset for each in position.ring if each.offset < 200]
    assert committed == list(range(184, 200))


def test_uncommitted_records_stay_only_where_every_offset_was_read() -> None:
    log, one = cluster(400), tracked(frozenset(), 100)
    in_a_transaction(log, range(395, 400))
    read_ends(log, [one], timeout=1)
    one.positions(NOW, {}, {})
    see(one, 8, 400)
    read_ends(log, [one], timeout=1)
    (position,) = one.positions(NOW, {}, {})
    assert [each.offset for each in position.ring] == list(range(368, 400)), "what lies between 100 and 368 is unknown"
