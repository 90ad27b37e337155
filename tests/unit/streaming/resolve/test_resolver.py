"""One test per rule of finding a place; each world is as small as its rule allows."""

import struct
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from state.model.entities import EndSample, TopicPartition
from state.settings.keys import MethodName
from streaming.cluster_log import Fetched, OffsetAnswer, PartitionError, Spec
from streaming.resolve import scan
from streaming.resolve.resolver import resolve
from tests.memory_log import MemoryCluster
from tests.unit.streaming.standby import (
    NOW,
    T0,
    Records,
    Slot,
    Standby,
    copied,
    digest,
    found,
    one,
    ring,
    rules,
    sample,
    shows,
    standby,
    stream,
    want,
)

TIME_ONLY = rules(MethodName.TIMESTAMP)
KEY = TopicPartition("orders", 0)


# -- content


def test_of_two_copies_the_earlier_is_taken_and_the_later_one_is_forecast() -> None:
    old = stream(0, 60)
    sent = old[:40] + old[20:60]
    target = one(standby(Slot(copied(sent))), want(old[:30]))
    shows(target, target_offset=30, method="exact", exact=False, replay_records=10)


def test_an_append_time_standby_is_matched_by_content_despite_its_clock() -> None:
    old = stream(0, 60)
    here = [(i, time - 9_000, value) for i, time, value in copied(old, 300)]
    for knows_type in (True, False):
        target = one(standby(Slot(here, append_time=True), knows_type=knows_type), want(old[:30]))
        shows(target, target_offset=330, method="exact", exact=True)


@pytest.mark.parametrize("knows_type", [True, False])
def test_a_clock_of_the_standby_that_is_far_behind_is_no_lag(knows_type: bool) -> None:
    old = stream(0, 60)
    here = [(i, time - 3_600_000, value) for i, time, value in copied(old, 300)]
    target = one(standby(Slot(here, append_time=True), knows_type=knows_type), want(old[:30]))
    shows(target, target_offset=330, method="exact", exact=True)


def test_a_standby_with_another_clock_is_not_said_to_lag() -> None:
    old, older = stream(0, 60), [(i, T0 - 60_000 + i, f"o{i}") for i in range(400)]
    target = one(standby(Slot(copied(older), append_time=True)), want(old[:30]))
    shows(target, target_offset=400, method="timestamp", exact=False)


def test_records_that_were_not_searched_are_not_said_to_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CLOCK_RECORDS", 100)
    old, older = stream(0, 60), [(i, T0 - 60_000 + i, f"o{i}") for i in range(400)]
    target = one(standby(Slot(copied(older), append_time=True)), want(old[:30]), rules(buffer_ms=59_900))
    shows(target, target_offset=100 + 290, method="timestamp")
    assert "that it lags is not shown" in target.note


def test_another_timestamp_is_another_record_under_create_time() -> None:
    old = stream(0, 60)
    here = [(i, time + 1, value) for i, time, value in copied(old)]
    shows(one(standby(Slot(here)), want(old[:30])), method="timestamp", exact=False)


def test_identical_records_beyond_the_context_count_from_their_begin() -> None:
    old = [*stream(0, 30), *[(i, T0 + 300, "same") for i in range(30, 60)], *stream(60, 10)]
    shows(one(standby(Slot(copied(old))), want(old[:60])), target_offset=60, method="exact", exact=True)
    target = one(standby(Slot(copied(old))), want(old[:55]))
    shows(target, target_offset=55, method="exact", is_proven=True, exact=False, replay_records=5)


def test_too_many_identical_records_resume_early_and_say_what_may_repeat() -> None:
    old = [*stream(0, 30), *[(i, T0 + 300, "same") for i in range(30, 230)], *stream(230, 10)]
    target = one(standby(Slot(copied(old))), want(old[:220]))
    shows(target, target_offset=158, method="exact", exact=False, replay_records=62 + 10)


def test_a_context_is_not_widened_over_a_hole_of_the_old_offsets() -> None:
    old = [*stream(0, 50), *[(i, T0 + 500, "same") for i in (*range(50, 70), *range(150, 170))]]
    shows(one(standby(Slot(copied(old))), want(old)), target_offset=70, exact=False)


def test_an_aborted_record_that_was_replicated_fits_the_hole_it_left() -> None:
    old = stream(0, 60)
    read = [record for record in old[:40] if record[0] not in (30, 31)]
    shows(one(standby(Slot(copied(old))), want(read)), target_offset=40, method="exact", exact=True)


def test_the_first_equal_record_is_not_stepped_over_if_it_may_be_the_copy() -> None:
    old = stream(0, 80)
    sent = [*old[:20], old[39], *old[20:80]]
    shows(one(standby(Slot(copied(sent))), want(old[:40])), target_offset=21, exact=False, replay_records=20)


def test_copies_of_newer_records_sent_again_do_not_break_the_context() -> None:
    old = stream(0, 60)
    sent = [*old[:38], *old[34:36], *old[34:60]]
    interrupted = [*old[:36], *old[37:38], *old[36:37], *old[37:60]]
    shows(one(standby(Slot(copied(sent))), want(old[:40])), target_offset=46, method="exact", exact=True)
    shows(one(standby(Slot(copied(interrupted))), want(old[:40])), target_offset=41, method="exact", exact=True)


def test_thin_context_is_not_trusted() -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old[38:], 500), begin=500)), want(old[:40]), rules(MethodName.EXACT))
    shows(target, target_offset=None)
    assert "too little context" in target.note


