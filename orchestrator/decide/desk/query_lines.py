"""One query as the page shows it: its partitions, the worst first, and the plots of its standby. Pure.

The plots show what checks measured over the last hours, as lines in a box. A line breaks where a minute was missed five
times, where nothing could be measured, and where the query moved. What lies before a move is the age of other copies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.decide.desk.status import SAMPLE_VALID, QueryStatus
from state.model.entities import EndSample, TopicPartition
from state.model.maintenance import PartitionCopy, ReplicationSample, StandbySample

WIDTH, HEIGHT = 600, 120
"""Of the box that the lines are drawn in."""
SHORTEST = timedelta(minutes=10)
_STEPS = (1.0, 2.0, 5.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionLine:
    """One partition of the cluster that the query reads; None where something is not known."""

    topic: str
    partition: int
    offset: int | None
    """Next offset to read."""
    end: int | None
    """Of the log, as sampled last."""
    lag: int | None
    """Records between the two."""
    age_seconds: float | None
    """Of the copy on the standby."""
    missing: int | None
    """Records that the standby lacks."""
    note: str


def partition_lines(
    query: QueryStatus, ends: Mapping[TopicPartition, EndSample], sample: ReplicationSample | None
) -> list[PartitionLine]:
    """All that are read or copied. The worst lacks the most on the standby, then has the oldest copy, then lags most.

    ``ends`` are those of the cluster that the query is on, and count only for a report from there.
    """
    report = query.report
    is_here = report is not None and report.cluster == query.cluster
    offsets = {
        TopicPartition(topic, int(partition)): offset
        for by_topic in ((report.offsets or {}) if report is not None and is_here else {}).values()
        for topic, by_partition in by_topic.items()
        for partition, offset in by_partition.items()
    }
    is_same = sample is not None and sample.source == query.cluster
    copies = {
        TopicPartition(each.topic, each.partition): each for each in (sample.copies if sample and is_same else ())
    }
    lines = [_line(key, offsets.get(key), ends.get(key), copies.get(key)) for key in sorted({*offsets, *copies})]
    return sorted(lines, key=_severity, reverse=True)


def _line(key: TopicPartition, offset: int | None, end: EndSample | None, copy: PartitionCopy | None) -> PartitionLine:
    return PartitionLine(
        topic=key.topic,
        partition=key.partition,
        offset=offset,
        end=None if end is None else end.end,
        lag=None if end is None or offset is None else max(0, end.end - offset),
        age_seconds=None if copy is None or copy.age_ms is None else copy.age_ms / 1000,
        missing=None if copy is None else copy.records,
        note="" if copy is None else copy.note,
    )


def _severity(line: PartitionLine) -> tuple[bool, float, int, int]:
    """What lacks its copy altogether has no age, and says so in its note."""
    return bool(line.note and line.missing), line.age_seconds or 0.0, line.missing or 0, line.lag or 0


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
        lines=tuple(tuple(point(*each) for each in piece) for piece in pieces(samples, map(pick, samples), _is_apart)),
        limit_y=None if limit is None or limit > top else _down(limit, top),
    )


def pieces(
    samples: Iterable[StandbySample],
    values: Iterable[float | None],
    is_apart: Callable[[StandbySample, StandbySample], bool],
) -> Iterator[list[tuple[StandbySample, float]]]:
    """Samples that one line joins, each with its value; it breaks where a value is None and between two apart."""
    piece: list[tuple[StandbySample, float]] = []
    for each, value in zip(samples, values, strict=True):
        if piece and (value is None or is_apart(piece[-1][0], each)):
            yield piece
            piece = []
        if value is not None:
            piece.append((each, value))
    if piece:
        yield piece


def _is_apart(one: StandbySample, other: StandbySample) -> bool:
    moved = (one.source, one.target) != (other.source, other.target)
    return moved or is_gap(one, other)


def is_gap(one: StandbySample, other: StandbySample) -> bool:
    """Whether a minute was missed five times between two samples."""
    return other.sampled_at - one.sampled_at > SAMPLE_VALID + timedelta(seconds=1)


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
