"""What a move's forecast came to, by the records alone: however the log was read, and whatever lies in it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.move.forecast import MARGIN, MOST_FOLLOWED, followed_of
from orchestrator.decide.move.left_behind import Exposed, to_compare, with_compared
from orchestrator.decide.move.outcome import outcome_rows, to_read, totals_of, with_read
from state.model.entities import Fingerprint
from state.model.measured import Measured
from state.model.plan import Plan, PlannedPartition, StandbyPartition
from streaming.cluster_log import LogRecord
from streaming.resume.model import Target
from tests.contract import samples
from tests.contract.samples import place
from tests.unit.orchestrator.decide.gates.test_checks import NOW

KEY = StandbyPartition("s", "t", 0)
READ = 40
"""So many records were read on the old cluster; the last 32 of them are remembered."""


def digest(number: int) -> bytes:
    return number.to_bytes(16, "big")


def target_of(forecast: int, *, later: int = 0, after_last: int = 0) -> Target:
    ring = tuple(Fingerprint(number, number, digest(number)) for number in range(READ - 32, READ))
    return place(
        target_offset=100, replay_records=forecast, exposure_records=3, last=ring,
        later=ring[len(ring) - later :], after_last=after_last, end=150,
    )  # fmt: skip


def plan(forecast: int, *, later: int = 0, after_last: int = 0) -> Plan:
    target = target_of(forecast, later=later, after_last=after_last)
    row = PlannedPartition(
        source="s", topic="t", target_topic="t", end=150, replay_records=forecast, exposure_records=3
    )  # fmt: skip
    return Plan(partitions=(row,), followed=followed_of([target], NOW))


def with_row(known: Plan, **changes: Any) -> Plan:
    """The plan with changes to its partition."""
    return replace(known, partitions=(replace(known.partitions[0], **changes),))


def log(numbers: Sequence[int]) -> list[LogRecord]:
    return [
        LogRecord(offset=100 + at, timestamp_ms=number, digest=digest(number), append_time=False, leader_epoch=0)
        for at, number in enumerate(numbers)
    ]


def looked(known: Plan, records: Sequence[LogRecord], pieces: Sequence[int]) -> Plan:
    """Look in pieces: each time the query has read so many offsets more."""
    reached = 100
    for piece in pieces:
        reached += piece
        ranges = to_read(known, {"s": {"t": {"0": reached}}}, most=64)
        for key, (first, last) in ranges.items():
            known = with_read(known, {key: (last, [each for each in records if first <= each.offset < last])})
    return known


def replayed(known: Plan) -> int | None:
    operation = samples.operation(plan=known, outcome="done")
    return outcome_rows(operation)[0].replay_records


@given(st.integers(0, READ), st.integers(0, 30), st.lists(st.integers(1, 30), min_size=1))
def test_replayed_records_are_counted_in_whatever_pieces_they_are_read(
    replay: int, new: int, pieces: Sequence[int]
) -> None:
    records = log([*range(READ - replay, READ), *range(1000, 1000 + new)])
    assert replayed(looked(plan(replay), records, [*pieces, *[64] * 8])) == replay


@given(st.integers(1, READ), st.lists(st.integers(1, 30)))
def test_nothing_is_measured_until_the_query_has_read_what_was_there(replay: int, pieces: Sequence[int]) -> None:
    known = looked(plan(replay), log([*range(READ - replay, READ), *range(1000, 1300)]), pieces)
    assert replayed(known) == (replay if sum(pieces) >= 50 else None), "the standby held 50 records behind the place"


def test_a_forecast_that_is_too_small_shows_and_looking_has_an_end() -> None:
    records = log([*range(READ - 9, READ), *range(1000, 2000)])
    known = looked(plan(2), records, [64] * 40)
    assert replayed(known) == 9
    assert to_read(known, {"s": {"t": {"0": 10_000}}}, most=64) == {}
    assert known.followed is not None
    assert known.followed.partitions[0].offset == 150 + MARGIN


def test_without_known_records_only_a_forecast_of_none_is_confirmed() -> None:
    assert replayed(looked(plan(0), log(range(1000, 1100)), [64])) == 0
    assert replayed(looked(plan(7), log(range(1000, 1100)), [64])) is None


def test_records_read_behind_the_last_remembered_one_count_as_replayed() -> None:
    records = log([*range(READ - 2, READ + 3), *range(1000, 1100)])
    assert replayed(looked(plan(5, after_last=3), records, [64])) == 5
    assert replayed(looked(plan(5, after_last=3), records[:3], [50])) == 3, "no more than was there"


def test_records_that_were_never_read_are_not_counted_with_copies() -> None:
    records = log([*range(1000, 1020), *range(READ - 9, READ), *range(1000, 1010)])
    assert replayed(looked(plan(0), records, [64])) == 9


def test_a_copy_before_the_standbys_end_is_measured_despite_the_forecast() -> None:
    behind = [*range(1000, 1800), *range(READ)]
    end = 100 + len(behind)
    far = replace(with_row(plan(0), end=end), followed=followed_of([replace(target_of(0), end=end)], NOW))
    assert replayed(looked(far, log(behind), [len(behind) - 1] + [64] * 40)) == READ


def test_more_than_is_followed_is_not_measured() -> None:
    end = 100 + MOST_FOLLOWED + 1
    followed = followed_of([replace(target_of(0), end=end)], NOW)
    (row,) = followed.partitions
    assert row.until == 100 + MOST_FOLLOWED
    for offset, replay in ((end - 1, None), (end, 0)):
        looked_up_to = replace(followed, partitions=(replace(row, offset=offset),))
        assert replayed(replace(with_row(plan(0), end=end), followed=looked_up_to)) == replay


def test_with_nothing_read_or_nothing_behind_nothing_is_replayed() -> None:
    for target in (replace(target_of(0), last=(), offset=0), replace(target_of(0), end=100)):
        known = replace(plan(0), followed=followed_of([target], NOW))
        known = with_row(known, offset=target.offset, method="exact", end=target.end, target_offset=100)
        assert replayed(looked(known, log(range(1000, 1100)), [64])) == 0


def test_a_partition_without_known_records_is_measured_by_its_exposure_alone() -> None:
    unknown = replace(target_of(0), last=(), offset=0, method="timestamp")
    (row,) = followed_of([unknown], NOW).partitions
    assert (row.scattered, row.records, row.until) == (True, (), unknown.target_offset)
    for more in list[dict[str, Any]]([{"planned": True}, {"repartitioned": {unknown.target_topic}}]):
        assert followed_of([unknown], NOW, **more).partitions == (), "nothing is left behind, or no partition compares"


def test_a_total_is_not_known_as_long_as_one_partition_is_not() -> None:
    known = looked(plan(0), log(range(1000, 1100)), [64])
    operation = samples.operation(plan=known, outcome="done")
    assert totals_of(operation) == Measured(replay_records=0)
    known = replace(known, partitions=(*known.partitions, replace(known.partitions[0], target_partition=1)))
    assert totals_of(samples.operation(plan=known, outcome="done")).replay_records is None


def test_records_that_are_announced_to_come_later_are_no_replay_of_the_place() -> None:
    assert replayed(looked(plan(0, later=4), log(range(READ - 4, READ)), [64])) == 0


def test_the_old_cluster_is_read_until_it_answers() -> None:
    known = plan(0)
    at, left = to_compare(known)
    assert (at, left[0].key, left[0].end) == (round(NOW.timestamp() * 1000), KEY, 150)
    known = with_compared(known, {KEY: Exposed(None, 0, None)})
    assert to_compare(known)[1]
    known = with_compared(known, {KEY: Exposed(5, 120, 125)})
    known = with_compared(known, {KEY: Exposed(9, 120, 129)})
    assert to_compare(known)[1] == []
    assert outcome_rows(samples.operation(plan=known, outcome="done"))[0].exposure_records == 5
