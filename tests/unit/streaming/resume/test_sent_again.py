"""Copies of read records that lie behind the place: they are counted, or the plan says that nothing shows it."""

from dataclasses import replace

import pytest

from state.model.entities import Fingerprint
from state.settings.keys import MethodName
from streaming.cluster_log import LogRecord
from streaming.resolve import sent_again_scan
from streaming.resume.methods.fingerprint_match import FingerprintMatcher
from streaming.resume.model import Target
from streaming.resume.sent_again import Behind, read_until_ms
from tests.unit.streaming.standby import (
    T0,
    Records,
    Slot,
    copied,
    found,
    one,
    rules,
    sample,
    shows,
    standby,
    stream,
    want,
)

OLD = stream(0, 600)
NEW = stream(600, 40)


def resumed(*behind_the_place: Records, read: Records = OLD, remembered: int = 256) -> Target:
    """The target of a query that has read all of ``read``, on a standby that holds that and more behind it."""
    sent = [*read, *(record for some in behind_the_place for record in some)]
    return one(standby(Slot(copied(sent)), per_fetch=100), want(read, remembered=remembered))


def test_a_log_that_was_copied_again_from_its_beginning_is_forecast_whole() -> None:
    shows(resumed(OLD), target_offset=600, exact=False, replay_records=600, replay_later_records=0)


def test_copies_of_copies_count_each_time() -> None:
    shows(resumed(OLD, OLD), replay_records=1200)


def test_a_replicator_that_sends_its_last_records_again_is_forecast() -> None:
    for count in (1, 2, 300):
        shows(resumed(OLD[-count:], NEW), target_offset=600, exact=False, replay_records=count)


def test_a_record_is_known_again_only_where_the_last_ones_read_are_known() -> None:
    log = standby(Slot(copied([*OLD, *NEW])), per_fetch=100)
    whole = want(OLD)
    cut = replace(whole, read_to=605)
    for known, count in (
        (whole, 256),
        (want(OLD, untracked=3, dense=True), 256),
        (want(OLD, untracked=3), 0),
        (cut, 0),
    ):
        assert len(one(log, known).last) == count


def test_unread_records_before_a_copy_are_not_counted_with_it() -> None:
    shows(resumed(NEW, OLD[500:], NEW), target_offset=600, exact=False, replay_records=100)


def test_unread_records_alone_leave_a_place_exact() -> None:
    shows(resumed(NEW), target_offset=600, exact=True, replay_records=0, note="")


def test_a_copy_that_is_under_way_announces_the_rest() -> None:
    shows(resumed(OLD[:590]), replay_records=590, replay_later_records=10)
    target = resumed(OLD[:200])
    shows(target, replay_records=200, replay_later_records=400, exact=False)
    assert [each.offset for each in target.last[-2:]] == [798, 799], "by these it is known when they are read"
    assert len(target.later) == 256


def test_the_first_copy_distinguishes_a_copy_under_way_from_late_records() -> None:
    late = [(0, time, f"late {value}") for _, time, value in OLD[100:150]]
    shows(resumed(late, NEW), target_offset=600, exact=True, replay_records=0)


def test_a_few_old_records_are_copies_if_they_lie_before_the_place_too() -> None:
    shows(resumed(NEW, OLD[:1]), replay_records=1, replay_later_records=599)
    for again in (1, 3, 4):
        shows(resumed(NEW, OLD[:again], NEW), replay_records=again)
    late = [(0, time, f"late {value}") for _, time, value in OLD[:3]]
    shows(resumed(NEW, late, NEW), exact=True, replay_records=0)


def test_where_retention_may_have_taken_the_first_copy_it_is_unknown() -> None:
    late = [(0, T0 - 1_000, f"late {i}") for i in range(9)]
    log = standby(Slot(copied([*OLD, *late, *NEW]), begin=300), per_fetch=100)
    target = one(log, want(OLD))
    shows(target, target_offset=600, exact=False, replay_records=None)
    assert "records from 600 on are older than those read last" in target.note


def test_of_records_that_are_all_of_one_time_a_first_copy_is_looked_for() -> None:
    """Those remembered show no order by their times, so a copy of older ones looks like unread records."""
    old = stream(0, 80, step_ms=0)
    here = copied([*old[:70], *old[10:15]])
    target = one(standby(Slot(here)), want(old, remembered=20))
    shows(target, target_offset=70, exact=False)
    assert (target.replay_records or 0) >= 5
    assert (target.replay_later_records or 0) >= 65
    shows(one(standby(Slot(copied([*old, *stream(80, 9, step_ms=0)]))), want(old, remembered=20)), exact=True)


