"""Takes the steps of the timelines from what the tracker knows already, and gives them to the store.

A step is taken when the first look of a new minute (or whatever step is set) finds a run. It is one walk over its
partitions, once a minute and not once a batch. Only committed batches count, so a step never says more than was
consumed. The last step of a run is taken when it ends. The store is written at most once a minute for each query: what
a kill can take is the steps of that minute. Where the store is away, steps wait in memory, a day of them at minute
steps.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

from state.errors import StoreError
from state.model.fingerprints import Fingerprints, back
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch, precision_of
from state.settings.keys import Timeline
from state.store.runner_store import RunnerStore
from streaming.spark.hosting import Subject
from streaming.spark.tracking.track import TrackedPartition

FLUSH_SECONDS = 60.0
_RETRY_SECONDS = 10.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_MS = timedelta(hours=6) // _MILLISECOND
_MOST_MARKS = 1 << 17
"""Steps times partitions of one stretch: packing it, as each flush does, takes 0.1 to 0.2 s of one core."""
_WAITING = 48

TimelineOf = Callable[[str], Timeline]
"""The settings of a query's timeline."""


class TrackedRun(Protocol):
    """A run that knows how far it has come."""

    @property
    def subject(self) -> Subject: ...

    def consumed(self) -> Mapping[TrackedPartition, tuple[int, Fingerprints]]: ...


class _Key(NamedTuple):
    query: str
    epoch: int
    cluster: str


@dataclass(slots=True)
class _Growing:
    """The stretch of a query that steps are added to."""

    key: _Key
    settings: Timeline
    lanes: tuple[SourcePartition, ...]
    moments: list[Moment] = field(default_factory=list)
    unsaved: bool = False
    over: bool = False

    def takes(self, lanes: tuple[SourcePartition, ...], at_ms: int) -> bool:
        """Whether a step can be added: same partitions, no clock that went back, and neither too long nor too large."""
        first, last = self.moments[0].at_ms, self.moments[-1].at_ms
        marks = len(self.lanes) * (len(self.moments) + 1)
        return lanes == self.lanes and last <= at_ms < first + _LONGEST_MS and marks <= _MOST_MARKS

    def add(self, moment: Moment) -> None:
        """Add a step, in place of the last one where both belong to one minute; but the first stays, by which the
        stretch is known."""
        step_ms = self.settings.step // _MILLISECOND
        last = self.moments[-1].at_ms if self.moments else -1
        same_step = len(self.moments) > 1 and last // step_ms == moment.at_ms // step_ms
        if same_step or last == moment.at_ms:
            self.moments.pop()
        self.moments.append(moment)
        self.unsaved = True

    def stretch(self) -> Stretch:
        precision_ms = precision_of(self.settings.step)
        return Stretch.of(*self.key, self.lanes, self.moments, precision_ms=precision_ms)


class TimelineRecorder:
    """The timelines of what is read from one cluster; for one thread, which calls it often."""

    def __init__(self, store: RunnerStore, timeline_of: TimelineOf, now: Callable[[], datetime]) -> None:
        self._store = store
        self._timeline_of = timeline_of
        self._now = now
        self._growing: dict[_Key, _Growing] = {}
        self._slots: dict[_Key, int] = {}
        """The step, counted from the epoch, in which each was last looked at."""
        self._flush_at: dict[_Key, float] = {}
        self._waiting: list[tuple[_Key, Stretch, timedelta]] = []
        """Full ones that are not in the store."""
        self._retry_at = 0.0

    def record(self, runs: Iterable[TrackedRun], tick: float) -> None:
        """Take the steps that are due, then write what is; ``tick`` is the time in seconds on a monotonic clock."""
        for run in runs:
            key = _key(run)
            slot = (self._now() - _EPOCH) // self._timeline_of(key.query).step
            if self._slots.get(key) != slot and self._take(run):
                self._slots[key] = slot
        if tick >= self._retry_at:
            self._flush(tick)

    def end(self, run: TrackedRun) -> None:
        """A run is over: its last step is taken, and written when the query's next flush is due."""
        key = _key(run)
        self._take(run)
        self._slots.pop(key, None)
        if key in self._growing:
            self._growing[key].over = True

    def close(self, runs: Iterable[TrackedRun]) -> None:
        """Take the last step of each and write everything, if the store can be written."""
        for run in runs:
            self.end(run)
        self._flush_at.clear()
        self._flush(0.0)

    def _take(self, run: TrackedRun) -> bool:
        """Whether there was something to take."""
        consumed = run.consumed()
        if not consumed:
            return False
        key, settings = _key(run), self._timeline_of(run.subject.query)
        at_ms = _rounded_up((self._now() - _EPOCH) // _MILLISECOND, precision_of(settings.step))
        places = sorted(consumed)
        lanes = tuple(SourcePartition(place.source, *place.partition) for place in places)
        growing = self._growing.get(key)
        if growing is not None and not growing.takes(lanes, at_ms):
            self._lay_by(growing)
            growing = None
        if growing is None:
            growing = self._growing[key] = _Growing(key, settings, lanes)
        growing.add(_moment(at_ms, [consumed[place] for place in places]))
        growing.over = False
        return True

    def _lay_by(self, growing: _Growing) -> None:
        if growing.unsaved:
            self._waiting.append((growing.key, growing.stretch(), growing.settings.keep))
            del self._waiting[:-_WAITING]

    def _flush(self, tick: float) -> None:
        try:
            for key, growing in list(self._growing.items()):
                if tick < self._flush_at.get(key, tick):
                    continue
                self._save_full(key)
                if growing.unsaved:
                    self._store.save_timeline(growing.stretch(), keep=growing.settings.keep)
                    growing.unsaved = False
                    self._flush_at[key] = tick + FLUSH_SECONDS
                elif growing.over:
                    del self._growing[key]
                    self._flush_at.pop(key, None)
        except StoreError:
            self._retry_at = tick + _RETRY_SECONDS

    def _save_full(self, key: _Key) -> None:
        for waiting in [each for each in self._waiting if each[0] == key]:
            _, stretch, keep = waiting
            self._store.save_timeline(stretch, keep=keep)
            self._waiting.remove(waiting)


def _key(run: TrackedRun) -> _Key:
    subject = run.subject
    return _Key(subject.query, subject.epoch, subject.cluster)


def _moment(at_ms: int, consumed: Iterable[tuple[int, Fingerprints]]) -> Moment:
    offsets, timestamps, disorders = array("q"), array("q"), array("q")
    for offset, ring in consumed:
        largest = ring.newest_timestamp
        known = largest is not None and largest >= 0
        offsets.append(offset)
        timestamps.append(largest if largest is not None and known else NO_TIME)
        disorders.append(back(ring.timestamps))
    return Moment(at_ms, offsets, timestamps, disorders)


def _rounded_up(at_ms: int, precision_ms: int) -> int:
    """Later than it was, never earlier: what is said to be consumed by then was."""
    return -(-at_ms // precision_ms) * precision_ms
