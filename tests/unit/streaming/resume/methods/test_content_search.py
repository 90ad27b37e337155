"""Remembered records that lie on the standby, but not where a replicator that keeps the order puts them."""

from dataclasses import replace

import pytest

from state.settings.keys import MethodName
from streaming.cluster_log import LogRecord, OffsetAnswer
from streaming.resume.methods.content_search import Cause, Found, NoPlace, Search
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.topic_checks import expired
from tests.unit.streaming.standby import (
    T0,
    Records,
    Slot,
    copied,
    found,
    one,
    ring,
    rules,
    shows,
    standby,
    stream,
    want,
)

OLD = stream(0, 60)
CUT_SHORT = copied(OLD + OLD[20:45])
"""All of it, and then a part of it again, as far as the replicator came."""
BUFFER = rules(buffer_ms=100)


def compacted(records: Records) -> Records:
    """The newest of each key; every value is a key of its own."""
    newest = {value: offset for offset, _, value in records}
    return [record for record in records if newest[record[2]] == record[0]]


def test_a_stranger_where_the_old_log_has_no_hole_leaves_time_to_decide() -> None:
    here = [*OLD[:38], (0, T0 + 375, "foreign"), *OLD[38:]]
    target = one(standby(Slot(copied(here))), want(OLD[:40]), BUFFER)
    shows(target, target_offset=29, exact=False, method="timestamp")
    assert "an equal record at 40 has other records around it" in target.note


def test_an_unread_record_that_came_before_the_last_one_read_is_not_skipped() -> None:
    order = [*range(37), 40, 37, 41, 38, 39, *range(42, 60)]
    target = one(standby(Slot(copied([OLD[each] for each in order]))), want(OLD[:40]), BUFFER)
    shows(target, target_offset=29, exact=False, method="timestamp")


def test_an_old_equal_record_is_the_match_where_the_last_one_has_not_come() -> None:
    old = [(offset, T0 + 10 * min(offset, 20), "beat" if offset > 19 else f"r{offset}") for offset in range(60)]
    target = one(standby(Slot(copied(old[:50]))), want(old[:58]))
    shows(target, target_offset=21, exact=False, method="exact")


@pytest.mark.parametrize(("behind", "offset"), [(1, 38), (3, 36), (4, 40)])
def test_a_hole_filled_in_the_newest_time_is_read_if_few_records_follow(behind: int, offset: int) -> None:
    """Contents repeat, so the last few may be unread ones that equal the ones read, and so may be what lies before."""
    hole = 39 - behind
    here = [(at, T0 + 10 * min(at, hole), f"r{at % 35}") for at in range(45)]
    old = [each for each in here if each[0] != hole]
    target = one(standby(Slot(copied(here))), want(old[:39]))
    shows(target, method="exact", target_offset=offset, exact=behind == 4, replay_records=40 - offset)


@pytest.mark.parametrize("read", [1, 3])
def test_too_few_records_give_no_resume_offset_after_a_younger_one(read: int) -> None:
    order = [0, 10, *range(1, 10), *range(11, 60)] if read > 1 else [10, *range(10), *range(11, 60)]
    target = one(standby(Slot(copied([OLD[each] for each in order]))), want(OLD[:read]), BUFFER)
    shows(target, target_offset=0, exact=False, method="timestamp")


def test_a_hole_between_few_records_is_no_room_for_younger_ones() -> None:
    here = copied([OLD[each] for each in (0, 5, 4, 3, *range(6, 60))])
    target = one(standby(Slot(here)), want([OLD[0], OLD[3]]), BUFFER)
    shows(target, target_offset=0, exact=False, method="timestamp")


@pytest.mark.parametrize(("filler", "place"), [(42, 29), (None, 40)])
def test_a_hole_is_no_room_for_a_record_later_than_all_that_was_read(filler: int | None, place: int | None) -> None:
    """Offset 38 was aborted: its copy, of that time, fills the hole; an unread one that overtook does not."""
    read = [record for record in OLD[:40] if record[0] != 38]
    aborted = (38, T0 + 380, "aborted") if filler is None else OLD[filler]
    here = [*OLD[:38], aborted, OLD[39], *(record for record in OLD[40:] if record != aborted)]
    shows(one(standby(Slot(copied(here))), want(read), BUFFER), target_offset=place, exact=filler is None)


