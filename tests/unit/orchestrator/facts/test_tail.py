"""What a standby lacked, counted and listed in the log that was left, whatever its clocks and transactions do."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.move.left_behind import Exposed, LeftPartition, with_compared
from orchestrator.facts.exposed import count_exposed
from orchestrator.facts.tail import Tail, tail_of
from state.messages import Planned, SinkState
from state.model.plan import Plan, StandbyPartition
from streaming.cluster_log import LogRecord, OffsetAnswer
from tests.contract import samples
from tests.memory_log import MemoryCluster

T0 = 1_700_000_000_000
LOOKED_AT_MS = T0 + 5_000
COPIED, ALL = 90, 100
KEY = StandbyPartition("orders", "orders", 0)


@dataclass
class Worlds:
    """East has 100 records, one each 10 ms; west holds the first 90."""

    east: MemoryCluster
    west: MemoryCluster

    @property
    def log(self) -> list[LogRecord]:
        return self.east.partition("orders", 0).records

    def change(self, offset: int, **fields: Any) -> None:
        self.log[offset] = self.log[offset]._replace(**fields)

    def left(self, **fields: Any) -> LeftPartition:
        return LeftPartition(key=KEY, topic="orders", partition=0, end=COPIED, **fields)

    def count(self, **fields: Any) -> Exposed:
        return count_exposed(self.east, self.west, [self.left(**fields)], LOOKED_AT_MS)[KEY]

    def tail(self, batch: Planned | None = None, **fields: Any) -> Tail:
        left = self.left(**fields)
        row = {
            "source": "orders", "topic": "orders", "partition": 0, "exposed": None, "committed": left.committed,
            "sampled_end": left.sampled_end,
        }  # fmt: skip
        planned = {
            "source": "orders", "topic": "orders", "partition": 0, "target_topic": "orders", "target_partition": 0,
            "end": COPIED, "offset": 94,
        }  # fmt: skip
        plan = Plan.of({
            "followed": {"asked_at_ms": LOOKED_AT_MS, "compared": False, "partitions": [row]}, "partitions": [planned],
        })  # fmt: skip
        plan = with_compared(plan, {KEY: self.count(**fields)})
        operation = samples.operation(plan=plan, outcome="done", source="east", target="west")
        return tail_of(operation, {"east": self.east, "west": self.west}.__getitem__, batch)

    def listed(self, **fields: Any) -> list[int]:
        return [each.record.offset for each in self.tail(**fields).records]


def worlds() -> Worlds:
    made = Worlds(MemoryCluster("east"), MemoryCluster("west"))
    for cluster, count in ((made.east, ALL), (made.west, COPIED)):
        cluster.create("orders")
        for number in range(count):
            cluster.append_entry("orders", 0, b"k", str(number).encode(), T0 + 10 * number)
    return made


@pytest.mark.parametrize(
    ("sink", "read"),
    [(SinkState.HAS, True), (SinkState.HAS_NOT, False), (SinkState.UNKNOWN, None), (SinkState.FORGOT, None)],
)
def test_a_batch_under_way_may_have_been_read_before_the_query_left(sink: SinkState, read: bool | None) -> None:
    """The query had committed up to 94, and a batch up to 97 was under way."""
    batch = Planned(batch=7, offsets={"orders": {"orders": {"0": 97}}}, sink=sink)
    found = [each.read_before for each in worlds().tail(batch).records]
    assert found == [True] * 4 + [read] * 3 + [False] * 3
    assert [each.read_before for each in worlds().tail().records] == [True] * 4 + [False] * 6


@pytest.mark.parametrize("begin", [0, 60])
def test_records_in_any_partition_of_the_standby_are_no_exposure(begin: int) -> None:
    """Another partitioner, or a topic that was created again: what was read ends at 50, and 10 were never copied."""
    east, west = MemoryCluster("east"), MemoryCluster("west")
    east.create("orders", 2)
    west.create("orders", 2)
    for number in range(ALL):
        time = T0 + 10 * number
        east.append_entry("orders", number % 2, b"k", str(number).encode(), time)
        if number >= begin and number < COPIED:
            west.append_entry("orders", number // 3 % 2, b"k", str(number).encode(), time)
    ends = {number: len(west.partition("orders", number).records) for number in (0, 1)}
    left = [
        LeftPartition(
            key=StandbyPartition("orders", "orders", number), topic="orders", partition=number, end=ends[number],
            scattered_from=25,
        )
        for number in (0, 1)
    ]  # fmt: skip
    west.append_entry("orders", 0, b"k", b"95", T0 + 950)  # copied since: it was lacking at the look-up
    found = count_exposed(east, west, left, LOOKED_AT_MS)
    lacking = (ALL - COPIED) // 2 + max(0, begin - 50) // 2
    assert [(each.records, each.first) for each in found.values()] == [(lacking, 25)] * 2
    west.truncate("orders", 1, 3)
    assert count_exposed(east, west, left, LOOKED_AT_MS) == {}, "a log that was cut shows nothing any more"


def dated_ahead(*offsets: int) -> Worlds:
    """Producers whose clocks are a minute ahead wrote these; copies keep the time."""
    made = worlds()
    for offset in offsets:
        made.change(offset, timestamp_ms=made.log[offset].timestamp_ms + 60_000)
    return made


@pytest.mark.parametrize("offsets", [(), (90,), (91,), (95, 96), (90, 92, 94, 96, 98)])
def test_a_record_dated_ahead_hides_no_record_behind_it(offsets: tuple[int, ...]) -> None:
    made = dated_ahead(*offsets)
    found = made.count()
    assert (found.records, found.first, found.last) == (10, 90, 100)
    assert made.listed() == list(range(90, 100))
    assert made.tail().is_whole


@given(st.sets(st.integers(COPIED, ALL - 1)))
def test_no_clock_makes_a_count_too_small(offsets: set[int]) -> None:
    found = dated_ahead(*offsets).count()
    assert found.records in {10, None}
    assert found.at_least is not None
    assert found.at_most is not None
    assert found.at_least <= 10 <= found.at_most


def test_a_last_record_dated_ahead_leaves_the_number_unknown() -> None:
    made = dated_ahead(99)
    assert (made.count().records, made.count().at_least, made.count().at_most) == (None, 9, 10)
    tail = made.tail()
    assert [each.dated_later for each in tail.records] == [False] * 9 + [True]
    assert tail.partitions[0].why.startswith("between 9 and 10 records")


def test_a_last_record_that_is_dated_ahead_counts_where_a_sample_had_seen_it() -> None:
    assert dated_ahead(99).count(sampled_end=100).records == 10


def test_records_behind_the_last_sample_are_counted_apart() -> None:
    found = worlds().count(sampled_end=94)
    assert (found.records, found.sampled) == (10, 4)


def test_the_end_at_the_first_answer_bounds_the_tail() -> None:
    made = worlds()
    for number in range(7):
        made.east.append_entry("orders", 0, b"k", b"late %d" % number, T0)
    assert made.count(until=100).records == 10


def test_a_log_that_was_cut_since_is_not_counted() -> None:
    made = worlds()
    made.east.truncate("orders", 0, 95)
    assert (made.count(sampled_end=100).records, made.count(sampled_end=100).at_most) == (None, 10)


def aborted(*offsets: int) -> Worlds:
    made = worlds()
    for offset in offsets:
        made.change(offset, uncommitted=True)
    return made


def test_aborted_records_are_no_exposure_of_a_read_committed_query() -> None:
    made = aborted(94, 95, 96, 97)
    assert made.count(committed=True).records == 6
    assert made.listed(committed=True) == [90, 91, 92, 93, 98, 99]
    assert all(each.committed for each in made.tail(committed=True).records)


def test_aborted_records_that_a_query_reads_are_listed_and_marked() -> None:
    made = aborted(94, 95)
    assert made.count(committed=False).records == 10
    marks = {each.record.offset: each.committed for each in made.tail(committed=False).records}
    assert marks == {offset: offset not in {94, 95} for offset in range(90, 100)}


def test_records_of_an_open_transaction_leave_the_number_unknown() -> None:
    made = worlds()
    made.east.partition("orders", 0).stable = 96
    found = made.count(committed=True)
    assert (found.records, found.at_least, found.at_most, found.last) == (None, 6, 10, 100)
    tail = made.tail(committed=True)
    assert [each.committed for each in tail.records] == [True] * 6 + [None] * 4
    assert not tail.is_whole


def test_a_transaction_that_ends_after_the_first_answer_settles_the_number() -> None:
    made = worlds()
    log = made.east.partition("orders", 0)
    log.stable = 96
    first = made.count(committed=True)
    log.stable = None
    for offset in range(96, 100):
        made.change(offset, uncommitted=True)
    made.east.append_entry("orders", 0, b"k", b"later", T0)
    assert made.count(committed=True, until=first.last).records == 6


def test_two_queries_count_one_partition_by_their_own_isolation() -> None:
    made = aborted(94, 95, 96, 97)
    other = StandbyPartition("other", "orders", 0)
    left = [made.left(committed=True), LeftPartition(other, "orders", 0, COPIED, committed=False)]
    found = count_exposed(made.east, made.west, left, LOOKED_AT_MS)
    assert (found[KEY].records, found[other].records) == (6, 10)


def test_a_copy_on_the_standby_that_was_aborted_is_none() -> None:
    made = worlds()
    made.west.append("orders", 0, T0 + 900, made.log[90].digest)
    written = made.west.partition("orders", 0).records
    assert [each.on_standby for each in made.tail().records] == [True] + [False] * 9
    written[90] = written[90]._replace(uncommitted=True)
    assert not any(each.on_standby for each in made.tail(committed=True).records)


def test_a_partition_that_does_not_answer_is_not_counted_as_nothing() -> None:
    made = worlds()

    class Half(MemoryCluster):
        """Answers every look-up but that of a log's end, once its records are found."""

    made.east.__class__ = Half
    looked = MemoryCluster.offsets
    requested = 0

    def offsets(self: MemoryCluster, times: Any, **rest: Any) -> Any:
        nonlocal requested
        found = dict(looked(self, times, **rest))
        requested += rest.get("read_committed", False)
        if requested > 1:  # the resolver has had its answer
            found = dict.fromkeys(found, OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None))
        return found

    Half.offsets = offsets  # type: ignore[method-assign]
    assert count_exposed(made.east, made.west, [made.left()], LOOKED_AT_MS) == {}