@pytest.mark.parametrize("method", [MethodName.EXACT, MethodName.TIMESTAMP])
def test_a_lagging_standby_resumes_at_its_end_and_announces_later_records(method: MethodName) -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old[:33], 700))), want(old[:40]), rules(method), sample(60, T0 + 590))
    shows(target, target_offset=733, exact=False, replay_records=0, replay_later_records=7, exposure_records=27)
    shows(target, method=method.value, exposure_seconds=0.27)


def test_a_standby_lagging_beyond_the_ring_resumes_at_its_end() -> None:
    old = stream(0, 600)
    behind, level = want(old[:500]), want(old[:500], partition=1)
    targets = found(standby(Slot(copied(old[:100])), Slot(copied(old))), [behind, level]).targets
    shows(targets[0], method="exact", exact=False, target_offset=100, replay_records=0, replay_later_records=None)
    shows(targets[1], method="exact", target_offset=500, exact=True)


@pytest.mark.parametrize("here", [[], stream(0, 40)], ids=["empty", "idle"])
def test_an_empty_or_idle_partition_is_no_mismatch(here: Records) -> None:
    old = stream(0, 60)
    targets = found(standby(Slot(here), Slot(copied(old))), [want(old[:40]), want(old[:40], partition=1)]).targets
    shows(targets[0], target_offset=len(here), replay_records=0)
    shows(targets[1], method="exact", exact=True)


def test_a_compacted_topic_resumes_after_the_newest_surviving_record() -> None:
    """The records behind it are gone, or were not copied yet: an offset behind the place shows neither."""
    old = stream(0, 60)
    kept = [record for record in copied(old, 100) if record[0] not in (137, 138, 139)]
    target = one(standby(Slot(kept), cleanup="compact,delete"), want(old[:40]))
    shows(target, target_offset=137, method="exact", exact=False, replay_records=0, replay_later_records=3)


def test_a_marker_behind_a_compacted_standby_that_lags_is_no_later_record() -> None:
    old = stream(0, 30)
    log = standby(Slot(copied(old[:25]), end=26), cleanup="compact")
    shows(one(log, want(old), None, sample(30, old[-1][1])), target_offset=25, exact=False, replay_later_records=5)


def test_without_times_a_unique_record_distinguishes_common_contents() -> None:
    words = ["beat"] * 40 + ["a"] + ["beat"] * 20 + ["b"] + ["beat"] * 17 + ["c"]
    old = [(offset, T0 + 10 * offset, word) for offset, word in enumerate(words)]
    foreign = [(470 + offset, T0 + 9_000, f"f{offset}") for offset in range(30)]
    here = foreign + [(500 + offset, T0 + 9_000, word) for offset, _, word in old]
    log = standby(Slot(here, append_time=True), knows_type=True)
    shows(one(log, want(old[:79], remembered=18)), target_offset=579, exact=True, replay_records=0)
    target = one(log, want(old[:79], remembered=17))
    assert not target.exact
    assert target.target_offset is not None
    assert target.target_offset <= 579


def test_a_compacted_topic_with_append_time_is_refused_by_content() -> None:
    old = stream(0, 60)
    log = standby(Slot(copied(old), append_time=True), cleanup="compact")
    target = one(log, want(old[:40]), rules(MethodName.EXACT))
    shows(target, target_offset=None)
    assert "LogAppendTime" in target.note


def test_a_far_future_record_costs_a_longer_scan_and_nothing_else() -> None:
    old = stream(0, 3000)
    old[5] = (5, T0 + 10**9, "r5")
    log = standby(Slot(copied(old)), per_fetch=100)
    shows(one(log, want(old[:10])), target_offset=10, exact=True)
    shows(one(log, want(old[:2900])), target_offset=2900, exact=True)


def test_the_scan_ends_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.resolve.scan.SCAN_RECORDS", 50)
    old = [(i, T0, f"r{i}") for i in range(200)]
    target = one(standby(Slot(copied(old))), want(old[:150]), rules(MethodName.EXACT))
    shows(target, target_offset=None)
    assert "scan limit" in target.note


class Expiring(Standby):
    """Retention takes all that it holds as soon as it is read."""

    def fetch(
        self, starts: Mapping[TopicPartition, tuple[int, int]], *, until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False, timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:  # fmt: skip
        answers = dict(super().fetch(starts, until=until, read_committed=read_committed, timeout=timeout))
        gone = PartitionError(name="OFFSET_OUT_OF_RANGE", text="deleted", retriable=False)
        for key, (offset, _) in starts.items():
            slot = self.slots[key]
            if slot.end is not None and offset < slot.end:
                slot.begin = slot.end
                answers[key] = Fetched(
                    records=(), next_offset=offset, high_watermark=None, log_start=slot.begin, error=gone
                )
        return answers


def test_a_log_of_which_nothing_is_left_when_it_is_read_holds_no_match() -> None:
    target = one(Expiring({KEY: Slot(copied(stream(0, 60), 100))}), want(stream(0, 40)), rules(MethodName.EXACT))
    shows(target, target_offset=None)
    assert "not that record in its context" in target.note


# -- a ring older than the checkpoint


def test_a_ring_older_than_the_checkpoint_is_moved_on_where_dense() -> None:
    old = stream(0, 60)
    known = want(old[:40], untracked=12, dense=True)
    target = one(standby(Slot(copied(old, 100))), known, None, sample(60, old[-1][1]))
    shows(target, target_offset=140, exact=True, replay_records=0, replay_later_records=0, exposure_records=0)


@pytest.mark.parametrize("ends", [sample(39, T0 + 380), sample(60, T0 + 600), sample(61, T0 + 590), {}])
def test_an_older_ring_stays_where_the_copies_are_not_as_many(
    ends: dict[TopicPartition, EndSample],
) -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old, 100))), want(old[:40], untracked=12, dense=True), None, ends)
    shows(target, target_offset=128, exact=False, replay_records=12, replay_later_records=12)


