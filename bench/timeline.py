"""What the timeline takes: bytes on disk for a day, and processor time to write it, next to one row a step.

The runner's own ``TimelineRecorder`` writes to SQLite from a modelled reader. It has a trigger of one second, and
partitions with 0.05 to 1,000 records a second each (as many of every order of magnitude). Arrivals are random, commits
and looks that are late by tens to hundreds of milliseconds. Busy partitions have a little disorder. The clock of
the model runs faster than ours; the steps are the same. For the size a stretch is saved every twenty minutes, not
every minute: what is written over takes no further place.

A day of second steps is taken of one partition with 100 records a second, and multiplied; beside it stand five minutes
of all partitions, multiplied too. The other way of keeping the same is a table with one row for each step and
partition: one hour of it is written and multiplied.

For the cost of writing, a real ``RunProgress`` holds 3,500 partitions with the records before each end. Every second
the recorder looks, as after each batch. Every minute a step is taken and the store is written, for one hour.
"""

import math
import random
import sqlite3
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from struct import Struct

from bench.report import Other, Row
from bench.samples import Spread
from bench.setting import Setting
from state.model.entities import Fingerprint, TopicPartition
from state.model.fingerprints import Fingerprints
from state.settings.keys import Timeline
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject
from streaming.spark.tracking.timeline_recorder import TimelineRecorder
from streaming.spark.tracking.track import TAIL, RunProgress, TrackedPartition

NAME = "timeline"
PARTITIONS = 3500
HOURS = 24
MINUTE_LIMIT_MB, SECOND_LIMIT_MB = 15.0, 600.0
BATCH_LIMIT_MS = 20.0
"""Two percent of a trigger of one second."""
_SUBJECT = Subject("bench", 1, "bench", "/checkpoint")
_MINUTE, _SECOND = timedelta(minutes=1), timedelta(seconds=1)
_SLOWEST, _FASTEST = 0.05, 1000.0
_LONG_ENOUGH = timedelta(days=7)
_TWO = Struct("<qq16sqq16s")
_SPAN_MINUTES = 5


class Reader:
    """A modelled run: how far it was committed, and the last two records of each partition."""

    subject = _SUBJECT

    def __init__(self, rates: list[float], began: datetime) -> None:
        self._random = random.Random(len(rates))
        self._rates = rates
        self._places = [TrackedPartition("orders", TopicPartition("orders", number)) for number in range(len(rates))]
        self._offsets = [self._random.randrange(1_000_000_000) for _ in rates]
        self._times = [int(began.timestamp() * 1000)] * len(rates)
        self._planned = self._times[0]

    def go(self, to: datetime) -> None:
        """Commit the batch that was planned a second before, at a multiple of the trigger and a little late."""
        planned = int(to.timestamp()) * 1000 - 1000 + int(self._random.expovariate(1 / 20))
        seconds = max(0, planned - self._planned) / 1000
        for number, rate in enumerate(self._rates):
            count = self._arrivals(rate * seconds)
            if count:
                self._offsets[number] += count
                gap = min(self._random.expovariate(rate) * 1000, planned - self._planned)
                self._times[number] = planned - int(gap) - self._random.randrange(2, 15)
        self._planned = max(planned, self._planned)

    def _arrivals(self, mean: float) -> int:
        if mean > 20:
            return max(0, round(self._random.gauss(mean, math.sqrt(mean))))
        count, passed = 0, self._random.expovariate(1.0)
        while passed < mean:
            count, passed = count + 1, passed + self._random.expovariate(1.0)
        return count

    def consumed(self) -> Mapping[TrackedPartition, tuple[int, Fingerprints]]:
        found: dict[TrackedPartition, tuple[int, Fingerprints]] = {}
        for number, place in enumerate(self._places):
            offset, at_ms = self._offsets[number], self._times[number]
            back = self._random.choice((0, 0, 0, 1, 2, 5)) if self._rates[number] > 10 else 0
            packed = _TWO.pack(offset - 2, at_ms, bytes(16), offset - 1, at_ms - back, bytes(16))
            found[place] = (offset, Fingerprints(packed))
        return found


