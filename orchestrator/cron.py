"""When a cron expression comes next in a time zone. Pure, and the seam of APScheduler's CronTrigger.

An expression has cron's five fields: minute, hour, day of the month, month, day of the week. APScheduler 3.11 reads it,
with three differences from cron that are mended or refused here: it counts days of the week from Monday, it wants both
days to match where cron wants one, and around the end of summer time its answers go back in time. So it is asked in
wall-clock time without a zone. A wall-clock time that comes twice counts the first time; one that is left out in spring
counts as much later as the clock was put forward.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.cron import CronTrigger

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_NUMBER = re.compile(r"(?<![/\w])\d+")
_FIELDS = 5
_MOST_TRIES = 10_000


def zone_of(name: str) -> tzinfo:
    """A time zone by its IANA name; UTC is known on hosts without a data base of zones, too. Raises ``ValueError``."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name!r} is not a time zone: write UTC, or a name such as Europe/Zurich") from None


def next_time(cron: str, zone: str, after: datetime) -> datetime | None:
    """The first time behind ``after``, in UTC; None when there is none. Raises ``ValueError`` with a sentence."""
    trigger, place = _trigger(cron), zone_of(zone)
    wall = after.astimezone(place).replace(tzinfo=UTC, fold=0)
    for _ in range(_MOST_TRIES):
        found: datetime | None = trigger.get_next_fire_time(None, wall)
        if found is None:
            return None
        due = found.replace(tzinfo=place, fold=0).astimezone(UTC)
        if due > after:
            return due
        wall = found + timedelta(microseconds=1)
    return None


def _trigger(cron: str) -> CronTrigger:
    fields = cron.split()
    if len(fields) != _FIELDS:
        raise ValueError(
            f"{cron!r} has {len(fields)} fields, and cron has five: minute, hour, day of the month, month, day of the "
            "week; 0 3 * * 1 is each Monday at 03:00"
        )
    if fields[2] != "*" and fields[4] != "*":
        raise ValueError(f"{cron!r} names a day of the month and a day of the week: leave one of them *")
    fields[4] = _DAY_NUMBER.sub(_day, fields[4])
    try:
        return CronTrigger.from_crontab(" ".join(fields), timezone=UTC)
    except ValueError as error:
        raise ValueError(f"{cron!r} is no cron expression: {error}") from None


def _day(number: re.Match[str]) -> str:
    if int(number[0]) >= len(_DAYS):
        raise ValueError(f"there is no day {number[0]} of the week: 0 and 7 are Sunday")
    return _DAYS[int(number[0])]