def test_a_gap_of_which_the_replicator_left_a_record_out_is_not_counted_over() -> None:
    old = stream(0, 40)
    here = copied([record for record in old if record[0] != 21])
    target = one(standby(Slot(here)), want(old[:25], untracked=5, dense=True), None, sample(40, old[-1][1]))
    shows(target, target_offset=20, exact=False)


def test_a_gap_behind_the_end_of_the_standby_comes_later() -> None:
    old = stream(0, 40)
    shows(one(standby(Slot(copied(old[:20]))), want(old[:25], untracked=5)), replay_records=0, replay_later_records=5)


@pytest.mark.parametrize("dense", [False, None])
def test_a_ring_older_than_the_checkpoint_stays_where_not_proven_dense(dense: bool | None) -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old, 100))), want(old[:40], untracked=12, dense=dense))
    shows(target, target_offset=128, exact=False, replay_records=12)


def test_a_ring_older_than_the_checkpoint_stays_where_the_standby_has_a_hole() -> None:
    old = stream(0, 60)
    here = [record if record[0] < 135 else (record[0] + 1, *record[1:]) for record in copied(old, 100)]
    target = one(standby(Slot(here)), want(old[:40], untracked=12, dense=True))
    shows(target, target_offset=128, exact=False, replay_records=12)


def test_a_gap_that_the_standby_does_not_hold_whole_yet_stays_at_the_ring() -> None:
    """A filter may have left some of it out, and then unread records lie before the standby's end."""
    old = stream(0, 60)
    target = one(standby(Slot(copied(old[:35], 100))), want(old[:40], untracked=12, dense=True))
    shows(target, target_offset=128, exact=False, replay_records=7, replay_later_records=12)


def test_a_gap_behind_a_lagging_ring_comes_later_as_well() -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old[:25], 100))), want(old[:40], untracked=12, dense=None))
    shows(target, target_offset=125, replay_records=0, replay_later_records=15)


def test_copies_sent_again_inside_the_gap_are_forecast() -> None:
    old = stream(0, 60)
    sent = [*old[:32], *old[30:60]]
    target = one(standby(Slot(copied(sent))), want(old[:40], untracked=12, dense=True))
    shows(target, target_offset=28, exact=False, replay_records=12 + 2)


def test_a_compacted_gap_is_not_counted_over() -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old)), cleanup="compact"), want(old[:40], untracked=12, dense=True))
    shows(target, target_offset=28, replay_records=12)


def test_a_ring_tracked_past_the_wanted_offset_is_cut_back() -> None:
    old = stream(0, 60)
    ahead = replace(want(old[:50]), offset=40)
    shows(one(standby(Slot(copied(old, 100))), ahead), target_offset=140, exact=True, timestamp_ms=T0 + 390)
    shows(one(standby(Slot(copied(old, 100))), ahead, TIME_ONLY), target_offset=139, replay_records=1)


# -- nothing read, nothing remembered


def test_a_partition_of_which_nothing_was_read_starts_at_the_standbys_begin() -> None:
    shows(one(standby(Slot(stream(0, 50))), want([])), target_offset=0, exact=True, replay_records=0)


def test_unread_records_that_the_standby_has_deleted_are_said_to_be_gone() -> None:
    old = stream(0, 40)
    log = standby(Slot([record for record in old if record[0] >= 30], begin=30))
    shows(one(log, want([]), None, sample(40, old[-1][1])), target_offset=30, exact=False, expired=True)
    shows(one(log, want([]), None, sample(0, None)), target_offset=30, exact=True, expired=False)


def test_an_old_partition_emptied_by_retention_may_repeat_the_whole_standby() -> None:
    emptied = want([], offset=5000, begin_known=5000)
    shows(one(standby(Slot(stream(0, 50))), emptied), target_offset=0, exact=False, replay_records=50)
    gone = standby(Slot([], begin=9))
    shows(one(gone, emptied), target_offset=9, exact=False, replay_records=0, expired=True)
    idle = sample(5000, None)
    shows(one(gone, emptied, None, idle), target_offset=9, exact=True, replay_records=0, expired=False)


def test_records_copied_twice_may_be_read_more_often_than_written() -> None:
    old = stream(0, 40)
    unremembered = replace(want(old[:30]), ring=(), ring_offset=None, timestamp_ms=T0)
    target = one(standby(Slot(copied(old + old + old[:30]))), unremembered)
    shows(target, target_offset=0, replay_records=110)


def test_nothing_remembered_goes_by_time_with_an_upper_bound() -> None:
    target = one(standby(Slot(stream(0, 50))), want([], offset=40, timestamp_ms=T0 + 300))
    shows(target, method="timestamp", target_offset=30, replay_records=20)
    assert "no records are remembered" in target.note
    assert "upper bound" in target.note