def measure(setting: Setting) -> list[Row]:
    """Size of minute steps and of second steps, and the cost of writing."""
    began = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    setting.say(f"{PARTITIONS:,} partitions, {HOURS} h of minute steps")
    day = _size(setting.directory / "minutes", _rates(PARTITIONS), began, _MINUTE, HOURS * 60, saves=20 * 60)
    setting.say(f"one partition, {HOURS} h of second steps")
    one = _size(setting.directory / "one", [100.0], began, _SECOND, HOURS * 3600, saves=60)
    setting.say(f"{PARTITIONS:,} partitions, {_SPAN_MINUTES} min of second steps")
    steps = _SPAN_MINUTES * 60
    span = _size(setting.directory / "seconds", _rates(PARTITIONS), began, _SECOND, steps, saves=60)
    setting.say("one row a step")
    rows, row_costs = _one_row_a_step(setting.directory / "rows.db", began)
    setting.say("cost of writing")
    costs = _write_costs(setting.directory / "costs", began)
    all_day = 24 / HOURS
    return [
        Row(
            measurement=NAME,
            what=f"timeline of {PARTITIONS:,} partitions, 24 h at minute steps: on disk",
            unit="MB",
            ours=Spread.of([day * all_day]),
            limit=MINUTE_LIMIT_MB,
            others=(Other(name="one row a step, one hour x 24", spread=Spread.of([rows * 24])),),
            note="The database with its log while it is open, of which 0.3 MB are empty tables.",
            detail={"bytes_a_step": day * 1e6 / (PARTITIONS * HOURS * 60)},
        ),
        Row(
            measurement=NAME,
            what=f"timeline, 24 h at second steps: one partition, measured, times {PARTITIONS:,}",
            unit="MB",
            ours=Spread.of([one * all_day * PARTITIONS]),
            limit=SECOND_LIMIT_MB,
            others=(
                Other(
                    name=f"{PARTITIONS:,} partitions, {_SPAN_MINUTES} min, times {1440 // _SPAN_MINUTES}",
                    spread=Spread.of([span * 1440 / _SPAN_MINUTES]),
                ),
                Other(name="one row a step, one hour of minutes x 24 x 60", spread=Spread.of([rows * 24 * 60])),
            ),
            note="Without empty tables and log, which are there once. Partitions that are kept together take less.",
        ),
        Row(
            measurement=NAME,
            what=f"timeline of {PARTITIONS:,} partitions at minute steps: processor time per batch",
            unit="ms",
            ours=Spread.of([cost / 60 for cost in costs]),
            limit=BATCH_LIMIT_MS,
            others=(Other(name="one row a step", spread=Spread.of([cost / 60 for cost in row_costs])),),
            note="Of each minute of one hour, by its 60 batches: 60 looks, one step, one save of the growing stretch.",
            detail={"longest_save_ms": max(costs)},
        ),
    ]


def _rates(count: int) -> list[float]:
    chance = random.Random(count)
    return [math.exp(chance.uniform(math.log(_SLOWEST), math.log(_FASTEST))) for _ in range(count)]


class _Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def _size(directory: Path, rates: list[float], began: datetime, step: timedelta, steps: int, *, saves: float) -> float:
    """Megabytes of ``steps``, saved every ``saves`` seconds of the model; minute steps with all that lies on disk."""
    directory.mkdir()
    store = open_store(f"sqlite:///{directory / 'store.db'}")
    empty = _bytes(directory) if step < _MINUTE else 0
    reader, clock = Reader(rates, began - steps * step), _Clock(began)
    recorder = TimelineRecorder(store, lambda _: Timeline(step=step, keep=_LONG_ENOUGH), clock)
    late = random.Random(1)
    pace = 60.0 / saves * step.total_seconds()  # the recorder saves when 60 of its seconds have passed
    for number in range(steps):
        at = began + (number - steps) * step
        reader.go(at)
        clock.now = at + timedelta(milliseconds=late.randrange(250))
        recorder.record([reader], number * pace)
    recorder.close([])
    used = _bytes(directory)
    store.close()
    return (used if step >= _MINUTE else _bytes(directory) - empty) / 1e6


def _bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


def _one_row_a_step(path: Path, began: datetime) -> tuple[float, list[float]]:
    """Megabytes of one hour of minute steps, and milliseconds of processor time of each."""
    reader = Reader(_rates(PARTITIONS), began)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(
        "CREATE TABLE steps (query TEXT, epoch INTEGER, cluster TEXT, source TEXT, topic TEXT, partition INTEGER,"
        " at_ms INTEGER, offset INTEGER, timestamp_ms INTEGER,"
        " PRIMARY KEY (query, epoch, cluster, source, topic, partition, at_ms))"
    )
    costs: list[float] = []
    for minute in range(60):
        at = began + minute * _MINUTE
        reader.go(at)
        consumed, at_ms = reader.consumed(), int(at.timestamp() * 1000)
        spent = time.thread_time()
        key = (_SUBJECT.query, _SUBJECT.epoch, _SUBJECT.cluster)
        with database:
            database.executemany(
                "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (*key, place.source, *place.partition, at_ms, offset, ring.newest_timestamp)
                    for place, (offset, ring) in consumed.items()
                ],
            )
        costs.append((time.thread_time() - spent) * 1000)
    database.close()
    return path.stat().st_size / 1e6, costs


def _write_costs(directory: Path, began: datetime) -> list[float]:
    """Milliseconds of processor time of each minute of an hour."""
    directory.mkdir()
    store = open_store(f"sqlite:///{directory / 'store.db'}")
    reader, track, clock = Reader(_rates(PARTITIONS), began), RunProgress(_SUBJECT), _Clock(began)
    recorder = TimelineRecorder(store, lambda _: Timeline(keep=_LONG_ENOUGH), clock)
    costs: list[float] = []
    for minute in range(60):
        reader.go(began + minute * _MINUTE)
        consumed = reader.consumed()
        ends = {str(place.partition.partition): end for place, (end, _) in consumed.items()}
        track.see(Batch(id=minute, offsets={"orders": {"orders": ends}}, committed=True, planned_after=0.0))
        for place, (end, ring) in consumed.items():
            newest = ring[-1].timestamp_ms
            track.learn(place, end, [Fingerprint(end - TAIL + n, newest, bytes(16)) for n in range(TAIL)])
        spent = time.thread_time()
        for second in range(60):
            clock.now = began + minute * _MINUTE + second * _SECOND
            recorder.record([track], minute * 60.0 + second)
        costs.append((time.thread_time() - spent) * 1000)
    store.close()
    return costs