@pytest.mark.parametrize(("filler", "place"), [(402, 389), (None, 400)])
def test_so_it_is_where_more_is_remembered_than_is_read_of_the_standby(filler: int | None, place: int) -> None:
    old = stream(0, 600)
    read = [record for record in old[:400] if record[0] != 398]
    aborted = (398, T0 + 3_980, "aborted") if filler is None else old[filler]
    here = [*old[:398], aborted, old[399], *(record for record in old[400:] if record != aborted)]
    target = one(standby(Slot(copied(here)), per_fetch=100), want(read), BUFFER)
    shows(target, target_offset=place, exact=filler is None)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_hole_is_filled_only_if_all_that_is_remembered_came_in_order(in_order: bool) -> None:
    """Offset 38 was aborted. Where the order was changed, 41, which no one read, may lie in its place."""
    old = [(offset, T0, value) for offset, _, value in OLD]
    read = [record for record in old[:40] if record[0] != 38]
    if in_order:
        here = [*old[:38], (38, T0, "aborted"), *old[39:]]
    else:
        here = [old[each] for each in (*range(20), 21, 20, *range(22, 38), 41, 39, 40, *range(42, 60))]
    target = one(standby(Slot(copied(here))), want(read), BUFFER)
    assert (target.target_offset == 40, target.exact) == (in_order, in_order)