def test_no_position_and_no_time_is_a_failure_with_its_reason_or_the_policy() -> None:
    log, lost = standby(Slot(stream(0, 50))), want([], offset=40)
    shows(one(log, lost), target_offset=None, method=None, replay_records=None)
    shows(one(log, lost, rules(on_no_match="earliest")), target_offset=0, method="earliest", replay_records=50)
    shows(one(log, lost, rules(on_no_match="latest")), target_offset=50, method="latest", exact=False)


def test_without_a_time_the_sample_that_saw_the_end_is_used() -> None:
    moment = NOW - timedelta(hours=1)
    target = one(standby(Slot(stream(0, 50))), want([], offset=40), None, sample(40, None, at=moment))
    shows(target, method="timestamp", target_offset=50, timestamp_ms=int(moment.timestamp() * 1000))
    assert "idle partition" in target.note


# -- time


def test_the_time_of_a_lookup_is_never_negative() -> None:
    records = [(i, i, f"r{i}") for i in range(20)]
    target = one(standby(Slot(records)), want(records[:10]), rules(MethodName.TIMESTAMP, buffer_ms=10**6))
    shows(target, target_offset=0, replay_records=10)


@pytest.mark.parametrize(
    ("here", "time", "old_end", "sentence"),
    [
        (stream(0, 30), T0 + 400, 90, "the standby lags"),
        (stream(0, 30), T0 + 400, 40, "idle partition"),
        (stream(0, 30), int(NOW.timestamp() * 1000) + 60_000, 90, "is in the future"),
        ([], T0 + 400, 90, "is empty"),
    ],
)
def test_each_cause_of_no_match_has_its_sentence_and_an_offset(
    here: Records, time: int, old_end: int, sentence: str
) -> None:
    target = one(standby(Slot(here)), want([], offset=40, timestamp_ms=time), TIME_ONLY, sample(old_end, None))
    shows(target, target_offset=len(here), method="timestamp")
    assert sentence in target.note


def test_an_open_transaction_pins_the_place_at_the_last_stable_offset() -> None:
    old = stream(0, 60)
    log = standby(Slot(old, stable=35))
    committed = one(log, want(old[:40]), rules(committed_only=frozenset({"orders"})))
    shows(committed, target_offset=35, exact=False, replay_records=5, end=35)
    assert "open transaction" in committed.note
    shows(one(log, want(old[:40])), target_offset=40, exact=True, end=60)
    timed = one(
        log,
        want([], offset=40, timestamp_ms=T0 + 590),
        rules(MethodName.TIMESTAMP, committed_only=frozenset({"orders"})),
    )
    shows(timed, target_offset=35)


def test_time_never_goes_past_a_place_that_content_has_proven() -> None:
    old = stream(0, 60)
    target = one(standby(Slot(old)), want(old[:30], timestamp_ms=T0 + 450), TIME_ONLY)
    shows(target, target_offset=30, replay_records=0, method="timestamp")
    assert "went past" in target.note


def test_the_forecast_counts_every_record_before_the_place_by_content() -> None:
    """Others wrote 500 of them, or they are copies that came before: nothing shows which."""
    foreign, old = stream(0, 500, name="foreign"), stream(0, 60)
    here = [*foreign, *copied(old, 500)]
    shows(one(standby(Slot(here)), want(old[:40]), rules(MethodName.TIMESTAMP, buffer_ms=10**6)), replay_records=540)


def test_retention_past_the_position_is_marked() -> None:
    old = stream(0, 100)
    result = found(standby(Slot(copied(old), begin=60)), want(old[:20]))
    shows(result.targets[0], target_offset=60, exact=False, method="timestamp")
    assert "retention" in result.targets[0].note
    assert result.earliest_timestamps == {KEY: T0 + 600}


@pytest.mark.parametrize("looked_at", [T0 + 10**9, T0 + 300])
def test_records_left_after_retention_are_unread_however_late_it_was_idle(looked_at: int) -> None:
    """Records may carry times of long ago: nothing followed when T was taken, and they were written all the same."""
    old = stream(0, 100)
    idle = replace(want(old[:20]), timestamp_ms=looked_at)
    target = one(standby(Slot(copied(old), begin=60)), idle, rules(buffer_ms=100), sample(20, T0 + 190))
    shows(target, target_offset=60, method="timestamp", exact=False, expired=True)


def test_a_standby_emptied_by_retention_may_have_lost_unread_records() -> None:
    old = stream(0, 100)
    gone = standby(Slot(copied(old), begin=100))
    shows(one(gone, want(old[:20]), rules(), sample(100, T0 + 990)), target_offset=100, expired=True)
    shows(one(gone, want(old[:20]), rules(), sample(20, T0 + 190)), target_offset=100, expired=False)


def test_retention_in_one_partition_leaves_the_others_exact() -> None:
    old = stream(0, 100)
    targets = found(
        standby(Slot(copied(old), begin=60), Slot(old)), [want(old[:20]), want(old[:20], partition=1)]
    ).targets
    shows(targets[0], target_offset=60, method="timestamp")
    shows(targets[1], target_offset=20, method="exact", exact=True)


def test_holes_between_the_records_read_are_not_forecast_as_replay() -> None:
    old = stream(0, 60)
    here = [(2 * i, time, value) for i, time, value in old]
    shows(one(standby(Slot(here)), want(old[:40]), rules(MethodName.TIMESTAMP, buffer_ms=100)), replay_records=11)


# -- topics


def scattered(count: int) -> list[Slot]:
    """Two old partitions' records, dealt out to ``count`` partitions of the standby in turn."""
    records = sorted([*stream(0, 100, name="a"), *stream(0, 100, name="b")], key=lambda record: record[1])
    return [Slot(copied(records[i::count])) for i in range(count)]


