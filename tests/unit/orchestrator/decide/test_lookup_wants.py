"""From checkpoint and tracking to wants: rings cut to the position, gaps proven dense or not, and T."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from orchestrator.decide.lookup_wants import (
    batches_looked_into,
    since_placed,
    sound_ends,
    standby_topic,
    wants_of,
    with_rings,
)
from state.model.entities import Assignment, Desired, EndSample, Fingerprint, Position, TopicPartition
from state.model.fingerprints import LIMIT, Counted, Fingerprints
from state.settings.keys import Route
from streaming.resume.model import Want
from tests.thorough import tries

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
ROUTE = Route.model_validate({"from": "east", "to": "west"})


def row(batch: int, offset: int, ring: Iterable[int] = (), *, dense: bool | None = None, **place: Any) -> Position:
    where: dict[str, Any] = {"epoch": 1, "cluster": "east", **place}
    fingerprints = tuple(Fingerprint(number, number * 10, bytes([number % 256]) * 16) for number in ring)
    return Position(
        query="q", **where, source="s", topic="t", partition=0, batch=batch,
        offset=offset,
        timestamp_ms=max((f.timestamp_ms for f in fingerprints), default=None), leader_epoch=0, topic_id="i",
        ring=fingerprints, dense=dense, tracked_at=NOW,
    )  # fmt: skip


def sample(end: int) -> EndSample:
    return EndSample(
        cluster="east", topic="t", partition=0, begin=3, end=end, newest_timestamp_ms=None, leader_epoch=0,
        topic_id="i", sampled_at=NOW,
    )  # fmt: skip


def want(offset: int, rows: list[Position], end: int | None = None) -> Want:
    ends = {TopicPartition("t", 0): sample(end)} if end is not None else {}
    (found,) = wants_of({"s": {"t": {"0": offset}}}, positions=rows, ends=ends, route=ROUTE)
    return found


def offsets_of(found: Want) -> list[int]:
    return [fingerprint.offset for fingerprint in found.ring]


def test_current_tracking_gives_the_ring_at_the_position() -> None:
    found = want(20, [row(6, 15, range(5, 15)), row(7, 20, range(10, 20))])
    assert (offsets_of(found), found.ring_offset, found.dense) == (list(range(10, 20)), 20, True)
    assert found.timestamp_ms == 190


def test_a_lookup_wants_to_know_which_records_were_not_committed() -> None:
    read = Fingerprints.of((Fingerprint(number, number * 10, bytes(16)) for number in range(10, 20)), [18, 19])
    assert want(20, [replace(row(7, 20), ring=read)]).uncommitted == {18, 19}
    assert want(20, [row(7, 20, range(10, 20))]).uncommitted == frozenset()


def test_a_ring_tracked_past_the_position_is_cut_to_the_records_before_it() -> None:
    found = want(20, [row(8, 25, range(12, 25))])
    assert (offsets_of(found), found.ring_offset, found.timestamp_ms) == (list(range(12, 20)), 20, 190)


def test_a_cut_ring_reaches_no_further_than_its_last_record() -> None:
    """The end of a later batch was read, the end of this one was not: the ring's older chunk ends well before it."""
    found = want(20, [row(8, 25, [*range(5, 10), *range(22, 25)])])
    assert (offsets_of(found), found.ring_offset, found.dense) == (list(range(5, 10)), 10, None)


def test_a_ring_wholly_past_the_position_says_nothing() -> None:
    found = want(20, [row(8, 25, range(20, 25))])
    assert (found.ring, found.ring_offset, found.timestamp_ms, found.dense) == ((), None, None, None)


def test_the_ring_that_reaches_nearest_is_taken_even_from_an_older_batch() -> None:
    found = want(20, [row(6, 20, range(4, 20)), row(7, 20)])
    assert (offsets_of(found), found.ring_offset) == (list(range(4, 20)), 20)


