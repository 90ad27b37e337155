"""How much a query read in each minute of the last hour, and how far it lagged: two lines, no larger than a word. Pure.

Runners report how many records a run has read since it started, as Spark counts them (``numInputRows``). Each sample
keeps that number, so two samples of one run give the records per second between them. A line breaks where this is not
known: where a run began, where its runner reported nothing new, and where no sample was taken for five minutes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from orchestrator.decide.desk.query_lines import is_gap, pieces
from orchestrator.decide.desk.status import SAMPLE_VALID, lag_of
from state.model.entities import Assignment, EndSample, QueryFact, TopicPartition
from state.model.maintenance import StandbySample

WIDTH, HEIGHT = 60, 16
"""Of the box that the lines are drawn in: one step to the right is a minute."""
TREND_SPAN = timedelta(hours=1)


def with_flow(
    sample: StandbySample,
    assignment: Assignment | None,
    fact: QueryFact | None,
    ends: Mapping[TopicPartition, EndSample],
) -> StandbySample:
    """A sample with what the query's runner last reported of its reading.

    ``ends`` are those of the cluster where the query is. Reports and ends that are older than five minutes show
    nothing of now, nor does the report of another run than the assigned one.
    """
    if assignment is None or fact is None or fact.epoch != assignment.epoch:
        return sample
    if sample.sampled_at - fact.reported_at > SAMPLE_VALID:
        return sample
    fresh = {each: end for each, end in ends.items() if sample.sampled_at - end.sampled_at <= SAMPLE_VALID}
    return replace(
        sample,
        run_id=fact.run_id,
        read_records=fact.input_rows,
        read_at=fact.reported_at,
        lag_records=lag_of(assignment, fact, {fact.cluster: fresh}),
    )


def rates_of(samples: Sequence[StandbySample]) -> list[float | None]:
    """Records per second up to each sample, the oldest first; None where that is unknown, as for the first."""
    return [None, *(_rate(one, other) for one, other in pairwise(samples))] if samples else []


def _rate(one: StandbySample, other: StandbySample) -> float | None:
    if one.run_id is None or one.run_id != other.run_id or is_gap(one, other):
        return None
    if one.read_records is None or other.read_records is None or one.read_at is None or other.read_at is None:
        return None
    seconds, records = (other.read_at - one.read_at).total_seconds(), other.read_records - one.read_records
    return records / seconds if seconds > 0 and records >= 0 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrendLine:
    """One number over the last hour."""

    newest: float | None
    """None where the newest sample does not have it, or is too old to speak of now."""
    highest: float
    path: str
    """As SVG draws it; the upper edge of the box is ``highest``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """Both numbers; None where no sample of the last hour has it."""

    read: TrendLine | None
    """Records per second."""
    lag: TrendLine | None
    """Records."""
    text: str
    """Both in words, or that there is no history."""

    @property
    def rate(self) -> str:
        """The newest throughput, or ``unknown``."""
        return _newest(self.read, "/s")


NO_TREND = Trend(read=None, lag=None, text="no history yet")


def trend_of(samples: Sequence[StandbySample], now: datetime) -> Trend:
    """What the samples of one query show of the hour before ``now``; the oldest sample is the first."""
    kept = [each for each in samples if now - TREND_SPAN <= each.sampled_at <= now]
    if not kept:
        return NO_TREND
    read = _line(kept, rates_of(kept), now)
    lag = _line(kept, [each.lag_records for each in kept], now)
    return Trend(read=read, lag=lag, text=f"{_words('throughput', read, '/s')}; {_words('lag', lag, '')}")


def _line(samples: Sequence[StandbySample], values: Sequence[float | None], now: datetime) -> TrendLine | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    highest = max(known)
    drawn = [
        [(_along(each, now), _down(value, highest)) for each, value in piece]
        for piece in pieces(samples, values, is_gap)
    ]
    return TrendLine(
        newest=values[-1] if now - samples[-1].sampled_at <= SAMPLE_VALID else None,
        highest=highest,
        path="".join(map(_drawn, drawn)),
    )


def _along(each: StandbySample, now: datetime) -> int:
    return WIDTH - round((now - each.sampled_at) / TREND_SPAN * WIDTH)


def _down(value: float, highest: float) -> int:
    """From the upper edge; a line of zeros is at the lower one."""
    return round(HEIGHT * (1 - value / highest)) if highest else HEIGHT


def _drawn(points: Sequence[tuple[int, int]]) -> str:
    """A piece of one point is a dash of one minute, which would else be invisible."""
    path = "L".join(f"{x} {y}" for x, y in points)
    return f"M{path}" + ("h-1" if len(points) == 1 else "")


def _words(name: str, line: TrendLine | None, unit: str) -> str:
    if line is None:
        return f"{name} unknown"
    return f"{name} {_newest(line, unit)}, at most {_number(line.highest)}{unit}"


def _newest(line: TrendLine | None, unit: str) -> str:
    return "unknown" if line is None or line.newest is None else f"{_number(line.newest)}{unit}"


def _number(value: float) -> str:
    """Whole, but with a tenth where a small number would be rounded to nothing."""
    return f"{value:.1f}" if 0 < value < 10 and value != int(value) else f"{round(value):,}"