@pytest.mark.parametrize("count", [1, 3])
def test_another_partition_count_gives_every_new_partition_the_common_time(count: int) -> None:
    wants = [want(stream(0, 60, name="a")), want(stream(0, 40, name="b"), partition=1)]
    log = standby(*scattered(count))
    result = found(log, wants, rules(buffer_ms=100))
    assert result.fewer_partitions == {"orders": (2, count)}
    assert [target.target_partition for target in result.targets] == list(range(count))
    for target in result.targets:
        records = log.slots[TopicPartition("orders", target.target_partition)].records
        first = next(offset for offset, time, _ in records if time >= T0 + 290)
        shows(target, target_offset=first, method="timestamp", exact=False, timestamp_ms=T0 + 390)
        assert target.replay_records == len(records) - first


def test_partitions_that_were_only_added_leave_the_old_ones_exact() -> None:
    mine, other, new = stream(0, 100, name="a"), stream(0, 100, name="b"), stream(0, 30, name="new")
    wants = [want(mine[:60]), want(other[:40], partition=1)]
    result = found(standby(Slot(copied(mine, 5)), Slot(copied(other)), Slot(new)), wants)
    assert result.fewer_partitions == {"orders": (2, 3)}
    assert [(each.method, each.target_offset, each.exact) for each in result.targets] == [
        ("exact", 65, True),
        ("exact", 40, True),
        ("exact", 0, True),
    ]
    assert [each.replay_records for each in result.targets] == [0, 0, 0]
    assert "was not known to have this partition" in result.targets[2].note


ALIKE = [(i, T0, "same") for i in range(100)]
RUN = [*stream(0, 30), *[(i, T0 + 300, "same") for i in range(30, 130)]]


@pytest.mark.parametrize(
    ("old", "here"),
    [
        (stream(0, 15), stream(0, 100)),  # too few records to distinguish a copy from chance
        (ALIKE[:60], ALIKE),  # another partition may hold the same
        (RUN[:90], RUN),  # so many agree, but at many places
        (stream(0, 60), stream(0, 40)),  # where the records went that are not here is not known
        (stream(0, 60), stream(0, 100, name="other")),
    ],
)
def test_added_partitions_are_not_believed_in_without_plenty_of_agreement(old: Records, here: Records) -> None:
    result = found(standby(Slot(here), Slot([])), want(old, remembered=17))
    for target in result.targets:
        assert target.method == "timestamp"
        assert "1 partition there, 2 here" in target.note


def test_one_partition_without_its_records_moves_the_topic_to_common_time() -> None:
    mine, other = stream(0, 100, name="a"), stream(0, 100, name="b")
    wants = [want(mine[:60]), want(other[:40], partition=1)]
    result = found(standby(Slot(copied(mine)), Slot(copied(stream(0, 100, name="c")))), wants)
    for target in result.targets:
        shows(target, method="timestamp", target_offset=39, exact=False)
        assert "another partitioner" in target.note
        assert "A topic that was recreated" in target.note


def test_a_partition_with_one_of_its_records_moves_the_topic_to_common_time() -> None:
    """Retention has taken nothing, so the records before it should be there."""
    old = stream(0, 60)
    for begin, method in ((0, "timestamp"), (5, "exact")):
        here = Slot(copied(old[39:], begin), begin=begin)
        wants = [want(old[:40]), want(old[:30], partition=1)]
        shows(found(standby(here, Slot(copied(old))), wants).targets[1], method=method)


def test_without_a_common_time_retention_may_have_taken_unread_records() -> None:
    wants = [want([], offset=40, partition=0), want(stream(0, 60), partition=1)]
    slots = [Slot(copied(stream(0, 30, name=name)), begin=5) for name in "ab"]
    slots[1] = Slot(copied(stream(50, 30, name="b")))
    result = found(standby(*slots), wants, rules(on_no_match="earliest"))
    assert [(each.method, each.expired) for each in result.targets] == [("earliest", True), ("earliest", False)]


def test_one_partition_without_a_known_time_leaves_no_common_time() -> None:
    wants = [want(stream(0, 60)), want([], offset=40, partition=1)]
    result = found(standby(*scattered(3)), wants)
    assert [target.target_offset for target in result.targets] == [None] * 3


def test_a_missing_topic_is_named() -> None:
    elsewhere = replace(want(stream(0, 9)), target_topic="east.orders")
    result = found(standby(Slot([])), elsewhere)
    assert result.missing_topics == ("east.orders",)
    shows(result.targets[0], target_offset=None, error="UNKNOWN_TOPIC_OR_PARTITION")
    assert not result.is_complete


def test_the_same_partition_may_be_wanted_twice() -> None:
    old = stream(0, 60)
    twice = [want(old[:20]), want(old[:40])]
    places = [target.target_offset for target in found(standby(Slot(copied(old, 7))), twice).targets]
    assert places == [27, 47]


def test_an_error_stays_with_its_partition() -> None:
    old = stream(0, 60)
    broken = PartitionError(name="LEADER_NOT_AVAILABLE", text="no leader", retriable=True)
    log = standby(Slot(old, error=broken), Slot(old))
    targets = found(log, [want(old[:40]), want(old[:40], partition=1)]).targets
    shows(targets[0], target_offset=None, error="LEADER_NOT_AVAILABLE", begin=None)
    assert "leader may just have changed" in targets[0].note
    shows(targets[1], target_offset=40, exact=True)