@pytest.mark.parametrize(
    ("rows", "dense"),
    [
        ([row(6, 15, range(5, 15)), row(7, 20, dense=True)], True),
        ([row(6, 15, range(5, 15)), row(7, 18, dense=True), row(8, 22, dense=True)], True),
        ([row(6, 15, range(5, 15)), row(7, 18, dense=True), row(8, 22, dense=False)], False),
        ([row(6, 15, range(5, 15)), row(7, 20, dense=None)], None),
        ([row(6, 15, range(5, 15)), row(8, 20, dense=True)], None),
        ([row(6, 15, range(5, 15)), row(7, 18, dense=True)], None),
        ([row(6, 15, range(5, 15))], None),
    ],
)
def test_a_gap_is_dense_only_where_consecutive_rows_prove_it(rows: list[Position], dense: bool | None) -> None:
    found = want(20, rows)
    assert (found.ring_offset, found.dense) == (15, dense)


def test_a_fully_read_partition_counts_as_read_up_to_its_sample() -> None:
    assert want(20, [row(7, 20, range(10, 20))], end=20).timestamp_ms == NOW_MS
    assert want(20, [row(7, 20, range(10, 20))], end=21).timestamp_ms == 190
    assert want(20, [row(7, 20, range(10, 20))], end=15).timestamp_ms == 190
    assert want(20, [], end=15).timestamp_ms == NOW_MS
    assert want(20, []).timestamp_ms is None


def test_the_sampled_begin_shows_that_a_position_has_read_nothing() -> None:
    assert want(3, [], end=9).begin_known == 3


def test_wants_come_in_the_order_of_source_topic_and_number() -> None:
    offsets = {"s2": {"t": {"0": 1}}, "s1": {"u": {"10": 1, "9": 1}, "t": {"0": 1}}}
    found = wants_of(offsets, positions=[], ends={}, route=ROUTE)
    assert [(w.source, w.topic, w.partition) for w in found] == [
        ("s1", "t", 0),
        ("s1", "u", 9),
        ("s1", "u", 10),
        ("s2", "t", 0),
    ]


@pytest.mark.parametrize(
    ("topics", "name"),
    [("identity", "t"), ({"prefix": "east."}, "east.t"), ({"t": "u"}, "u"), ({"x": "y"}, None)],
)
def test_a_route_names_the_topic_on_the_standby(topics: object, name: str | None) -> None:
    assert standby_topic(Route.model_validate({"from": "east", "to": "west", "topics": topics}), "t") == name


# -- which rows count ------------------------------------------------------------------------------------------------
PLACED = Assignment(
    query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="/c",
    starting_offsets=None, operation=None, changed_at=NOW,
)  # fmt: skip


def test_rows_of_before_the_last_commit_speak_of_another_place() -> None:
    east, planned, west = row(7, 20), row(8, 25), row(8, 30, epoch=2, cluster="west")
    on_west = replace(PLACED, epoch=2, placed_epoch=2, cluster="west")
    assert since_placed([east, planned, west], on_west) == [west]
    fresh = row(0, 3, epoch=2, cluster="west")
    assert since_placed([east, fresh], on_west) == [fresh], "a fresh start begins at batch 0"
    back = replace(PLACED, epoch=3, placed_epoch=3)
    assert since_placed([east, planned, west], back) == [], (
        "batch ids of an earlier stay on the same cluster mean nothing"
    )
    assert since_placed([east], None) == []


def test_rows_of_before_a_hold_and_an_abort_still_count() -> None:
    before, planned = row(7, 20), row(8, 25)
    held = replace(PLACED, epoch=2, desired=Desired.HELD)
    assert since_placed([before, planned], held) == [before, planned]
    aborted = replace(PLACED, epoch=3)
    again = row(8, 25, range(20, 25), epoch=3)
    assert since_placed([again, before, planned], aborted) == [before, again], (
        "a batch counts once, as it was seen last"
    )


LATER = NOW + timedelta(seconds=1)


