"""Lag, copies and density are shown: no place lies behind a record that is not accounted for."""

import pytest

from state.settings.keys import MethodName
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

PATIENT = rules(MethodName.EXACT, MethodName.TIMESTAMP, buffer_ms=900_000)


# -- the last records read were never copied


def test_records_sent_again_at_the_end_are_no_lag_behind_unread_ones() -> None:
    old = stream(0, 300)
    here = copied([record for record in old if record[0] != 99] + old[60:90])
    target = one(standby(Slot(here)), want(old[:100]), PATIENT, sample(300, old[-1][1]))
    shows(target, target_offset=99, exact=False, method="exact", replay_records=30)
    assert "does not hold the last 1 records read" in target.note


@pytest.mark.parametrize("ahead_ms", [0, 5_000])
def test_unread_records_older_than_the_last_one_read_are_no_lag(ahead_ms: int) -> None:
    old = stream(0, 30)
    old[29] = (29, old[29][1] + ahead_ms, "dropped")
    unread = [(30 + i, old[28][1] + 10 + i, f"u{i}") for i in range(20)]
    target = one(standby(Slot(copied(old[:29] + unread))), want(old), PATIENT, sample(50, old[29][1]))
    shows(target, target_offset=29, exact=False, replay_records=0)


def test_a_replicator_that_began_behind_the_position_is_no_lag() -> None:
    old = [*stream(0, 4), (4, T0 + 60_000, "ahead"), *[(i, T0 + 10 * i, f"u{i}") for i in range(5, 40)]]
    target = one(standby(Slot(copied(old[5:]))), want(old[:5]), PATIENT)
    shows(target, target_offset=0, exact=False)


def test_a_standby_that_lags_and_got_some_records_twice_resumes_at_its_end() -> None:
    old = stream(0, 100)
    here = copied(old[:61] + old[40:56])
    target = one(standby(Slot(here)), want(old), PATIENT, sample(100, old[-1][1]))
    shows(target, target_offset=77, replay_records=0, replay_later_records=44, exposure_records=39)


def test_equal_records_behind_the_newest_copy_are_not_taken_for_copies() -> None:
    old = [*stream(0, 20), *[(i, T0 + 200, "beat") for i in range(20, 60)]]
    target = one(standby(Slot(copied(old[:40]))), want(old[:30]))
    assert target.target_offset is not None
    assert target.target_offset <= 30


def test_a_slow_clock_of_the_standby_and_equal_contents_are_no_lag() -> None:
    old = [(i, T0 + 1000 * i, "hb") for i in range(3)]
    here = [(i, time - 200_000, value) for i, time, value in old]
    target = one(standby(Slot(here, append_time=True)), want(old[:1]), PATIENT, sample(3, T0 + 2000))
    shows(target, target_offset=1, exact=False)


def test_a_standby_with_only_older_records_lags() -> None:
    old = stream(0, 900)
    shows(
        one(standby(Slot(copied(old[:300]))), want(old[:800]), PATIENT), target_offset=300, method="exact", exact=False
    )


@pytest.mark.parametrize("newest", [T0 + 5_440, T0 + 7_995])
def test_a_record_as_new_as_one_that_is_remembered_leaves_lag_unproven(newest: int) -> None:
    old: Records = stream(0, 900)
    here = [*old[:300], (300, newest, "other")]
    target = one(standby(Slot(copied(here))), want(old[:800]), rules(buffer_ms=4_000))
    shows(target, method="timestamp", exact=False)
    assert target.target_offset is not None
    assert target.target_offset <= 300


def test_a_bound_beyond_a_record_that_was_never_copied_hides_no_place() -> None:
    """The newest time of the last records belongs to one that a filter left out, and unread records are older."""
    old = stream(0, 60)
    old[35] = (35, T0 + 5_000, "dropped")
    here = [record for record in old if record[0] != 35]
    target = one(standby(Slot(copied(here))), want(old[:40]), PATIENT)
    assert target.target_offset is not None
    assert target.target_offset <= 39
    assert not target.exact


def test_whole_topics_do_not_go_by_the_common_time_for_one_filtered_record() -> None:
    old = stream(0, 100)
    here = [record for record in old if record[0] != 59]
    targets = found(
        standby(Slot(copied(here)), Slot(copied(old))), [want(old[:60]), want(old[:60], partition=1)]
    ).targets
    shows(targets[0], target_offset=59, exact=False, method="exact")
    shows(targets[1], target_offset=60, exact=True, method="exact")


# -- what retention has deleted


def test_a_buffer_beyond_time_0_needs_no_oldest_record() -> None:
    old = [(i, 10 * i, f"r{i}") for i in range(60)]
    late = [(i, time, value) for i, (_, time, value) in enumerate(old[45:])]
    result = found(standby(Slot(late)), want(old[:30]), rules(buffer_ms=10**9))
    shows(result.targets[0], target_offset=0, expired=False)
    assert result.earliest_timestamps == {}


def test_a_missing_place_in_a_cut_log_says_what_may_be_gone() -> None:
    old = stream(0, 300)
    here = [(i, time, "other") for i, time, _ in old if i >= 120]
    shows(one(standby(Slot(here, begin=120)), want(old[:100]), PATIENT), expired=True)
    older = [(i, time - 2_000_000, "other") for i, time, _ in old if i >= 20]
    shows(one(standby(Slot(older, begin=20)), want(old[:100], remembered=20), PATIENT), expired=False)


def test_a_few_remembered_records_that_are_all_missing_show_no_lag() -> None:
    old = stream(0, 15)
    unread = [(i, T0 + i, f"u{i}") for i in range(20)]
    target = one(standby(Slot(unread)), want(old, remembered=5), PATIENT)
    shows(target, target_offset=0, method="timestamp", exact=False)