def test_a_standby_without_a_newest_time_still_gives_resume_offsets() -> None:
    old = stream(0, 60)
    log = standby(Slot(old))
    unsupported = PartitionError(name="UNSUPPORTED_VERSION", text="too old", retriable=False)
    log.fails[KEY, Spec.MAX_TIMESTAMP] = unsupported
    target = one(log, want(old[:40]), None, sample(70, T0 + 690))
    shows(target, target_offset=40, exact=True, exposure_records=10, exposure_seconds=0.1)


def test_other_writers_on_the_standby_hide_nothing_that_it_lacks() -> None:
    """A record from after the sample may be a copy: then the replicator left holes, and any unread record may lack."""
    old = stream(0, 100)
    here = copied(old[:80]) + [(80 + i, old[-1][1] + 1000 + i, f"p{i}") for i in range(50)]
    target = one(standby(Slot(here)), want(old[:50]), None, sample(100, old[-1][1]))
    shows(target, target_offset=50, exact=True, exposure_records=20, exposure_seconds=0.53)


def test_copies_that_look_like_other_records_are_not_counted() -> None:
    old = stream(0, 100)
    here = copied(old[:80]) + [(80 + i, T0 + 600, f"p{i}") for i in range(50)]
    target = one(standby(Slot(here)), want(old[:50]), None, sample(100, old[-1][1]))
    shows(target, target_offset=50, exact=True, exposure_records=50, exposure_seconds=0.53)


def test_of_holes_that_a_replicator_left_no_seconds_are_claimed() -> None:
    """The newest record is there, so the lag is 0; which others are not there is unknown: they may lie far apart."""
    old = stream(0, 100)
    here = copied([record for record in old if record[0] not in (60, 90)])
    target = one(standby(Slot(here)), want(old[:50]), None, sample(100, old[-1][1]))
    shows(target, target_offset=50, exact=True, exposure_records=2, exposure_seconds=0.53)
    one_hole = one(standby(Slot(copied(old[:60] + old[61:]))), want(old[:50]), None, sample(100, old[-1][1]))
    shows(one_hole, exposure_records=1, exposure_seconds=0.0)


def test_as_many_records_as_were_unread_without_the_newest_are_no_copies() -> None:
    old = stream(0, 53)
    here = copied(old[:50]) + [(50 + i, old[50][1] + i, f"p{i}") for i in range(3)]
    target = one(standby(Slot(here)), want(old[:50]), None, sample(53, old[-1][1]))
    shows(target, target_offset=50, exact=True, exposure_records=3)


def test_records_that_came_after_the_sample_are_no_copies_of_older_ones() -> None:
    """Three records of the newest millisecond, of which the sample saw one; the standby lacks none, or two of them."""
    old = [*stream(0, 79), *((79 + i, T0 + 790, f"same{i}") for i in range(3))]
    target = one(standby(Slot(copied(old))), want(old[:50]), None, sample(80, T0 + 790))
    shows(target, target_offset=50, exact=True, exposure_records=1, exposure_seconds=0.01)


def test_records_that_came_after_the_sample_fill_no_hole_before_it() -> None:
    """Three were left out; the sample saw one record of its newest millisecond, and two of its age came after it."""
    old = [*stream(0, 79), *((79 + i, T0 + 790, f"same{i}") for i in range(3)), *stream(82, 5)]
    here = copied([record for record in old if record[0] not in (60, 61, 62)])
    target = one(standby(Slot(here)), want(old[:50]), None, sample(80, T0 + 790))
    shows(target, target_offset=50, exact=True, exposure_records=3)


@pytest.mark.parametrize(("later_ms", "lacks"), [(0, 8), (1, 7)])
def test_behind_holes_one_of_the_newest_time_counts_if_seen_later(later_ms: int, lacks: int) -> None:
    """Of ten offsets that the sample saw the standby holds one or two: the record of the newest time may be younger."""
    old = [*stream(0, 59), (59, T0 + 590, "seen"), (60, T0 + 590, "younger")]
    here = copied([*old[:52], old[60], *stream(61, 3)])
    seen = datetime.fromtimestamp((T0 + 590 + later_ms) / 1000, UTC)
    target = one(standby(Slot(here)), want(old[:50]), None, sample(60, T0 + 590, at=seen))
    shows(target, target_offset=50, exact=True, exposure_records=lacks, exposure_seconds=0.13)


@pytest.mark.parametrize(("later_ms", "lacks"), [(0, 1), (1, 0)])
def test_records_as_young_as_the_sample_fill_no_hole(later_ms: int, lacks: int) -> None:
    """As many copies as the sample saw offsets, but one is a hole, and of two of the newest time one may be younger."""
    old = [*stream(0, 59), (59, T0 + 590, "seen"), (60, T0 + 590, "younger"), *stream(61, 3)]
    here = copied([record for record in old if record[0] != 55])
    seen = datetime.fromtimestamp((T0 + 590 + later_ms) / 1000, UTC)
    target = one(standby(Slot(here)), want(old[:50]), None, sample(60, T0 + 590, at=seen))
    shows(target, target_offset=50, exact=True, exposure_records=lacks)


def test_times_out_of_order_hide_no_copy_before_the_newest_time() -> None:
    old = [(i, T0 + 10 * i + (35 if i % 3 else 0), f"p{i}") for i in range(100)]
    newest = max(at for _, at, _ in old)
    place = next(offset for offset, at, _ in old if at == newest)
    target = one(standby(Slot(copied(old))), want(old[:50]), None, sample(100, newest))
    shows(target, target_offset=50, exact=True, exposure_records=99 - place)
    behind = one(standby(Slot(copied(old[:80]))), want(old[:50]), None, sample(100, newest))
    shows(behind, target_offset=50, exact=True, exposure_records=50)