@pytest.mark.parametrize(
    ("seen", "sound"),
    [
        (sample(100), True),
        (replace(sample(40), sampled_at=LATER), True),
        (replace(sample(40), leader_epoch=1), True),
        (replace(sample(40), leader_epoch=1, sampled_at=LATER), False),
        (replace(sample(60), leader_epoch=1, sampled_at=LATER), True),
        (replace(sample(50), topic_id="other"), False),
        (replace(sample(50), topic_id=None), True),
    ],
    ids=["further", "same leader", "seen before", "cut", "new leader, not cut", "made anew", "no topic id"],
)
def test_a_sample_of_another_log_than_the_one_that_was_read_is_not_believed(seen: EndSample, sound: bool) -> None:
    """Taken for the old log's, its end would call the partition read up to the time of the sample."""
    key = TopicPartition("t", 0)
    rows = [row(6, 20), row(7, 50)]
    assert set(sound_ends({key: seen}, rows)) == ({key} if sound else set())


def test_an_end_of_a_recreated_topic_does_not_bound_the_old_reading() -> None:
    key, rows = TopicPartition("t", 0), [row(7, 50, [49])]
    other = replace(sample(50), topic_id="other")
    (believed,) = wants_of({"s": {"t": {"0": 50}}}, positions=rows, ends={key: other}, route=ROUTE)
    ends = sound_ends({key: other}, rows)
    (found,) = wants_of({"s": {"t": {"0": 50}}}, positions=rows, ends=ends, route=ROUTE)
    assert (believed.timestamp_ms, found.timestamp_ms) == (NOW_MS, 490)


def test_records_remembered_before_an_abort_count_if_unreadable_again() -> None:
    aborted, ringed = replace(PLACED, epoch=3), row(8, 25, range(20, 25))
    assert since_placed([ringed, row(8, 25, epoch=3)], aborted) == [ringed]
    moved = row(8, 26, epoch=3)
    assert since_placed([ringed, moved], aborted) == [moved], "another end is another batch"
    recreated = replace(row(8, 25, epoch=3), topic_id="new")
    assert since_placed([replace(ringed, topic_id="old"), recreated], aborted) == [recreated], (
        "another topic has other records"
    )


def counted(rows: Iterable[Position]) -> list[Position]:
    return [replace(row, ring=Counted(len(row.ring))) for row in rows]


def longest_of_the_nearest(rows: list[Position], offset: int) -> tuple[int | None, tuple[Fingerprint, ...]]:
    """By every row there is: how far its records before the position reach, and which they are."""
    cut = [(row.offset, tuple(each for each in row.ring if each.offset < offset)) for row in rows]
    reported = [(end if end <= offset else known[-1].offset + 1, known) for end, known in cut if known]
    return max(reversed(reported), key=lambda each: (each[0], len(each[1])), default=(None, ()))  # the newest of equals


rings = some.tuples(some.integers(0, 3), some.integers(0, 8), some.sets(some.integers(1, 9), max_size=3))
"""How far a position is behind the one before, how many records it remembers, and which of them it does not."""


@given(some.lists(rings, max_size=6), some.integers(0, 12))
@settings(max_examples=tries(500))
def test_a_want_is_the_same_where_only_the_batches_looked_into_are_read(
    tracked: list[tuple[int, int, set[int]]], offset: int
) -> None:
    rows, end = [], 0
    for batch, (step, length, missing) in enumerate(tracked):
        end += step
        rows.append(row(batch, end, [n for n in range(max(0, end - length), end) if end - n not in missing][-LIMIT:]))
    batches = batches_looked_into(counted(rows), {"s": {"t": {"0": offset}}})
    read = [row for row in rows if row.batch in batches]
    found = want(offset, with_rings(counted(rows), batches, read))
    assert found == want(offset, rows)
    assert (found.ring_offset, found.ring) == longest_of_the_nearest(rows, offset)


def test_one_batch_is_read_where_its_ring_is_full_and_ends_at_the_position() -> None:
    rows = [row(batch, 300 + batch, range(batch + 300 - LIMIT, 300 + batch)) for batch in range(12)]
    assert batches_looked_into(counted(rows), {"s": {"t": {"0": 307}}}) == {7}
    assert batches_looked_into(counted(rows), {"s": {"t": {"0": 311}}}) == {11}
    assert batches_looked_into(counted(rows), {"s": {"t": {"1": 311}}}) == frozenset()


def test_a_batch_that_was_dropped_between_two_reads_remembers_nothing() -> None:
    rows = [row(7, 20, range(10, 20))]
    assert want(20, with_rings(counted(rows), {7}, [])).ring == ()