def test_another_hash_makes_the_topic_go_by_the_common_time() -> None:
    mine, other = stream(0, 100, name="a"), stream(0, 100, name="b")
    both = [record for pair in zip(mine, other, strict=True) for record in pair]
    dealt = [[record for at, record in enumerate(both) if (at // 3) % 2 == number] for number in range(2)]
    log = standby(*(Slot(copied(records)) for records in dealt))
    for target in found(log, [want(mine[:61]), want(other[:41], partition=1)], BUFFER).targets:
        shows(target, method="timestamp", timestamp_ms=T0 + 400, exact=False)
        assert "another partitioner" in target.note


def test_common_contents_without_times_step_over_no_earlier_equal_record() -> None:
    """The standby has its own times and lacks three of the records read: all that it holds may as well be unread."""
    read = [(i, T0 + 10 * i, value) for i, value in enumerate("aabbaabb")]
    here = copied([(0, T0 + 200 + 10 * i, value) for i, value in enumerate("xabaabbaabb")])
    target = one(standby(Slot(here, append_time=True)), want(read), rules(MethodName.EXACT))
    shows(target, target_offset=3, exact=False, replay_records=8)


def test_equal_records_leave_no_place_behind_more_of_them_than_were_read() -> None:
    """Of "b" with time 0 three were read and four are here: one may be unread, so the fourth is not skipped."""
    times, values = (0, 9, 9, 0, 0, 9, 0, 0, 9, 9, 0, 0), "abbbbbaabbab"
    read = [(i, T0 + time, value) for i, (time, value) in enumerate(zip(times, values, strict=True))]
    unread = [(12, T0, "b"), (13, T0, "a"), (14, T0, "b")]
    target = one(standby(Slot(copied([*read[:5], *unread]))), want(read), rules(MethodName.EXACT))
    shows(target, target_offset=7, exact=False)


# -- compacted


def test_a_compacted_log_with_more_equal_records_than_read_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four records of one time were read. Of the two equal ones here the second, before the last one read, is new.

    Two checks show it, each alone.
    """
    read = [(i, T0, value) for i, value in enumerate("cadb")]
    log = standby(Slot(copied([read[1], read[1], read[3]])), cleanup="compact")
    shows(one(log, want(read), BUFFER), target_offset=0, exact=False, method="timestamp")
    monkeypatch.setattr(Search, "_excess", lambda *_: None)
    shows(one(log, want(read), BUFFER), target_offset=0, exact=False, method="timestamp")


def test_a_compacted_copy_cut_short_is_no_match_behind_unread_records() -> None:
    target = one(standby(Slot(compacted(CUT_SHORT)), cleanup="compact"), want(OLD[:40]), BUFFER)
    shows(target, target_offset=45, method="timestamp", exact=False)
    assert "45 is among the records read or before them" in target.note


def test_unread_records_before_all_that_is_remembered_count_as_well() -> None:
    """Only the last ten are remembered, so the compacted standby holds nothing of them but what was sent again."""
    target = one(standby(Slot(compacted(CUT_SHORT)), cleanup="compact"), want(OLD[:40], remembered=10), BUFFER)
    shows(target, target_offset=45, method="timestamp", exact=False)


def test_a_hole_of_the_old_offsets_is_no_room_for_records_that_came_after() -> None:
    read = [record for record in OLD[:40] if not 5 < record[0] < 20]
    target = one(standby(Slot(compacted(CUT_SHORT)), cleanup="compact"), want(read), BUFFER)
    shows(target, method="timestamp", exact=False)


@pytest.mark.parametrize("markers", [0, 3])
def test_an_equal_record_behind_one_that_fills_a_hole_is_read_again_once(markers: int) -> None:
    """Offset 18 was aborted, and sent again at 19 with the same time; the standby has both, perhaps with markers."""
    known = ring([*OLD[:18], (19, *OLD[18][1:])])
    here = [LogRecord(offset, each.timestamp_ms, each.digest, False) for offset, each in enumerate(known)]
    again = here[-1]._replace(offset=19 + markers)
    place = Search(FingerprintMatcher(known, 16), lo=18, end=20 + markers).feed([*here, again], 20 + markers)
    assert isinstance(place, Found)
    assert (place.offset, place.exact, place.repeats) == (19, False, 1)


def test_a_hole_that_a_compacted_standby_fills_leaves_the_place_exact() -> None:
    read = [record for record in OLD[:40] if record[0] not in (30, 31)]
    target = one(standby(Slot(copied(OLD, 100)), cleanup="compact"), want(read))
    shows(target, target_offset=140, method="exact", exact=True)


def test_a_compacted_copy_sent_again_to_its_end_is_exact() -> None:
    sent = compacted(copied(OLD[:35] + OLD[20:]))
    target = one(standby(Slot(sent), cleanup="compact"), want(OLD[:40]))
    shows(target, target_offset=55, method="exact", exact=True)


@pytest.mark.parametrize("gone", [0, 39, 40])
def test_older_records_before_a_compacted_log_are_others_if_none_is_gone(gone: int) -> None:
    """All 40 that were read are remembered: 40 first copies may have been before those that others wrote."""
    others = [(offset, T0 - 100, f"x{offset}") for offset in range(5)]
    here = [(gone + offset, time, value) for offset, time, value in copied([*others, *OLD])]
    target = one(standby(Slot(here), cleanup="compact"), want(OLD[:40]), BUFFER)
    if gone < 40:
        shows(target, target_offset=gone + 45, exact=True, method="exact")
    else:
        shows(target, exact=False, method="timestamp")
        assert f"{gone} is among the records read or before them" in target.note


@pytest.mark.parametrize("before", [100, 101])
def test_records_older_than_times_go_back_are_others_on_a_compacted_log(before: int) -> None:
    """What a producer wrote there long before the copies is compacted too, and shows nothing of the copies."""
    others = [(offset, T0 - before, f"x{offset}") for offset in range(5)]
    here = [(40 + offset, time, value) for offset, time, value in copied([*others, *OLD])]
    target = one(standby(Slot(here), cleanup="compact"), want(OLD[:40]), BUFFER)
    assert (target.exact, target.method) == ((False, "timestamp") if before == 100 else (True, "exact"))


def test_another_hash_makes_a_compacted_topic_go_by_the_common_time() -> None:
    mine, other = stream(0, 100, name="a"), stream(0, 100, name="b")
    for here in ([mine[::2] + other[1::2], other[::2] + mine[1::2]], [other, mine]):
        log = standby(*(Slot(copied(sorted(each, key=lambda record: record[1]))) for each in here), cleanup="compact")
        for target in found(log, [want(mine[:60]), want(other[:40], partition=1)], BUFFER).targets:
            shows(target, method="timestamp", timestamp_ms=T0 + 390, exact=False)
            assert "another partitioner" in target.note


def test_a_compacted_standby_that_lags_beyond_the_ring_is_no_mismatch() -> None:
    old = stream(0, 600)
    log = standby(Slot(copied(old[:100])), Slot(copied(old)), cleanup="compact")
    targets = found(log, [want(old[:500]), want(old[:500], partition=1)]).targets
    shows(targets[0], method="exact", exact=False, target_offset=100, replay_later_records=None)
    shows(targets[1], method="exact", exact=True, target_offset=500)


# -- retention


@pytest.mark.parametrize("append_time", [False, True])
@pytest.mark.parametrize("begin", [40, 42])
def test_a_second_copy_is_no_match_where_retention_took_the_first(begin: int, append_time: bool) -> None:
    here = [(offset, T0 + 600 + offset, value) if append_time else (offset, time, value)
            for offset, time, value in CUT_SHORT]  # fmt: skip
    target = one(standby(Slot(here, begin=begin, append_time=append_time)), want(OLD[:40]), BUFFER)
    shows(target, target_offset=begin, method="timestamp", exact=False, expired=True)
    assert f"{begin} is the first record left" in target.note


def test_nor_is_the_end_of_a_standby_that_seems_to_lag() -> None:
    here = copied(OLD + OLD[20:38])
    target = one(standby(Slot(here, begin=40)), want(OLD[:40]), BUFFER)
    shows(target, target_offset=40, method="timestamp", expired=True)


def test_a_second_copy_is_no_match_beyond_the_ring_with_times_out_of_order() -> None:
    old = [(offset, T0 + 10 * offset - (300 if offset == 500 else 0), f"r{offset}") for offset in range(900)]
    here = copied(old + old[200:600])
    target = one(standby(Slot(here, begin=500), per_fetch=100), want(old[:500], remembered=64), rules(buffer_ms=1000))
    shows(target, target_offset=500, method="timestamp", expired=True)


def test_a_second_copy_is_no_match_if_the_remembered_history_began_above_0() -> None:
    old = [(offset, T0 + (10 if offset < 125 else 0), f"r{offset}") for offset in range(100, 160)]
    here = copied(old + old[5:40])
    target = one(standby(Slot(here, begin=30)), want(old[:25], begin_known=100))
    shows(target, exact=False, method="timestamp", expired=True)


def test_a_second_copy_is_no_match_when_disorder_exceeds_the_ring() -> None:
    old = [(offset, T0 + 10 * offset - (1000 if offset == 60 else 0), f"r{offset}") for offset in range(120)]
    log = standby(Slot(copied(old + old[20:70]), begin=60))
    shows(one(log, want(old[:60], remembered=20), rules(buffer_ms=2000)), target_offset=60, expired=True)


@pytest.mark.parametrize("unread", [3_900, 6_000])
def test_a_second_copy_is_no_match_when_a_future_record_delays_the_search(unread: int) -> None:
    old = [(offset, T0 + offset + (60_000 if offset == 195 else 0), f"r{offset}") for offset in range(200 + unread)]
    log = standby(Slot(copied(old + old[100:230]), begin=200), per_fetch=500)
    target = one(log, want(old[:200], remembered=50), rules(buffer_ms=15 * 60_000))
    shows(target, target_offset=200, exact=False, expired=True)


def test_nor_where_as_many_are_left_as_are_remembered_whatever_their_times() -> None:
    old = [(offset, T0 + offset - (60_000 if offset in range(200, 260) else 0), f"r{offset}") for offset in range(300)]
    log = standby(Slot(copied(old + old[150:230]), begin=205))
    target = one(log, want(old[:200], remembered=150), rules(buffer_ms=1000))
    shows(target, exact=False, expired=True)


@pytest.mark.parametrize("begin", [20, 35])
def test_as_long_as_retention_has_left_the_first_copy_the_place_is_exact(begin: int) -> None:
    target = one(standby(Slot(CUT_SHORT, begin=begin)), want(OLD[:40]), BUFFER)
    shows(target, target_offset=40, method="exact", exact=False, expired=False, replay_records=20)


def test_a_standby_that_begins_before_the_ring_is_exact() -> None:
    old = stream(0, 600)
    for begin in (180, 230, 300):
        target = one(standby(Slot(copied(old), begin=begin)), want(old[:500], remembered=256))
        shows(target, target_offset=500, method="exact", exact=True, expired=False)


@pytest.mark.parametrize("unread", [1, 5])
def test_a_second_copy_from_the_log_begin_may_hide_unread_records_deleted(unread: int) -> None:
    old = stream(0, 20 + unread)
    target = one(standby(Slot(copied(old + old[:20]), begin=20 + unread)), want(old[:20]))
    shows(target, exact=False, expired=True)


def test_times_that_are_all_the_same_show_no_first_copy() -> None:
    old = [(offset, T0, f"r{offset}") for offset in range(1000, 1021)]
    target = one(standby(Slot(copied(old + old[:20]), begin=21)), want(old[:20]))
    shows(target, exact=False, expired=True)


def test_no_method_but_content_and_a_copy_sent_again_is_for_the_policy() -> None:
    target = one(standby(Slot(CUT_SHORT, begin=40)), want(OLD[:40]), rules(MethodName.EXACT))
    shows(target, target_offset=None, expired=True)


def test_records_that_outlived_retention_may_be_unread_despite_older_times() -> None:
    here = [(offset, T0 + time, f"r{offset}") for offset, time in ((18, -20), (19, 2), (20, -19))]
    read = [(offset, T0 + 16, f"r{offset}") for offset in (0, 2)]
    target = one(standby(Slot(here, begin=18)), want(read, offset=9), BUFFER)
    shows(target, target_offset=18, method="timestamp", exact=False)


def test_a_first_record_as_old_as_the_newest_is_not_retentions_work() -> None:
    read = want(OLD[:40])
    newest, mismatch = OLD[39][1], NoPlace(Cause.MISMATCH)
    same, younger = (OffsetAnswer(offset=7, timestamp_ms=newest + more, leader_epoch=None) for more in (0, 1))
    assert expired(mismatch, read, same, is_cut=True, is_older=True) == mismatch
    assert expired(mismatch, read, same, is_cut=True, is_older=False) == replace(mismatch, expired=True)
    for cause in (Cause.UNACCOUNTED, Cause.CONTRADICTED):
        assert expired(NoPlace(cause), read, same, is_cut=True, is_older=True) == NoPlace(cause, expired=True)
    retention = expired(mismatch, read, younger, is_cut=True, is_older=True)
    assert isinstance(retention, NoPlace)
    assert retention.cause is Cause.RETENTION


def test_the_only_record_that_came_of_a_few_may_be_another_writers() -> None:
    target = one(standby(Slot(copied(OLD[:1]))), want(OLD[:3]))
    shows(target, target_offset=1, exact=False, replay_later_records=3)


@pytest.mark.parametrize(
    ("contents", "times", "method"),
    [("a", (0,), "timestamp"), ("ab", (0, 10), "exact"), ("aa", (0, 0), "timestamp"), ("aa", (0, 10), "exact")],
)
def test_all_that_retention_has_left_is_a_match_if_the_last_is_unlike_others(
    contents: str, times: tuple[int, ...], method: str
) -> None:
    """An unread record may equal the only one that is remembered, or one of several alike."""
    old = [(offset, T0 + time, name) for offset, (name, time) in enumerate(zip(contents, times, strict=True))]
    target = one(standby(Slot(copied(old, base=5), begin=5)), want(old))
    shows(target, method=method, expired=True)
