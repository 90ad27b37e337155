"""Rings, and the positions that follow from what was seen of batches and logs."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from state.model.entities import EndSample, Fingerprint, Position, TopicPartition
from state.model.fingerprints import Fingerprints
from streaming.cluster_log import TopicFacts
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.tracking.track import RunProgress, TrackedPartition, read_until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = Subject("revenue", 3, "east", "/checkpoints/revenue")
PARTITION = TopicPartition("orders", 0)
PLACE = TrackedPartition("orders", PARTITION)
OTHER = TrackedPartition("orders", TopicPartition("orders", 1))


def prints(offsets: Iterable[int]) -> list[Fingerprint]:
    return [Fingerprint(offset, 1_000 + offset, offset.to_bytes(16)) for offset in offsets]


def batch(
    number: int, end: int, *, committed: bool = False, other: int | None = None, inherited: bool = False
) -> Batch:
    partitions = {"0": end} if other is None else {"0": end, "1": other}
    return Batch(
        id=number,
        offsets={"orders": {"orders": partitions}},
        committed=committed,
        planned_after=None if inherited else 0.0,
    )


def newest(track: RunProgress, samples: dict[TopicPartition, EndSample] | None = None) -> dict[int, Position]:
    return {each.batch: each for each in track.positions(NOW, samples or {}, {}) if each.partition == 0}


def test_batches_of_an_earlier_run_are_stored_again_only_if_read_again() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, other=50, committed=True, inherited=True))
    track.see(batch(8, 120, other=60, inherited=True))
    assert track.positions(NOW, {}, {}) == [], "a dead cluster must not cost the rings that are stored"
    track.learn(PLACE, 100, prints(range(68, 100)))
    assert [(each.batch, each.partition) for each in track.positions(NOW, {}, {})] == [(7, 0)]
    track.see(batch(8, 120, other=60, committed=True))
    track.see(batch(9, 130, other=70))
    reported = {(each.batch, each.partition) for each in track.positions(NOW, {}, {})}
    assert reported == {(8, 0), (8, 1), (9, 0), (9, 1)}, "what this run did is told, read or not"


def test_a_run_that_begins_again_does_not_report_earlier_batches_as_its_own() -> None:
    track = RunProgress(SUBJECT)
    for _ in range(3):  # a query that fails on a dead cluster is started again and again
        track.see(batch(7, 100, committed=True, inherited=True))
        track.see(batch(8, 120, inherited=True))
    assert track.positions(NOW, {}, {}) == [], "a row without records would replace the one that has them"


def test_a_position_has_a_ring_only_if_the_log_was_read_at_its_offset() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints(range(68, 100)))
    track.see(batch(8, 120))
    positions = newest(track)
    assert [each.offset for each in positions[7].ring] == list(range(68, 100))
    assert positions[8].ring == ()


def test_batches_not_read_in_time_are_reported_so_the_gap_is_counted() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(6, 80, committed=True))
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints(range(68, 100)))
    track.count(7, {"orders": 20})
    newest(track)
    for number, end in ((8, 120), (9, 150), (10, 190)):
        track.see(batch(number, end, committed=True))
        track.count(number, {"orders": end - track_end(number)})
    reported = newest(track)
    assert [reported[number].dense for number in (8, 9, 10)] == [True, True, True]
    assert [reported[number].ring for number in (8, 9, 10)] == [(), (), ()]


def track_end(number: int) -> int:
    """Where the batch before ended."""
    return {8: 100, 9: 120, 10: 150}[number]


def test_a_committed_batch_is_read_first_and_a_planned_one_before_it_commits() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.see(batch(8, 120))
    assert track.unread() == [{PLACE: 100}, {PLACE: 120}]


def test_an_idle_partition_is_not_read_again() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints(range(68, 100)))
    track.see(batch(8, 100, committed=True))
    assert track.unread() == []
    assert len(newest(track)[8].ring) == 32


def test_a_position_is_stored_again_only_when_more_is_known() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(6, 90, committed=True))
    track.see(batch(7, 100, other=50))
    assert set(newest(track)) == {6, 7}
    assert newest(track) == {}
    track.learn(PLACE, 100, prints(range(90, 100)))
    assert [(each.batch, each.partition) for each in track.positions(NOW, {}, {})] == [(7, 0)]
    track.see(batch(7, 100, other=50, committed=True))
    assert newest(track) == {}


def test_a_row_count_is_stored_only_where_it_says_something() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(6, 90, committed=True, other=10))
    track.see(batch(7, 100, committed=True, other=110))
    track.learn(PLACE, 100, prints(range(80, 100)))
    track.learn(OTHER, 110, prints(range(90, 110)))
    assert newest(track)[7].dense is True
    track.count(7, {"orders": 110})
    assert [(each.partition, each.dense) for each in track.positions(NOW, {}, {})] == [(1, True)]


def test_a_position_stored_again_keeps_its_time() -> None:
    track, later = RunProgress(SUBJECT), NOW + timedelta(seconds=1)
    track.see(batch(7, 100, committed=True))
    track.see(batch(8, 200, committed=True))
    track.positions(NOW, {}, {})
    track.see(batch(9, 300))
    track.positions(later, {}, {})
    track.learn(PLACE, 200, prints(range(168, 200)))
    assert [(each.batch, each.tracked_at) for each in track.positions(later, {}, {})] == [(8, NOW)]


def test_only_records_that_are_new_are_to_be_read() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    assert track.known(PLACE, 100) == 0
    track.learn(PLACE, 100, prints(range(68, 100)), leader_epoch=3)
    track.see(batch(8, 110))
    assert track.known(PLACE, 110) == 100
    assert track.known(PLACE, 90) == 0
    track.learn(PLACE, 110, prints(range(100, 110)), leader_epoch=3)
    assert [each.offset for each in newest(track)[8].ring] == list(range(68, 110))


def test_an_end_that_was_read_in_part_does_not_bound_the_next_reading() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints([99]), whole=False)
    assert track.known(PLACE, 110) == 0


def test_after_a_change_of_leaders_what_was_known_is_read_again() -> None:
    """An unclean one may have put other records in its place."""
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints(range(68, 100)), leader_epoch=3)
    track.see(batch(8, 110))
    track.learn(PLACE, 110, prints(range(100, 110)), leader_epoch=4)
    assert track.unread() == [{PLACE: 110}]
    assert track.known(PLACE, 110) == 0
    others = [Fingerprint(offset, 0, bytes(16)) for offset in range(78, 110)]
    track.learn(PLACE, 110, others, leader_epoch=4)
    assert list(newest(track)[8].ring[-32:]) == others
    assert track.known(PLACE, 111) == 110


def test_a_way_whose_every_record_was_read_is_dense() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.see(batch(8, 110, committed=True))
    track.learn(PLACE, 110, prints(range(78, 110)))
    assert newest(track)[8].dense is True


def test_a_hole_in_what_was_read_is_not_dense() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.see(batch(8, 200, committed=True))
    track.learn(PLACE, 200, prints(offset for offset in range(160, 200) if offset != 190))
    assert newest(track)[8].dense is False


def test_the_first_batch_that_is_seen_says_nothing_about_the_way_there() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    assert newest(track)[7].dense is None


def test_a_row_count_proves_a_dead_cluster_dense_if_all_is_read_once() -> None:
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.see(batch(8, 200, committed=True))
    track.count(8, {"orders": 100})
    track.learn(PLACE, 200, prints(range(168, 200)))
    assert newest(track)[8].dense is True
    track.see(batch(9, 300, committed=True))
    track.count(9, {"orders": 100})
    assert newest(track)[9].dense is True


def test_a_row_count_alone_proves_nothing() -> None:
    """A sink that reads its source twice counts 50 records between 100 markers as 100 rows."""
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.see(batch(8, 200, committed=True))
    track.count(8, {"orders": 100})
    assert newest(track)[8].dense is None


def test_a_row_count_that_does_not_match_takes_the_trust_away() -> None:
    track = RunProgress(SUBJECT)
    for number, (end, rows) in enumerate([(100, 0), (200, 100), (300, 200), (400, 100)]):
        track.see(batch(number, end, committed=True))
        track.count(number, {"orders": rows})
        if number == 1:
            track.learn(PLACE, end, prints(range(end - 32, end)))
        found = newest(track)[number].dense
    assert found is None


def test_an_idle_partition_counts_as_read_until_it_was_sampled() -> None:
    sample = EndSample(
        cluster="east", topic="orders", partition=0, begin=0, end=100, newest_timestamp_ms=5,
        leader_epoch=None, topic_id=None, sampled_at=NOW,
    )  # fmt: skip
    now_ms = int(NOW.timestamp() * 1000)
    assert read_until(100, 5, sample) == now_ms
    assert read_until(100, None, sample) == now_ms
    assert read_until(99, 5, sample) == 5
    assert read_until(100, now_ms + 9, sample) == now_ms + 9
    assert read_until(100, None, None) is None


def test_consumed_is_what_was_committed_and_never_what_is_only_planned() -> None:
    track = RunProgress(SUBJECT)
    assert track.consumed() == {}
    track.see(batch(7, 100))
    assert track.consumed() == {}
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints(range(40, 100)))
    track.see(batch(8, 120))
    track.learn(PLACE, 120, prints(range(100, 120)))
    assert track.consumed() == {PLACE: (100, Fingerprints.of(prints(range(68, 100))))}


def test_a_position_names_the_leader_epoch_of_its_last_record() -> None:
    """Not that of the leader of now (KIP-320): with a newer one a log that was cut since would confirm its own loss."""
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    track.learn(PLACE, 100, prints(range(68, 100)), leader_epoch=3)
    track.see(batch(8, 110))
    sample = EndSample(
        cluster="east", topic="orders", partition=0, begin=0, end=110, newest_timestamp_ms=None, leader_epoch=5,
        topic_id=None, sampled_at=NOW,
    )  # fmt: skip
    reported = newest(track, {PARTITION: sample})
    assert (reported[7].leader_epoch, reported[8].leader_epoch) == (3, 5), (
        "unread, but at the sampled end: the cluster told"
    )
    track.learn(PLACE, 110, (), leader_epoch=None)
    assert newest(track, {PARTITION: sample})[8].leader_epoch == 3, "markers only: the last record is the one before"
    track.see(batch(9, 120))
    assert newest(track, {PARTITION: sample})[9].leader_epoch is None


def test_a_position_names_the_topic_id_under_which_it_was_read() -> None:
    """By it alone a topic that was made again under its old name is known (KIP-516)."""
    track = RunProgress(SUBJECT)
    track.see(batch(7, 100, committed=True))
    facts = TopicFacts(
        name="orders", topic_id="T1", partitions={}, timestamp_type="CreateTime", cleanup_policy="delete"
    )
    (reported,) = track.positions(NOW, {}, {"orders": facts})
    assert reported.topic_id == "T1"
    track.see(batch(8, 110))
    (reported,) = track.positions(NOW, {}, {})
    assert reported.topic_id is None