@pytest.mark.parametrize(("remembered", "lacks"), [(3, 8 + 4), (8, 3)])
def test_a_late_record_is_no_copy_where_too_few_times_show_their_order(remembered: int, lacks: int) -> None:
    """A record from after the sample has an older time than the newest one that the sample saw.

    Three records do not even show that theirs are no copies of older ones, so the eight read ones count as well.
    """
    old = [*stream(0, 8), *stream(8, 4), (12, T0 + 105, "late")]
    here = copied([*old[:8], old[12]])
    target = one(standby(Slot(here)), want(old[:8], remembered=remembered), None, sample(12, T0 + 110))
    shows(target, target_offset=8, exposure_records=lacks)


def test_the_order_in_which_partitions_are_named_changes_no_answer() -> None:
    """One lags, one is another partitioner's work, one is whole: the same answers and the same sentences."""
    old = [stream(0, 80, name=name) for name in "abcd"]
    here = [old[0][:30], stream(0, 80, name="x"), old[2], stream(0, 80, name="y")]
    log = standby(*(Slot(copied(each)) for each in here))
    wants = [want(each[:50], partition=number) for number, each in enumerate(old)]
    ends = {key: each for number in range(4) for key, each in sample(80, old[number][-1][1], number).items()}
    forwards = found(log, wants, None, ends).targets
    assert found(log, wants[::-1], None, dict(reversed(ends.items()))).targets == forwards
    assert "partition 1 does not hold" in forwards[0].note


def test_ends_are_looked_up_before_times() -> None:
    log = standby(Slot(copied(stream(0, 50))))
    one(log, want(stream(0, 30)), rules(committed_only=frozenset({"orders"})))
    assert log.requested[:4] == ["describe", "LATEST", "LATEST", "EARLIEST"]
    assert set(log.requested[4:]) == {"TIME", "MAX_TIMESTAMP"}


def test_records_that_come_after_the_snapshot_are_not_looked_at() -> None:
    old = stream(0, 60)
    log = standby(Slot(old))
    log.slots[KEY].end = 33
    target = one(log, want(old[:40]))
    shows(target, target_offset=33, end=33, replay_records=0, replay_later_records=7)


def test_a_passed_deadline_leaves_the_answers_that_are_there() -> None:
    result = resolve(standby(Slot(stream(0, 60))), [want(stream(0, 40))], rules(), old_ends={}, now=NOW, timeout=0)
    shows(result.targets[0], target_offset=None, error="TIMED_OUT")


def test_the_ring_is_what_was_remembered() -> None:
    assert len(ring(stream(0, 300))) == 256


# -- the policies


def test_the_closest_is_looked_up_by_time_although_no_method_may_use_it() -> None:
    log, lost = standby(Slot(stream(0, 50))), want([], offset=40, timestamp_ms=T0 + 300)
    target = one(log, lost, rules(MethodName.EXACT, on_no_match="closest"))
    shows(target, target_offset=30, method="closest", exact=False, replay_records=20)
    assert "closest offset by time" in target.note


def test_the_closest_without_any_time_is_the_end_and_says_what_it_costs() -> None:
    log = standby(Slot(stream(0, 50)))
    shows(one(log, want([], offset=40), rules(on_no_match="closest")), target_offset=50, method="closest")
    for name in ("UNSUPPORTED_FOR_MESSAGE_FORMAT", "UNSUPPORTED_VERSION"):
        timeless = standby(Slot(stream(0, 50)))
        timeless.fails[KEY, 0] = PartitionError(name=name, text="too old", retriable=False)
        target = one(timeless, want([], offset=40, timestamp_ms=T0), rules(on_no_match="closest"))
        shows(target, target_offset=50, method="closest")
        assert "unread records are skipped" in target.note


def test_closest_does_not_take_a_failed_lookup_for_a_log_without_times() -> None:
    log = standby(Slot(stream(0, 50)))
    log.fails[KEY, 0] = PartitionError(name="TIMED_OUT", text="the deadline passed", retriable=True)
    target = one(log, want([], offset=40, timestamp_ms=T0), rules(on_no_match="closest"))
    shows(target, target_offset=None, method=None, error="TIMED_OUT")


@pytest.mark.parametrize("policy", ["latest", "earliest", "closest"])
def test_no_policy_passes_a_place_that_content_has_proven(policy: str) -> None:
    old = stream(0, 60)
    target = one(standby(Slot(copied(old, 7))), want(old[:30]), rules(MethodName.SYNCED, on_no_match=policy))
    shows(target, method=policy, target_offset=37, replay_records=0)


@pytest.mark.parametrize(("policy", "offset"), [("latest", 100), ("earliest", 60), ("closest", 60), ("fail", None)])
def test_a_log_that_begins_after_the_position_is_a_situation_of_its_own(policy: str, offset: int | None) -> None:
    old = stream(0, 100)
    target = one(standby(Slot(copied(old), begin=60)), want(old[:20]), rules(MethodName.SYNCED, on_no_match=policy))
    shows(target, target_offset=offset, expired=True)
    assert "by time" not in target.note


