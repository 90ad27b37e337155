"""Times as an operator writes them: milliseconds since the epoch, ISO 8601 with a zone, or ``-15m`` before now."""

import re
from datetime import UTC, datetime

from state.settings import parse_duration

_MILLISECONDS = re.compile(r"\d{1,18}")


def parse_time(text: str, now: datetime) -> int:
    """Milliseconds since the epoch, not negative. Raises ``ValueError`` with a sentence."""
    text = text.strip()
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if text.startswith("-") and not text[1:].strip().replace(".", "", 1).isdigit():
        milliseconds = round((now - parse_duration(text[1:])).timestamp() * 1000)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{text!r} is not a time: write milliseconds since the epoch, ISO 8601 with a zone, or -15m"
            ) from None
        if moment.tzinfo is None:
            raise ValueError(f"{text!r} has no zone: add Z or an offset such as +02:00")
        milliseconds = round(moment.timestamp() * 1000)
    if milliseconds < 0:
        raise ValueError(f"{text!r} lies before 1970: Kafka knows no negative times")
    return milliseconds


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
