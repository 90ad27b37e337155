"""Times as operators write them."""

from datetime import UTC, datetime

import pytest

from orchestrator.decide.times import instant, iso, parse_time

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW_MS = 1769860800000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("1769860800000", NOW_MS),
        ("2026-01-31T12:00:00Z", NOW_MS),
        ("2026-01-31T14:00:00+02:00", NOW_MS),
        ("2026-01-31T12:00:00.250Z", NOW_MS + 250),
        ("-15m", NOW_MS - 900_000),
        ("-500ms", NOW_MS - 500),
        ("-1.5h", NOW_MS - 5_400_000),
    ],
)
def test_a_time_is_milliseconds_iso_with_a_zone_or_some_time_ago(text: str, milliseconds: int) -> None:
    assert parse_time(text, NOW) == milliseconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01-31T12:00:00", "has no zone"),
        ("2026-01-31", "has no zone"),
        ("yesterday", "is not a time"),
        ("", "is not a time"),
        ("-1", "is not a time"),
        ("-5", "is not a time"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("-40000d", "before 1970"),
        ("-15 parsec", "is not a duration"),
        ("-99999999999999d", "too long for a duration"),
        ("-999999d", "before 1970"),
        ("1769860800000000", "after the year 9999: are these microseconds"),
        ("9" * 5000, "after the year 9999"),
        ("9999-12-31T23:59:59-23:59", "after the year 9999"),
    ],
)
def test_an_unreadable_time_is_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_time(text, NOW)


def test_times_are_shown_in_utc_with_milliseconds() -> None:
    assert instant(NOW_MS + 7) == "2026-01-31T12:00:00.007Z"
    assert iso(NOW) == "2026-01-31T12:00:00.000Z"
    assert instant(None) is iso(None) is None
