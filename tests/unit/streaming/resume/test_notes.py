"""Why no record lies at or after a time: each cause has its own sentence."""

from datetime import UTC, datetime
from typing import Any

import pytest

from streaming.resume import notes
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.standby_lookup import StandbyLookup

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def looked_up(**changes: Any) -> StandbyLookup:
    """A standby of 40 records that holds nothing as new as the time that is looked up."""
    facts: dict[str, Any] = {
        "begin": 0, "end": 40, "log_end": 40, "by_time": None, "newest_ms": None, "earliest_ms": None,
        "append_time": False, "alignment": NoPlace(Cause.NOT_REMEMBERED),
    }  # fmt: skip
    return StandbyLookup(**{**facts, **changes})


@pytest.mark.parametrize(
    ("later_ms", "facts", "idle", "text"),
    [
        (0, looked_up(), False, "the standby lags: no record since 2026-01-01"),
        (1, looked_up(), False, "is in the future"),
        (0, looked_up(end=39), True, notes.OPEN_TRANSACTION),
        (0, looked_up(begin=40), True, "the standby's partition is empty"),
        (0, looked_up(begin=39), True, "idle partition: nothing since 2026-01-01"),
        (0, looked_up(alignment=Found(40)), True, "idle partition: nothing since 2026-01-01"),
        (0, looked_up(alignment=Found(40, missing=1)), True, "the standby lags"),
        (0, looked_up(alignment=Found(40, missing=None)), True, "the standby lags"),
        (0, looked_up(newest_ms=NOW_MS - 5_000), None, "its newest is of 2025-12-31T23:59:55"),
    ],
)
def test_a_time_without_a_record_has_the_sentence_of_its_cause(
    later_ms: int, facts: StandbyLookup, idle: bool | None, text: str
) -> None:
    assert text in notes.no_match(NOW_MS + later_ms, facts, NOW, idle=idle)