def test_an_unread_partition_begins_by_policy_where_counts_differ() -> None:
    wants = [want(stream(0, 60, name="a")), want(stream(0, 40, name="b"), partition=1)]
    targets = found(standby(*scattered(3)), wants, rules(MethodName.EXACT, buffer_ms=0, on_no_match="closest")).targets
    assert [("by time" in target.note, target.target_offset == 0) for target in targets] == [
        (True, False),
        (True, False),
        (False, True),
    ]


# -- segments


def segmented(records: int = 60, *, each: int = 10) -> MemoryCluster:
    """One partition whose segments were last written when their last record came."""
    made = MemoryCluster("west")
    made.create("orders")
    for offset, time, value in stream(0, records):
        if offset and offset % each == 0:
            made.roll("orders", 0, time - 10)
        made.append("orders", 0, time, digest(value))
    return made


NO_TIMES = PartitionError(name="UNSUPPORTED_FOR_MESSAGE_FORMAT", text="too old", retriable=False)
BY_SEGMENT = rules(MethodName.SEGMENT)


class Timeless(MemoryCluster):
    """Its messages carry no times."""

    error = NO_TIMES

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> dict[TopicPartition, OffsetAnswer]:
        found = super().offsets(times, read_committed=read_committed, timeout=timeout)
        none = OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=self.error)
        return {key: none if times[key] >= 0 or times[key] == Spec.MAX_TIMESTAMP else found[key] for key in found}


@pytest.mark.parametrize(
    ("time", "offset", "sentence"),
    [
        (T0 + 345, 20, "whole segments earlier"),
        (T0 + 291, 20, "whole segments earlier"),
        (T0 + 290, 10, "whole segments earlier"),
        (T0 + 80, 0, "no segment of the standby is that old"),
    ],
)
def test_a_segment_is_never_later_than_the_first_record_of_that_time(time: int, offset: int, sentence: str) -> None:
    log = segmented()
    target = one(log, want([], offset=40, timestamp_ms=time), BY_SEGMENT)
    shows(target, target_offset=offset, method="segment", exact=False)
    assert sentence in target.note
    by_time = one(log, want([], offset=40, timestamp_ms=time), TIME_ONLY).target_offset
    assert by_time is not None
    assert offset <= by_time


def test_a_segment_is_looked_up_only_where_times_cannot_be() -> None:
    log = segmented()
    everything = rules(*MethodName)
    shows(one(log, want([], offset=40, timestamp_ms=T0 + 345), everything), target_offset=35, method="timestamp")
    log.__class__ = Timeless
    shows(one(log, want([], offset=40, timestamp_ms=T0 + 345), everything), target_offset=20, method="segment")
    log.error = replace(NO_TIMES, retriable=True)  # type: ignore[attr-defined] # it is a Timeless by now
    shows(one(log, want([], offset=40, timestamp_ms=T0 + 345), everything), target_offset=None, method=None)


def test_an_offset_sync_counts_before_a_segment_and_a_segment_without_one() -> None:
    log = segmented()
    log.__class__ = Timeless
    log.create("syncs")
    log.append_entry("syncs", 0, struct.pack(">h6si", 6, b"orders", 0), struct.pack(">qq", 30, 30))
    everything = rules(*MethodName, offset_syncs="syncs")
    shows(one(log, want([], offset=40, timestamp_ms=T0 + 345), everything), target_offset=31, method="synced")
    earlier = one(log, want([], offset=20, timestamp_ms=T0 + 195), everything)
    shows(earlier, target_offset=10, method="segment")
    assert "the oldest offset sync is for 30, after 20" in earlier.note


def test_the_end_of_the_log_is_not_taken_for_a_segment() -> None:
    log = segmented()
    log.now_ms = T0
    shows(one(log, want([], offset=40, timestamp_ms=T0 + 10_000), BY_SEGMENT), target_offset=50, method="segment")


def test_a_segment_past_the_place_proven_by_content_gives_way_to_it() -> None:
    """The standby's clock is far behind, so its files look older than they are."""
    old = stream(0, 60)
    log = segmented()
    log.partition("orders", 0).rolled = [(base, 0) for base in (0, 10, 20, 30, 40)]
    target = one(log, want(old[:15]), BY_SEGMENT)
    shows(target, target_offset=15, method="segment", replay_records=0)
    assert "went past the offset proven by content" in target.note


def test_where_retention_has_worked_a_segment_skips_nothing_that_is_left() -> None:
    log = segmented()
    log.retain("orders", 0, 35)
    log.partition("orders", 0).rolled = [(base, 0) for base in (0, 10, 20, 30, 40)]
    younger = one(log, want(stream(0, 15)), BY_SEGMENT)
    shows(younger, target_offset=35, method="segment", expired=True)
    assert "the first record that the standby still holds is newer" in younger.note
    log.partition("orders", 0).rolled = [(base, T0 + 10 * base) for base in (0, 10, 20, 30, 40)]
    shows(one(log, want([], offset=40, timestamp_ms=T0 + 80), BY_SEGMENT), target_offset=35, method="segment")


def test_without_segments_or_with_a_time_to_come_the_method_does_not_hold() -> None:
    log = segmented()
    log.knows_segments = False
    target = one(log, want([], offset=40, timestamp_ms=T0), BY_SEGMENT)
    shows(target, target_offset=None)
    assert "UNSUPPORTED_VERSION" in target.note
    ahead = int(NOW.timestamp() * 1000) + 1
    target = one(segmented(), want([], offset=40, timestamp_ms=ahead), BY_SEGMENT)
    shows(target, target_offset=None)
    assert "is in the future" in target.note
