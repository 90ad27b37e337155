"""When a schedule is due: cron's own reading, time zones, and what came too late."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.schedules import GRACE, Due, due, next_time
from state.model.automation import Schedule
from state.model.entities import OperationKind

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)  # a Monday


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        ("0 3 * * *", "UTC", NOW, "2026-11-24T03:00+00:00"),
        ("0 3 * * *", "Europe/Zurich", NOW, "2026-11-24T02:00+00:00"),
        ("*/15 * * * *", "UTC", NOW, "2026-11-23T12:15+00:00"),
        ("0 3 * * 1", "UTC", NOW, "2026-11-30T03:00+00:00"),
        ("0 3 * * 0", "UTC", NOW, "2026-11-29T03:00+00:00"),
        ("0 3 * * 7", "UTC", NOW, "2026-11-29T03:00+00:00"),
        ("0 3 * * sun", "UTC", NOW, "2026-11-29T03:00+00:00"),
        ("0 3 * * 2-5", "UTC", NOW, "2026-11-24T03:00+00:00"),
        ("0 3 * * */2", "UTC", NOW, "2026-11-25T03:00+00:00"),
        ("0 3 1 * *", "UTC", NOW, "2026-12-01T03:00+00:00"),
        ("0 3 30 2 *", "UTC", NOW, None),
    ],
)
def test_a_cron_expression_means_what_cron_makes_of_it(
    cron: str, zone: str, after: datetime, expected: str | None
) -> None:
    assert next_time(cron, zone, after) == (None if expected is None else at(expected))


@pytest.mark.parametrize(
    ("cron", "zone", "sentence"),
    [
        ("0 3 * *", "UTC", "has 4 fields, and cron has five"),
        ("0 25 * * *", "UTC", "is not a cron expression"),
        ("0 3 1 * 1", "UTC", "leave one of them"),
        ("0 3 * * 8", "UTC", "no day 8 of the week"),
        ("0 3 * * *", "Mars/Olympus", "is not a time zone"),
        ("0 3 * * *", "", "is not a time zone"),
    ],
)
def test_a_wrong_schedule_is_refused_with_a_sentence(cron: str, zone: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        next_time(cron, zone, NOW)


def times(cron: str, zone: str, after: str, count: int) -> list[str]:
    found, last = [], at(after)
    for _ in range(count):
        following = next_time(cron, zone, last)
        assert following is not None
        found.append(following.isoformat(timespec="minutes"))
        last = following
    return found


def test_a_time_that_comes_twice_in_autumn_counts_once() -> None:
    assert times("30 2 * * *", "Europe/Zurich", "2026-10-24T12:00+00:00", 3) == [
        "2026-10-25T00:30+00:00", "2026-10-26T01:30+00:00", "2026-10-27T01:30+00:00",
    ]  # fmt: skip


def test_a_time_that_is_left_out_in_spring_comes_an_hour_later() -> None:
    assert times("30 2 * * *", "Europe/Zurich", "2026-03-28T12:00+00:00", 2) == [
        "2026-03-29T01:30+00:00", "2026-03-30T00:30+00:00",
    ]  # fmt: skip


@given(
    st.sampled_from(["30 2 * * *", "*/20 * * * *", "0 * * * *", "15 3 * * 0"]),
    st.sampled_from(["UTC", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe"]),
    st.datetimes(min_value=datetime(2026, 1, 1), max_value=datetime(2027, 12, 31)),  # noqa: DTZ001 # made aware below
)
def test_the_next_time_is_always_later(cron: str, zone: str, after: datetime) -> None:
    requested = after.replace(tzinfo=UTC)
    found = next_time(cron, zone, requested)
    assert found is not None
    assert requested < found <= requested + timedelta(days=8)


def schedule(kind: OperationKind = OperationKind.SWITCHOVER, cron: str | None = None) -> Schedule:
    return Schedule(
        id="s1", kind=kind, queries=("q",), target="west", cron=cron, zone="UTC", consents=(), actor="ann",
        reason="maintenance", created_at=NOW, next_at=NOW,
    )  # fmt: skip


def what_is_done(kind: OperationKind, now: datetime, cron: str | None = None) -> Due | None:
    return due(schedule(kind, cron), now, next_time(cron, "UTC", now) if cron else None)


def test_nothing_is_done_before_its_time() -> None:
    assert what_is_done(OperationKind.SWITCHOVER, NOW - timedelta(seconds=1)) is None


def test_a_schedule_that_comes_once_is_over_after_its_request() -> None:
    found = what_is_done(OperationKind.SWITCHOVER, NOW)
    assert found is not None
    assert (found.is_due, found.next_at) == (True, None)


@pytest.mark.parametrize("kind", [OperationKind.SWITCHOVER, OperationKind.DRILL])
def test_a_move_that_did_not_begin_in_time_is_missed_not_done_late(kind: OperationKind) -> None:
    grace = GRACE[kind]
    intime, late = (what_is_done(kind, NOW + times * grace, "0 12 * * *") for times in (1, 2))
    assert intime is not None
    assert late is not None
    assert (intime.is_due, late.is_due) == (True, False)
    assert f"{kind.value} missed: no controller led for {2 * grace.total_seconds() / 60:.0f} minutes" in late.text
    assert intime.next_at == late.next_at == NOW + timedelta(days=1)


def test_many_missed_times_are_made_up_for_by_one() -> None:
    found = what_is_done(OperationKind.DRILL, NOW + timedelta(minutes=35), "*/10 * * * *")
    assert found is not None
    assert (found.is_due, found.next_at) == (True, NOW + timedelta(minutes=40))