def test_of_records_of_one_time_a_single_one_without_a_first_copy_is_unknown() -> None:
    old = stream(0, 80, step_ms=0)
    here = copied([*old, old[10], *stream(80, 3, step_ms=100)])
    for begin, replay in ((0, 1), (60, None)):
        target = one(standby(Slot(here, begin=begin)), want(old, remembered=20))
        shows(target, target_offset=80, exact=False, replay_records=replay)


def test_of_a_handful_remembered_on_a_compacted_standby_no_replay_is_claimed() -> None:
    """A record that was read before them is younger, and came again: compaction has taken its first copy."""
    old = [(i, T0 + (500 if i == 10 else i), f"r{i}") for i in range(20)]
    again = Slot(copied([*old[:10], *old[11:], old[10]]))
    shows(one(standby(again, cleanup="compact"), want(old, remembered=5)), exact=False, replay_records=None)
    unread = Slot(copied([*old[:10], *old[11:], *stream(20, 3, step_ms=100)]))
    shows(one(standby(unread), want(old, remembered=5)), target_offset=19, exact=True, replay_records=0)


def test_retention_may_have_taken_a_first_copy_of_any_age() -> None:
    """Every other time is an hour ahead, so the first record that is left may be older than what was deleted."""
    old = [(i, T0 + i + 3_600_000 * (i % 2), f"r{i}") for i in range(80)]
    again = [old[i] for i in (1, 3, 5, 7)]
    whole, cut = (Slot(copied([*old, *again]), begin=begin) for begin in (0, 20))
    shows(one(standby(whole), want(old, remembered=40)), target_offset=80, exact=False, replay_records=4)
    shows(one(standby(cut), want(old, remembered=40)), target_offset=80, exact=False, replay_records=None)


def test_late_records_older_than_a_log_that_is_whole_were_never_read() -> None:
    shows(resumed([(0, T0 - 1_000, f"late {i}") for i in range(9)], NEW), exact=True, replay_records=0)


def test_disorder_as_the_remembered_records_show_it_is_no_copy() -> None:
    jittered = [(i, time + (i * 7919) % 4_000, value) for i, time, value in stream(0, 900)]
    shows(resumed(jittered[600:], read=jittered[:600]), exact=True, replay_records=0)
    shows(resumed(jittered[600:700], jittered[590:], read=jittered[:600]), exact=False, replay_records=110)


def test_a_single_record_among_late_ones_is_compared_with_those_before() -> None:
    """Its time is one that late records have, so times do not show that it was sent again."""
    jittered = [(i, time + (i * 7919) % 4_000, value) for i, time, value in stream(0, 900)]
    read, unread = jittered[:600], jittered[600:]
    for again in (200, 300):
        sent = resumed(unread[:5], jittered[again : again + 1], unread[5:], read=read)
        shows(sent, exact=False, replay_records=6, replay_later_records=599 - again)
    shows(resumed([(0, jittered[300][1], "late")], unread, read=read), exact=True, replay_records=0)


@pytest.mark.parametrize(("limit", "replay"), [(39, None), (40, 0)])
def test_too_much_to_look_through_is_unknown_and_never_none(
    monkeypatch: pytest.MonkeyPatch, limit: int, replay: int | None
) -> None:
    monkeypatch.setattr(sent_again_scan, "MOST_READ", limit)
    log = standby(Slot(copied([*OLD, *NEW])), per_fetch=1)
    target = one(log, want(OLD))
    shows(target, target_offset=600, replay_records=replay, exact=replay == 0)
    assert ("too many to search" in target.note) == (replay is None)


def test_a_first_copy_that_is_too_far_back_leaves_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_again_scan, "MOST_SEARCHED", 50)
    late = [(0, time, f"late {value}") for _, time, value in OLD[100:110]]
    shows(resumed(late, NEW), replay_records=None)


def test_without_time_to_look_it_is_unknown() -> None:
    for sent, replay in ((NEW, None), ([], 0)):
        resolution = found(standby(Slot(copied([*OLD, *sent])), per_fetch=1), want(OLD), search_seconds=-1.0)
        (target,) = resolution.targets
        shows(target, target_offset=600, replay_records=replay)
        assert resolution.search_cut_short == ("not searched to the end" in target.note) == (replay is None)


