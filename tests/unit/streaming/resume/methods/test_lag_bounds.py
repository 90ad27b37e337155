"""A standby that lags further than records are remembered: what it lacks at most, and what shows that."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from state.model.entities import EndSample, Fingerprint, Position
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from streaming.resume.methods.lag_bounds import (
    Reached,
    by_older_records,
    by_timeline,
    is_unbounded,
    lags,
    older_batches,
    reached_by,
    requested_again,
    with_bounds,
)
from streaming.resume.model import AtMost, Resolution, Target, Want
from tests.contract.samples import place

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
KEY = ("s", "t", 0)
LAGGING = place(offset=9_000, target_offset=30, exact=False, exposure_records=None, replay_later_records=None)
OLD_END = EndSample(
    cluster="east", topic="t", partition=0, begin=0, end=9_500, newest_timestamp_ms=60_000, leader_epoch=0,
    topic_id="i", sampled_at=NOW,
)  # fmt: skip
WANT = Want(
    source="s", topic="t", partition=0, target_topic="t", offset=9_000, ring=(), ring_offset=9_000, dense=None,
    begin_known=0, timestamp_ms=57_000,
)  # fmt: skip


def row(batch: int, offset: int, time_ms: int, **changes: Any) -> Position:
    ring = tuple(Fingerprint(offset - 4 + i, time_ms, bytes([batch, i] * 8)) for i in range(4))
    known: dict[str, Any] = {
        "query": "q", "epoch": 1, "cluster": "east", "source": "s", "topic": "t", "partition": 0, "batch": batch,
        "offset": offset, "timestamp_ms": time_ms, "leader_epoch": 0, "topic_id": "i", "dense": True,
        "tracked_at": NOW, "ring": ring,
    }  # fmt: skip
    return Position(**{**known, **changes})


def stretch(*steps: tuple[int, int, int], precision_ms: int = 100) -> Stretch:
    """Of moments: when it was taken, the offset, and the largest time of the last records before it."""
    moments = [Moment(at, (offset,), (time,), (0,)) for at, offset, time in steps]
    return Stretch.of("q", 1, "east", [SourcePartition(*KEY)], moments, precision_ms=precision_ms)


def reached(*stretches: Stretch, newest_ms: int | None, buffer_ms: int = 1_000) -> Reached | None:
    return reached_by(stretches, [replace(LAGGING, buffer_ms=buffer_ms)], {KEY: newest_ms}).get(KEY)


# -- which older batches are looked for ------------------------------------------------------------------------------
def test_two_batches_around_the_standbys_newest_time_are_looked_for() -> None:
    rows = [row(number, 1_000 * number, 10_000 * number) for number in range(1, 9)]
    found = older_batches(rows, [WANT], {KEY: 35_000})
    assert [each.batch for each in found[KEY]] == [4, 3]


@pytest.mark.parametrize("change", [{"ring": ()}, {"timestamp_ms": None}, {"offset": 9_000}, {"partition": 1}])
def test_a_batch_without_records_before_the_position_shows_nothing(change: dict[str, Any]) -> None:
    assert older_batches([replace(row(3, 3_000, 30_000), **change)], [WANT], {KEY: 35_000}) == {}


def test_without_a_time_of_the_standby_no_batch_is_looked_for() -> None:
    assert older_batches([row(3, 3_000, 30_000)], [WANT], {KEY: None}) == {}


def test_an_older_batch_is_looked_up_at_its_own_end() -> None:
    requested = requested_again(replace(WANT, read_to=9_500), row(3, 3_000, 30_000))
    assert (requested.offset, requested.ring_offset, requested.timestamp_ms, requested.read_to) == (
        3_000,
        3_000,
        30_000,
        None,
    )
    assert [each.offset for each in requested.ring] == [2_996, 2_997, 2_998, 2_999]


# -- bounds ----------------------------------------------------------------------------------------------------------
def bounds(*older: Target) -> AtMost | None:
    return by_older_records(LAGGING, older)


def test_records_behind_an_older_batch_that_is_there_may_be_lacking() -> None:
    near = place(offset=4_000, exposure_records=5_600, exposure_seconds=26.0, replay_later_records=100)
    found = bounds(place(offset=3_000, exposure_records=6_500, exposure_seconds=30.0), near)
    assert found is not None
    assert (found.exposure_records, found.exposure_seconds, found.replay_later_records) == (5_600, 26.0, 5_100)


@pytest.mark.parametrize(
    "change",
    [{"exposure_records": None}, {"replay_later_records": None}, {"expired": True}, {"offset": 9_000}],
)
def test_an_older_batch_that_was_not_found_bounds_nothing(change: dict[str, Any]) -> None:
    assert bounds(place(**{"offset": 3_000, "exposure_records": 6_500, "exposure_seconds": 30.0, **change})) is None


# -- the timeline ----------------------------------------------------------------------------------------------------
STEPS = ((10_000, 1_000, 9_000), (20_000, 2_000, 19_000), (30_000, 3_000, 29_000), (40_000, 4_000, 39_000))


@pytest.mark.parametrize(
    ("newest_ms", "buffer_ms", "offset"),
    [
        (32_000, 1_000, 3_000),
        (30_101, 1_000, 3_000),
        (30_100, 1_000, 2_000),  # times go back by the buffer, and a step's time may be 100 ms too early
        (29_500, 0, 3_000),
        (41_000, 12_000, 2_000),
        (9_000, 0, None),
        (None, 0, None),
    ],
)
def test_copies_reach_the_newest_moment_whose_records_are_all_older(
    newest_ms: int | None, buffer_ms: int, offset: int | None
) -> None:
    found = reached(stretch(*STEPS), newest_ms=newest_ms, buffer_ms=buffer_ms)
    assert (None if found is None else found.offset) == offset


def test_an_older_stretch_is_looked_into_where_the_newer_one_begins_too_late() -> None:
    found = reached(stretch(*STEPS[2:]), stretch(*STEPS[:2]), newest_ms=25_000)
    assert found == Reached(2_000, 19_000)


def test_a_moment_without_a_time_and_a_stretch_that_is_damaged_show_nothing() -> None:
    untimed = stretch(STEPS[0], (20_000, 2_000, NO_TIME))
    assert reached(untimed, newest_ms=90_000) == Reached(1_000, 9_000)
    damaged = replace(stretch(*STEPS[2:]), packed=b"?")
    assert reached(damaged, stretch(*STEPS[:2]), newest_ms=25_000) is None


def test_a_bound_by_the_timeline_counts_offsets_up_to_the_last_sample() -> None:
    found = by_timeline(LAGGING, Reached(3_000, 29_000), OLD_END)
    assert found is not None
    assert (found.exposure_records, found.exposure_seconds, found.replay_later_records) == (6_500, 31.0, 6_000)
    older = by_timeline(LAGGING, Reached(3_000, 29_000), replace(OLD_END, end=8_000, newest_timestamp_ms=None))
    assert older is not None
    assert (older.exposure_records, older.exposure_seconds) == (6_000, None), "the position was reached since"
    ahead = by_timeline(LAGGING, Reached(3_000, 29_000), replace(OLD_END, newest_timestamp_ms=10**15))
    assert ahead is not None
    assert ahead.exposure_seconds == NOW.timestamp() - 29.0, "a time ahead of the clock says nothing"
    assert by_timeline(LAGGING, Reached(3_000, 29_000), None) is None
    assert by_timeline(LAGGING, Reached(9_001, 29_000), OLD_END) is None


# -- what has a bound ------------------------------------------------------------------------------------------------
BOUND = AtMost(exposure_records=6_500, exposure_seconds=31.0, replay_later_records=6_000, by="by its records")


def answered(targets: Sequence[Target]) -> list[AtMost | None]:
    found = Resolution(targets=tuple(targets), looked_up_at=NOW, seconds=0.1)
    return [each.at_most for each in with_bounds(found, {KEY: BOUND}).targets]


def test_a_bound_is_given_where_a_number_is_unknown_and_nowhere_else() -> None:
    known, nowhere = place(), replace(LAGGING, target_offset=None)
    assert answered([LAGGING, known, nowhere]) == [BOUND, None, None]
    assert answered([replace(LAGGING, exposure_records=3)]) == [BOUND], "the later repeats are unknown still"
    better = replace(BOUND, exposure_records=1)
    assert answered([replace(LAGGING, at_most=better)]) == [better]
    assert [is_unbounded(each) for each in (LAGGING, known, nowhere)] == [True, False, False]


def test_a_bounded_partition_says_what_shows_it() -> None:
    found = with_bounds(Resolution(targets=(LAGGING,), looked_up_at=NOW, seconds=0.1), {KEY: BOUND})
    assert found.targets[0].note == ("the standby lacks at most 6500 records, of which 6000 were read: by its records")
    assert found.targets[0].exposure_records is None, "a bound is no measured number"


def test_a_place_by_content_at_the_end_is_lag_and_one_by_time_is_not() -> None:
    assert lags(LAGGING)
    for change in ({"method": "timestamp"}, {"end": 31}, {"replay_later_records": 0}, {"exact": True}):
        assert not lags(replace(LAGGING, **dict[str, Any](change)))
