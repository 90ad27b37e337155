"""Ranges of a log are read whole, or it is said that they were not."""

from state.model.entities import TopicPartition
from streaming.cluster_log import ClusterLog, PartitionError
from streaming.resolve.ranges import read_ranges
from tests.unit.streaming.standby import Slot, copied, standby, stream

KEY = TopicPartition("orders", 0)


def read(log: ClusterLog, first: int, last: int, *, limit: int = 1000, timeout: float = 5.0) -> list[int] | None:
    records = read_ranges(log, {KEY: (first, last)}, limit=limit, timeout=timeout)[KEY]
    return None if records is None else [record.offset for record in records]


def test_a_range_is_read_from_its_first_to_before_its_last() -> None:
    assert read(standby(Slot(stream(0, 60))), 10, 40) == list(range(10, 40))
    assert read(standby(Slot(stream(0, 60))), 40, 40) == []


def test_offsets_without_a_record_are_passed_over() -> None:
    holed = [record for record in stream(0, 60) if record[0] not in range(20, 35)]
    assert read(standby(Slot(holed)), 10, 30) == list(range(10, 20))


def test_several_partitions_are_read_side_by_side() -> None:
    log = standby(Slot(stream(0, 30)), Slot(copied(stream(0, 30), 100)))
    other = TopicPartition("orders", 1)
    found = read_ranges(log, {KEY: (0, 30), other: (100, 130)}, limit=1000, timeout=5.0)
    assert [len(found[key] or ()) for key in (KEY, other)] == [30, 30]


def test_a_range_beyond_the_limit_is_not_read_on() -> None:
    log = standby(Slot(stream(0, 60)))
    assert read(log, 0, 60, limit=20) is None
    assert log.fetched == 3


def test_an_error_or_the_deadline_leaves_it_incomplete() -> None:
    lasting = PartitionError(name="OFFSET_OUT_OF_RANGE", text="deleted", retriable=False)
    passing = PartitionError(name="NOT_LEADER_OR_FOLLOWER", text="moved", retriable=True)
    for error, tries in ((lasting, 1), (passing, 3)):
        log = standby(Slot(stream(0, 60), error=error))
        assert read(log, 0, 60) is None
        assert log.fetched == tries
    assert read(standby(Slot(stream(0, 60))), 0, 60, timeout=0.0) is None


def test_a_range_past_the_end_of_the_log_is_incomplete() -> None:
    assert read(standby(Slot(stream(0, 60))), 50, 70) is None
