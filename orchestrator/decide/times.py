"""Times as an operator writes them: milliseconds since the epoch, ISO 8601 with a zone, or ``-15m`` before now."""

import re
from datetime import UTC, datetime, timedelta

from state.settings.values import parse_duration

_AHEAD = re.compile(r"\+?\s*(\d+(?:\.\d+)?\s*(?:ms|s|m|h|d))")
_MILLISECONDS = re.compile(r"\d+", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, which is as far as a time can be written out."""


def parse_time(text: str, now: datetime) -> int:
    """Milliseconds since the epoch, not negative. Raises ``ValueError`` with a sentence."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        milliseconds = int(text) if len(text) <= len(str(_LAST_MS)) else _LAST_MS + 1
    elif text.startswith("-") and not text[1:].strip().replace(".", "", 1).isdigit():
        before = parse_duration(text[1:])
        milliseconds = round((now - before).timestamp() * 1000) if before < now - _EPOCH else -1
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is not a time: write milliseconds since the epoch (not negative), ISO 8601 with a zone, "
                "or -15m"
            ) from None
        if moment.tzinfo is None:
            raise ValueError(f"{text!r} has no zone: add Z or an offset such as +02:00")
        milliseconds = round(moment.timestamp() * 1000)
    if milliseconds > _LAST_MS:
        raise ValueError(f"{text!r} is after the year 9999: are these microseconds instead of milliseconds?")
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970: Kafka has no negative timestamps")
    return milliseconds


def parse_end(text: str, now: datetime) -> datetime:
    """A time to come: as ``parse_time`` reads it, or ``2h`` from now. Raises ``ValueError`` with a sentence."""
    ahead = _AHEAD.fullmatch(text.strip())
    try:
        end = now + parse_duration(ahead[1]) if ahead else datetime.fromtimestamp(parse_time(text, now) / 1000, UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is too far in the future") from None
    if end <= now:
        raise ValueError(f"{text!r} is in the past: give a future time, such as 2h or 2030-01-31T18:00:00Z")
    return end


def instant(timestamp_ms: int | None) -> str | None:
    """ISO 8601 in UTC with milliseconds."""
    if timestamp_ms is None:
        return None
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC with milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def age(passed: timedelta) -> str:
    """A length of time in its largest unit, for a column: ``9m``."""
    seconds = max(0, int(passed.total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def length(passed: timedelta) -> str:
    """A length of time in its two largest units."""
    seconds = max(0, int(passed.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    for size, unit, smaller, smaller_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // smaller} {smaller_unit}"
    raise AssertionError("a minute is the smallest of these")