def test_no_more_time_is_taken_where_it_would_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_again_scan, "MOST_READ", 3)
    resolution = found(standby(Slot(copied([*OLD, *NEW]))), want(OLD))
    shows(resolution.targets[0], replay_records=None)
    assert not resolution.search_cut_short


def test_a_standby_that_stamps_records_itself_is_compared_by_content() -> None:
    for sent, replay in ((NEW, 0), ([*NEW, *OLD[590:]], 50)):
        target = one(standby(Slot(copied([*OLD, *sent]), append_time=True), per_fetch=100), want(OLD))
        shows(target, target_offset=600, replay_records=replay)


def stamped(*behind: Records, begin: int = 0) -> Target:
    """As ``resumed``, on a standby that stamps records itself."""
    sent = [*OLD, *(record for some in behind for record in some)]
    return one(standby(Slot(copied(sent), begin=begin, append_time=True), per_fetch=100), want(OLD))


def test_where_a_standby_stamps_old_copies_are_found_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    shows(stamped(NEW), exact=True, replay_records=0, replay_later_records=0)
    monkeypatch.setattr(sent_again_scan, "MOST_BY_CONTENT", 270)
    for first in (0, 267, 331):
        shows(stamped(OLD[first:][:3]), exact=False, replay_records=3, replay_later_records=599 - first)
    shows(stamped(NEW, OLD[:3]), replay_records=43)
    shows(stamped(NEW, OLD[270:330]), exact=True, replay_records=0)


def test_where_a_standby_stamps_deleted_records_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for behind in ((NEW,), (NEW, OLD[:3])):
        count = sum(map(len, behind))
        shows(stamped(*behind, begin=10), exact=False, replay_records=count, replay_later_records=None)
    monkeypatch.setattr(sent_again_scan, "MOST_BY_CONTENT", 270)
    shows(stamped(NEW, begin=10), exact=True, replay_records=0, replay_later_records=0)


def test_where_a_standby_stamps_and_all_is_remembered_nothing_is_searched() -> None:
    looks = []
    for remembered in (200, 199):
        log = standby(Slot(copied([*OLD[:200], *NEW]), append_time=True), per_fetch=1_000)
        shows(one(log, want(OLD[:200], remembered=remembered)), target_offset=200, exact=True)
        looks.append(log.fetched)
    assert looks[0] < looks[1]


def test_records_that_are_all_alike_count_as_read_before() -> None:
    alike = [(60 + i, T0 + i % 3, "same") for i in range(40)]
    shows(resumed(alike[-5:], read=[*OLD[:60], *alike]), is_proven=True, exact=False, replay_records=5)


def test_a_record_equal_to_the_last_one_read_counts_as_read() -> None:
    """Time included; it may be the next one, or the last one again."""
    alike = [(60 + i, T0 + 600, "same") for i in range(2)]
    for again in (0, 1, 3):
        behind = resumed([*alike[-1:] * again, *NEW], read=[*OLD[:60], *alike])
        shows(behind, target_offset=62, is_proven=True, exact=again == 0, replay_records=again)


@pytest.mark.parametrize(("first", "later"), [(3, 6), (253, 256), (255, None), (256, None)])
def test_of_a_few_remembered_records_all_that_were_read_may_come(first: int, later: int | None) -> None:
    """Two are remembered, too few for an exact place, and the first of them came again: how far was it sent again?

    No more can come than was read, which is no number of use where more was read than is ever remembered.
    """
    old = [(first, T0, "a"), (first + 1, T0, "b")]
    known = replace(want(old), offset=first + 5, ring_offset=first + 5)
    target = one(standby(Slot(copied([*old, old[0]]))), known)
    shows(target, target_offset=2, exact=False, replay_records=1, replay_later_records=later)
    assert target.later == (), "one of the two that comes does not show that all before it have come"


def test_a_gap_behind_the_remembered_records_is_known_from_the_standby() -> None:
    target = one(standby(Slot(copied([*OLD, *OLD[580:]])), per_fetch=100), want(OLD, untracked=30, dense=True))
    shows(target, target_offset=570, replay_records=30 + 20, exact=False)
    target = one(standby(Slot(copied([*OLD, *OLD[580:]])), per_fetch=100), want(OLD, untracked=30))
    shows(target, target_offset=570, replay_records=30 + 20, exact=False)


def test_a_place_by_time_adds_what_lies_behind_the_place_by_content() -> None:
    log = standby(Slot(copied([*OLD, *OLD])), per_fetch=100)
    shows(one(log, want(OLD), rules(MethodName.TIMESTAMP, buffer_ms=90)), target_offset=590, replay_records=610)


