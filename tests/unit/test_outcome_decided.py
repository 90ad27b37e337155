"""What a move's forecast came to, by the records alone: however the log was read, and whatever lies in it."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.outcome import (
    MARGIN,
    followed_json,
    outcome_rows,
    to_compare,
    to_read,
    with_compared,
    with_read,
)
from orchestrator.decide.reread import Key
from state.model import Fingerprint
from streaming.log import LogRecord
from tests.contract import samples
from tests.unit.test_gates import NOW, place

KEY = Key("s", "t", 0)
READ = 40
"""So many records were read on the old cluster; the last 32 of them are remembered."""


def digest(number: int) -> bytes:
    return number.to_bytes(16, "big")


def plan(forecast: int, *, later: int = 0, after_last: int = 0, target_offset: int = 100) -> dict[str, object]:
    ring = tuple(Fingerprint(number, number, digest(number)) for number in range(READ - 32, READ))
    target = place(
        target_offset=target_offset, replay_records=forecast, exposure_records=3, last=ring,
        later=ring[len(ring) - later :], after_last=after_last,
    )  # fmt: skip
    row = {
        "source": "s", "topic": "t", "partition": 0, "target_topic": "t", "target_partition": 0, "end": 150,
        "replay_records": forecast, "exposure_records": 3,
    }  # fmt: skip
    return {"partitions": [row], "followed": followed_json([target], NOW)}


def log(numbers: Sequence[int]) -> list[LogRecord]:
    return [
        LogRecord(offset=100 + at, timestamp_ms=number, digest=digest(number), append_time=False, leader_epoch=0)
        for at, number in enumerate(numbers)
    ]


def looked(known: dict[str, object], records: Sequence[LogRecord], pieces: Sequence[int]) -> dict[str, object]:
    """Look in pieces: each time the query has read so many offsets more."""
    reached = 100
    for piece in pieces:
        reached += piece
        ranges = to_read(known, {"s": {"t": {"0": reached}}}, most=64)
        for key, (first, last) in ranges.items():
            known = with_read(known, {key: (last, [each for each in records if first <= each.offset < last])})
    return known


def replayed(known: dict[str, object]) -> object:
    operation = samples.operation(plan=known, outcome="done")
    return outcome_rows(operation)[0]["replay_records"]


@given(st.integers(0, READ), st.integers(0, 30), st.lists(st.integers(1, 30), min_size=1))
def test_what_is_read_again_is_counted_however_it_was_looked_at(replay: int, new: int, pieces: Sequence[int]) -> None:
    records = log([*range(READ - replay, READ), *range(1000, 1000 + new)])
    known = looked(plan(replay), records, [*pieces, *[64] * 8])
    expected = replay if records else None
    assert replayed(known) == expected


@given(st.integers(1, READ), st.lists(st.integers(1, 30)))
def test_a_count_never_says_more_than_was_read_by_then(replay: int, pieces: Sequence[int]) -> None:
    known = looked(plan(replay), log([*range(READ - replay, READ), *range(1000, 1300)]), pieces)
    found = replayed(known)
    assert found is None or (isinstance(found, int) and 0 < found <= min(replay, sum(pieces)))


def test_a_forecast_that_is_too_small_shows_and_looking_has_an_end() -> None:
    records = log([*range(READ - 9, READ), *range(1000, 2000)])
    known = looked(plan(2), records, [64] * 40)
    assert replayed(known) == 9
    assert to_read(known, {"s": {"t": {"0": 10_000}}}, most=64) == {}
    assert known["followed"]["partitions"][0]["offset"] == 100 + 2 + MARGIN  # type: ignore[index]


def test_without_any_known_record_a_forecast_of_none_is_confirmed_and_another_is_not() -> None:
    assert replayed(looked(plan(0), log(range(1000, 1100)), [64])) == 0
    assert replayed(looked(plan(7), log(range(1000, 1100)), [64])) is None


def test_what_was_read_behind_the_last_record_that_is_remembered_is_counted_with_it() -> None:
    records = log([*range(READ - 2, READ + 3), *range(1000, 1100)])
    assert replayed(looked(plan(5, after_last=3), records, [64])) == 5
    assert replayed(looked(plan(5, after_last=3), records[:3], [3])) == 3, "no more than was read by then"


def test_records_that_are_announced_to_come_later_are_no_replay_of_the_place() -> None:
    assert replayed(looked(plan(0, later=4), log(range(READ - 4, READ)), [64])) == 0


def test_the_old_cluster_is_asked_until_it_tells_something() -> None:
    known = plan(0)
    at, left = to_compare(known)
    assert (at, left[0].key, left[0].end) == (round(NOW.timestamp() * 1000), KEY, 150)
    known = with_compared(known, {KEY: None})
    assert to_compare(known)[1]
    known = with_compared(known, {KEY: 5})
    assert to_compare(known)[1] == []
    assert outcome_rows(samples.operation(plan=known, outcome="done"))[0]["exposure_records"] == 5
