"""The JSON shapes of a timeline: what a query had read at a time, at each step, and from where to where it read."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from orchestrator.decide.times import instant
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch

Row = dict[str, object]
Wanted = Callable[[SourcePartition], bool]


def standing(stretch: Stretch, at_ms: int, wanted: Wanted) -> list[Row]:
    """One row a partition: the last step that is not after a time."""
    steps = stretch.steps()
    moment = steps.at(at_ms)
    return [] if moment is None else list(_rows(stretch, steps.lanes, moment, wanted))


def steps(stretch: Stretch, wanted: Wanted) -> Iterator[Row]:
    """One row a partition and step, in the order of time."""
    steps = stretch.steps()
    for moment in steps.moments:
        yield from _rows(stretch, steps.lanes, moment, wanted)


def _rows(stretch: Stretch, lanes: Iterable[SourcePartition], moment: Moment, wanted: Wanted) -> Iterator[Row]:
    columns = (lanes, moment.offsets, moment.timestamps, moment.disorders)
    for lane, offset, timestamp_ms, disorder_ms in zip(*columns, strict=True):
        if not wanted(lane):
            continue
        known = timestamp_ms != NO_TIME
        yield {
            **_place(stretch, lane),
            "at": instant(moment.at_ms),
            "offset": offset,
            "timestamp_ms": timestamp_ms if known else None,
            "disorder_ms": disorder_ms if known else None,
        }


def _place(stretch: Stretch, lane: SourcePartition) -> Row:
    return {**lane._asdict(), "epoch": stretch.epoch, "cluster": stretch.cluster}


@dataclass
class _Span:
    """From where to where a partition was read under one epoch."""

    since_ms: int
    first_offset: int
    until_ms: int = 0
    steps: int = 0
    offset: int = 0
    timestamp_ms: int | None = None
    disorder_ms: int | None = None

    def grow(self, at_ms: int, offset: int, timestamp_ms: int, disorder_ms: int) -> None:
        """Add a step. The disorder is the largest distance from the largest time so far back to a later record's."""
        self.until_ms, self.offset, self.steps = at_ms, offset, self.steps + 1
        if timestamp_ms != NO_TIME:
            self.timestamp_ms = max(timestamp_ms, self.timestamp_ms or 0)
            self.disorder_ms = max(self.disorder_ms or 0, self.timestamp_ms - timestamp_ms + disorder_ms)

    def row(self) -> Row:
        times = {"since": instant(self.since_ms), "until": instant(self.until_ms), "steps": self.steps}
        offsets = {"first_offset": self.first_offset, "offset": self.offset}
        return {**times, **offsets, "timestamp_ms": self.timestamp_ms, "disorder_ms": self.disorder_ms}


def spans(stretches: Iterable[Stretch], wanted: Wanted) -> list[Row]:
    """One row a partition of each epoch."""
    places: dict[tuple[int, str, SourcePartition], Row] = {}
    found: dict[tuple[int, str, SourcePartition], _Span] = {}
    for stretch in stretches:
        lanes, moments = stretch.steps()
        for index, lane in enumerate(lanes):
            if wanted(lane):
                key = (stretch.epoch, stretch.cluster, lane)
                places[key] = _place(stretch, lane)
                span = found.setdefault(key, _Span(moments[0].at_ms, moments[0].offsets[index]))
                for at_ms, offsets, timestamps, disorders in moments:
                    span.grow(at_ms, offsets[index], timestamps[index], disorders[index])
    return [places[key] | span.row() for key, span in found.items()]