def test_copies_do_not_hide_what_the_standby_lacks() -> None:
    log = standby(Slot(copied([*OLD, *OLD[590:]])), per_fetch=100)
    shows(one(log, want(OLD), old_ends=sample(640, T0 + 6_390)), replay_records=10, exposure_records=40)


def test_two_positions_of_one_partition_are_both_judged() -> None:
    log = standby(Slot(copied([*OLD, *NEW, *OLD[590:], *NEW])), per_fetch=100)
    first, second = found(log, [want(OLD), want([*OLD, *NEW[:20]])]).targets
    shows(first, target_offset=600, replay_records=10)
    shows(second, target_offset=620, replay_records=30)


def test_a_place_with_copies_behind_it_is_proven_all_the_same() -> None:
    assert resumed(OLD[-5:]).is_proven
    assert resumed(NEW).is_proven
    assert not one(standby(Slot(copied([*OLD, *OLD]))), want(OLD), rules(MethodName.TIMESTAMP)).is_proven


def test_a_place_near_the_end_is_read_with_what_lies_behind_it_in_one_look() -> None:
    for unread, looks in ((100, 1), (1_000, 2)):
        log = standby(Slot(copied([*OLD, *stream(600, unread)])), per_fetch=5_000)
        shows(one(log, want(OLD)), target_offset=600, exact=True, replay_records=0)
        assert log.fetched == looks


def test_records_past_the_end_are_not_fetched() -> None:
    log = standby(Slot(copied(OLD)), per_fetch=100)
    one(log, want(OLD))
    before = log.fetched
    one(standby(Slot(copied(OLD)), per_fetch=100), want(OLD))
    assert log.fetched == before <= 2


def ring(times: list[int], name: str = "r") -> list[Fingerprint]:
    return [Fingerprint(i, time, f"{name}{i}".encode().ljust(16)) for i, time in enumerate(times)]


def record(offset: int, time: int, content: bytes, *, append_time: bool = False) -> LogRecord:
    return LogRecord(offset=offset, timestamp_ms=time, digest=content, append_time=append_time)


def test_a_row_may_go_back_by_twice_as_much_as_remembered_ones_did() -> None:
    known = ring([0, 100, 90, 91, 92, 93, 200])
    for time, suspects in ((200 - 14, []), (200 - 15, [3, 0, 1, 2])):
        rows = [record(i, time, b"x" * 16) for i in range(4)]
        assert Behind(FingerprintMatcher(known, 16), rows).suspects() == suspects


def test_times_after_all_that_was_read_are_unread() -> None:
    known = ring([0, 100, 90, 120])
    assert read_until_ms(known) == 130
    for time, replay in ((130, 2), (131, 1)):
        rows = [record(0, time, b"x" * 16), record(1, 120, known[-1].digest)]
        assert Behind(FingerprintMatcher(known, 16), rows).proven().records == replay


@pytest.mark.parametrize(("append_time", "enough"), [(True, 16), (False, 4)])
def test_where_contents_repeat_a_run_in_order_is_the_proof(append_time: bool, enough: int) -> None:
    known = [*ring([5] * 20), Fingerprint(20, 5, b"twin" * 4), Fingerprint(21, 5, b"twin" * 4)]
    for count in (3, enough - 1, enough):
        rows = [record(i, 5, each.digest, append_time=append_time) for i, each in enumerate(known[:count])]
        found = Behind(FingerprintMatcher(known, 16), rows).proven()
        assert found.records == count, "an upper bound, or proven"
        assert ("may be new" in found.note) == (count < enough)


def test_a_record_that_may_be_new_behind_a_copy_counts_as_read() -> None:
    known = [*ring([*range(100, 116), 130, 126, 126]), *(Fingerprint(19 + i, 126, b"twin" * 4) for i in range(2))]
    old = [record(i, 1, b"%16d" % i) for i in range(4)]
    found = Behind(FingerprintMatcher(known, 16), [*old, record(8, 131, b"n" * 16), record(9, 126, b"twin" * 4)])
    assert found.with_copies(3, to_come=0).records == 6
    assert found.with_copies(5, to_come=0).records == 6


def test_an_old_record_that_is_new_does_not_end_the_copies_before_it() -> None:
    """The last of them is searched for first; it is nowhere, and the first one is."""
    late = [(0, time, f"late {value}") for _, time, value in OLD[100:104]]
    shows(resumed([*OLD[:4], *NEW, *late]), replay_records=7, replay_later_records=599)
