"""The plots of one query: what checks measured of its standby over the last hours, as lines in a box. Pure.

A line breaks where a minute was missed five times, where nothing could be measured, and where the query moved: what
lies before a move is the age of other copies.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.status import SAMPLE_STANDS
from state.model.maintenance import StandbySample

WIDTH, HEIGHT = 600, 120
"""Of the box that the lines are drawn in."""
SHORTEST = timedelta(minutes=10)
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """One number over time."""

    key: str
    """Its name in what programs get."""
    title: str
    limit: float | None
    """In seconds, where a gate has one."""
    newest: float | None
    highest: float | None
    highest_at: datetime | None
    top: float
    """What the upper edge of the box is, in seconds."""
    lines: tuple[tuple[tuple[float, float], ...], ...]
    """Points in the box, from its upper left corner."""
    limit_y: float | None
    """Where the limit is, if that is in the box."""


def plotted_from(samples: Sequence[StandbySample], now: datetime, longest: timedelta) -> datetime:
    """Where the plots begin: with the first sample of so long a while, but ten minutes ago at the latest."""
    return min([now - SHORTEST, *(max(now - longest, each.sampled_at) for each in samples[:1])])


def plots_of(samples: Sequence[StandbySample], begin: datetime, end: datetime, limit: float) -> tuple[Plot, ...]:
    """Exposure and age of the oldest copy between two times; ``samples`` are of one query, the oldest first."""
    return (
        _plot("exposure_seconds", "Exposure", samples, lambda each: each.exposure_seconds, begin, end, limit),
        _plot("copy_age_seconds", "Oldest copy", samples, lambda each: each.copy_age_seconds, begin, end, None),
    )


def _plot(
    key: str,
    title: str,
    samples: Sequence[StandbySample],
    pick: Callable[[StandbySample], float | None],
    begin: datetime,
    end: datetime,
    limit: float | None,
) -> Plot:
    known = [(value, each.sampled_at) for each in samples if (value := pick(each)) is not None]
    highest, at = max(known, default=(None, None))
    top = _rounded_up(highest or 0.0)

    def point(each: StandbySample, value: float) -> tuple[float, float]:
        along = (each.sampled_at - begin) / (end - begin)
        return round(WIDTH * min(1.0, max(0.0, along)), 1), _down(value, top)

    return Plot(
        key=key,
        title=title,
        limit=limit,
        newest=pick(samples[-1]) if samples else None,
        highest=highest,
        highest_at=at,
        top=top,
        lines=tuple(tuple(point(*each) for each in piece) for piece in _pieces(samples, pick)),
        limit_y=None if limit is None or limit > top else _down(limit, top),
    )


def _pieces(
    samples: Sequence[StandbySample], pick: Callable[[StandbySample], float | None]
) -> Iterator[list[tuple[StandbySample, float]]]:
    piece: list[tuple[StandbySample, float]] = []
    for each in samples:
        value = pick(each)
        if piece and (value is None or _is_apart(piece[-1][0], each)):
            yield piece
            piece = []
        if value is not None:
            piece.append((each, value))
    if piece:
        yield piece


def _is_apart(one: StandbySample, other: StandbySample) -> bool:
    moved = (one.source, one.target) != (other.source, other.target)
    return moved or other.sampled_at - one.sampled_at > SAMPLE_STANDS + timedelta(seconds=1)


def _down(value: float, top: float) -> float:
    return round(HEIGHT * (1 - value / top), 1)


def _rounded_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20 and so on; one second at least."""
    size = 1.0
    while True:
        for step in _STEPS:
            if value <= step * size:
                return step * size
        size *= 10
