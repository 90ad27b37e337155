"""Records that come after a move although they were read before it: what is remembered of them, and how many came."""

import pytest

from streaming.cluster_log import LogRecord
from streaming.resume.sent_again import Awaited
from tests.unit.streaming.standby import T0, Slot, copied, digest, one, standby, stream, want


def records(values: list[tuple[int, int, str]], *, append_time: bool = False) -> list[LogRecord]:
    return [LogRecord(offset, at, digest(value), append_time) for offset, at, value in values]


def awaited(old: list[tuple[int, int, str]], *, announced: int | None = None) -> Awaited:
    known = tuple((at, digest(value)) for _, at, value in old)
    return Awaited(announced=len(known) if announced is None else announced, missing=known)


def test_records_that_a_lagging_standby_lacks_are_remembered() -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old[:33], 700))), want(old[:40]))
    assert target.replay_later_records == 7
    assert [(each.offset, each.digest) for each in target.later] == [(o, digest(v)) for o, _, v in old[33:40]]


def test_unseen_records_of_a_long_batch_are_forecast_seen_ones_remembered() -> None:
    old = stream(0, 100)
    known = [*old[:40], *old[68:]]  # a batch of 60 was read at its end only
    target = one(standby(Slot(copied(old[:40], 700))), want(known))
    assert target.replay_later_records == 60
    assert "later records are an upper bound" in target.note
    assert [each.offset for each in target.later] == [offset for offset, _, _ in old[68:]]
    here = Awaited(announced=60, missing=tuple((each.timestamp_ms, each.digest) for each in target.later))
    assert here.after(records(copied(old[40:], 740))).came == 60


def test_nothing_is_remembered_where_nothing_is_announced() -> None:
    old = stream(0, 60)
    assert one(standby(Slot(copied(old))), want(old[:40])).later == ()


def test_records_that_were_only_counted_cannot_be_remembered() -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old[:33]))), want(old[:30], offset=40, dense=True))
    assert (target.target_offset, target.replay_records) == (30, 3)
    assert (target.replay_later_records, target.later) == (10, ())


@pytest.mark.parametrize("append_time", [False, True])
def test_they_are_counted_among_new_ones_when_they_come(append_time: bool) -> None:
    old, new = stream(0, 60), stream(100, 130)
    mixed = [*new[:9], *old[33:36], *new[9:], *old[36:38]]
    log = records(copied(mixed, 733), append_time=append_time)
    assert awaited(old[33:40]).after(log).came == 5
    assert awaited(old[33:40]).after(log[:9]).came == 0


def test_a_copy_that_is_sent_twice_counts_once() -> None:
    old = stream(0, 60)
    assert awaited(old[33:40]).after(records([*old[33:40], *old[33:40]])).came == 7


def test_equal_records_count_as_often_as_they_were_read() -> None:
    twins = [(offset, T0, "same") for offset in range(4)]
    assert awaited(twins[:3]).after(records(twins)).came == 3
    assert awaited(twins[:3]).after(records(twins[:2])).came == 2


def test_the_same_payload_at_another_time_is_another_record() -> None:
    assert awaited([(0, T0, "same")]).after(records([(9, T0 + 1, "same")])).came == 0


def test_those_before_a_remembered_one_have_come_as_well() -> None:
    old = stream(0, 60)
    assert awaited(old[38:40], announced=7).after(records(old[33:39])).came == 6
    assert awaited(old[38:40], announced=7).after(records(old[33:36])).came == 0


def test_without_any_memory_the_count_is_unknown() -> None:
    assert awaited([], announced=7).after(records(stream(0, 9))).came is None
    assert awaited([], announced=0).after([]).came == 0


def test_looking_can_be_taken_up_where_it_was_left() -> None:
    old = stream(0, 60)
    first = awaited(old[33:40], announced=9).after(records([*stream(100, 5), *old[33:36]]))
    assert (first.came, first.matched, len(first.missing)) == (5, 3, 4)
    assert first.after(records(stream(105, 5))).came == 5
    assert first.after(records(old[36:40])).came == 9
