"""The recorder of timelines: when it takes a step, when it writes, and what a kill can take."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StoreUnavailable
from state.model.entities import TopicPartition
from state.model.fingerprints import Fingerprints
from state.model.timeline import NO_TIME, Moment, SourcePartition, Stretch
from state.settings.keys import Timeline
from streaming.spark.hosting import Subject
from streaming.spark.tracking import timeline_recorder
from streaming.spark.tracking.timeline_recorder import TimelineRecorder
from streaming.spark.tracking.track import TrackedPartition
from tests.memory_store import MemoryStore

EAST = Subject("revenue", 1, "east", "/checkpoints/revenue")
START = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
AS_TAKEN_MS = 1_767_268_800_600
"""``START``, later by what minute steps leave out: times are kept to 600 ms."""
MINUTE = timedelta(minutes=1)


class Shelf(MemoryStore):
    """A store that may be away, and counts what is written."""

    def __init__(self) -> None:
        super().__init__(lambda: START)
        self.away = False
        self.writes = 0

    def save_timeline(self, stretch: Stretch, *, keep: timedelta) -> None:
        if self.away:
            raise StoreUnavailable
        self.writes += 1
        super().save_timeline(stretch, keep=keep)


@dataclass
class Run:
    """A run that reads so many records a second of each partition."""

    world: "World"
    subject: Subject = EAST
    partitions: int = 1
    ring: Fingerprints = field(default_factory=Fingerprints)
    requested: int = 0

    def consumed(self) -> Mapping[TrackedPartition, tuple[int, Fingerprints]]:
        self.requested += 1
        return {
            TrackedPartition("orders", TopicPartition("orders", number)): (
                self.world.consumed(self.world.now),
                self.ring,
            )
            for number in range(self.partitions)
        }


class World:
    """A clock that is moved by hand, a store, and one recorder."""

    def __init__(self, **timeline: timedelta) -> None:
        self.now = START
        self.tick = 1000.0
        self.store = Shelf()
        self.settings = Timeline(**timeline)
        self.recorder = self.fresh()

    def fresh(self) -> TimelineRecorder:
        return TimelineRecorder(self.store, lambda _: self.settings, lambda: self.now)

    @staticmethod
    def consumed(at: datetime) -> int:
        return 100_000 + (at - START) // timedelta(milliseconds=100)

    def go(self, seconds: float, *runs: Run, every: float = 1.0) -> None:
        for _ in range(round(seconds / every)):
            self.recorder.record(runs, self.tick)
            self.now += timedelta(seconds=every)
            self.tick += every

    def stored(self) -> list[Stretch]:
        return list(self.store.timeline("revenue"))

    def moments(self) -> list[Moment]:
        return [moment for stretch in self.stored() for moment in stretch.steps().moments]


def test_a_step_is_taken_once_a_minute_and_not_once_a_batch() -> None:
    world = World()
    run = Run(world)
    world.go(180, run)
    assert run.requested == 3
    world.recorder.close([run])
    assert world.moments()[0].at_ms == AS_TAKEN_MS
    assert len(world.moments()) == 4


def test_no_step_says_more_than_was_consumed_by_then() -> None:
    world = World(step=timedelta(seconds=1))
    run = Run(world)
    world.go(200, run, every=0.37)
    world.recorder.close([run])
    moments = world.moments()
    assert len(moments) > 190
    for moment in moments:
        assert moment.offsets[0] <= world.consumed(datetime.fromtimestamp(moment.at_ms / 1000, UTC))


def test_the_store_is_written_at_most_once_a_minute_whatever_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    for step, most in ((timedelta(seconds=1), 1 << 18), (timedelta(seconds=1), 70), (MINUTE, 1 << 18)):
        monkeypatch.setattr(timeline_recorder, "_MOST_MARKS", most)
        world = World(step=step)
        run = Run(world, partitions=2)
        for _ in range(30):  # a run that ends and begins all the time
            world.go(10, run)
            world.recorder.end(run)
        rows = len(world.stored())
        assert rows <= 20
        assert world.store.writes <= 6 + rows


def test_a_runner_that_is_killed_loses_the_steps_of_one_minute_at_most() -> None:
    for seconds in range(61, 200, 7):
        world = World(step=timedelta(seconds=1))
        run = Run(world)
        world.go(seconds, run)
        killed_at = world.now
        world.recorder = world.fresh()
        world.go(120, run)
        times = [each.at_ms for each in world.moments()]
        lost = [at_ms for at_ms in range(START_MS, int(killed_at.timestamp() * 1000), 1000) if at_ms + 50 not in times]
        assert len(lost) <= timeline_recorder.FLUSH_SECONDS
        assert all(at_ms >= lost[0] for at_ms in lost)
        assert times == sorted(times)


def test_a_new_process_adds_a_stretch_and_takes_nothing_from_the_old_one() -> None:
    world = World()
    run = Run(world)
    world.go(121, run)
    before = world.stored()
    world.recorder = world.fresh()
    world.go(1, run)
    assert world.stored()[:1] == before
    assert len(world.stored()) == 2


def test_six_hours_are_one_stretch_and_the_next_begins_another() -> None:
    world = World()
    run = Run(world)
    world.go(12 * 3600 + 20, run, every=20)
    world.recorder.close([run])
    assert [len(stretch.steps().moments) for stretch in world.stored()][:2] == [360, 360]


def test_too_many_partitions_for_one_stretch_are_cut_into_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_recorder, "_MOST_MARKS", 30)
    world = World()
    run = Run(world, partitions=10)
    world.go(10 * 60, run)
    world.recorder.close([run])
    assert {len(stretch.steps().moments) for stretch in world.stored()[:-1]} == {3}
    assert len(world.moments()) == 11


def test_other_partitions_or_a_clock_set_back_begin_a_new_stretch() -> None:
    world = World()
    run = Run(world)
    world.go(60, run)
    run.partitions = 2
    world.go(60, run)
    world.now -= 10 * MINUTE
    world.go(60, run)
    world.recorder.close([run])
    assert sorted(len(stretch.steps().lanes) for stretch in world.stored()) == [1, 2, 2]
    for stretch in world.stored():
        times = [each.at_ms for each in stretch.steps().moments]
        assert times == sorted(set(times))


def test_a_failing_runs_last_position_stays_without_a_longer_timeline() -> None:
    world = World()
    run = Run(world)
    world.go(65, run)
    for _ in range(5):
        world.go(5, run)
        world.recorder.end(run)
    last = world.consumed(world.now)
    world.go(60)
    assert world.moments()[-1].offsets == (last,)
    assert len(world.moments()) == 2
    assert world.recorder._growing == {} or all(each.over for each in world.recorder._growing.values())
    world.go(61)
    assert world.recorder._growing == {}


def test_two_clusters_and_two_epochs_stay_apart() -> None:
    world = World()
    old, new = Run(world), Run(world, Subject("revenue", 2, "west", "/checkpoints/revenue/epoch-2"))
    world.go(60, old)
    world.go(60, old, new)
    world.recorder.close([old, new])
    assert [(each.epoch, each.cluster) for each in world.stored()] == [(1, "east"), (2, "west")]


def test_steps_wait_for_a_store_that_is_away_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_recorder, "_WAITING", 2)
    world = World()
    run = Run(world)
    world.store.away = True
    world.go(5 * 6 * 3600, run, every=60)
    assert (world.stored(), len(world.recorder._waiting)) == ([], 2)
    world.store.away = False
    world.go(60, run, every=20)
    assert len(world.stored()) == 3
    hours = [stretch.begin for stretch in world.stored()]
    assert hours == sorted(hours)
    assert hours[-1] - hours[0] == timedelta(hours=12), "the newest are kept"


def test_times_and_their_disorder_are_those_of_the_records_before_the_offset() -> None:
    world = World(step=timedelta(seconds=1))
    stamps = [START_MS - 5000, START_MS - 1000, START_MS - 3000]
    once_late = [START_MS - 5000 + number - 700 * (number == 10) for number in range(32)]
    rings = {
        "of the far future": Fingerprints.of([(0, START_MS * 9, bytes(16)), (1, START_MS - 4000, bytes(16))]),
        "in disorder": Fingerprints.of((number, stamp, bytes(16)) for number, stamp in enumerate(stamps)),
        "late at the tenth place": Fingerprints.of(
            (number, stamp, bytes(16)) for number, stamp in enumerate(once_late)
        ),
        "without times": Fingerprints.of([(0, -1, bytes(16))]),
        "nothing read": Fingerprints(),
    }
    reported = {}
    for name, ring in rings.items():
        world.recorder, world.store = world.fresh(), Shelf()
        world.recorder._store = world.store
        run = Run(world, ring=ring)
        world.recorder.close([run])
        (moment,) = world.moments()
        reported[name] = (moment.timestamps[0], moment.disorders[0])
    largest = (START_MS - 1000) // 100 * 100
    newest, went_back = reported.pop("of the far future")
    assert newest - went_back == pytest.approx(START_MS - 4000, abs=200)
    reported_late = reported.pop("late at the tenth place")
    assert reported_late == ((START_MS - 4969) // 100 * 100, 700)
    assert reported == {"in disorder": (largest, 2000), "without times": (NO_TIME, 0), "nothing read": (NO_TIME, 0)}


def test_nothing_is_taken_before_a_batch_is_committed() -> None:
    world = World()
    run = Run(world, partitions=0)
    world.go(10, run)
    world.recorder.close([run])
    assert world.stored() == []
    run.partitions = 1
    world.go(2, run)
    assert [each.steps().lanes for each in world.stored()] == [(SourcePartition("orders", "orders", 0),)]


@given(
    st.lists(st.tuples(st.floats(0.1, 300), st.sampled_from(["look"] * 4 + ["kill", "end"])), min_size=1, max_size=60),
    st.sampled_from([timedelta(seconds=1), MINUTE, timedelta(minutes=7)]),
)
def test_after_any_death_no_timeline_answer_lies_past_the_truth(
    steps_taken: list[tuple[float, str]], step: timedelta
) -> None:
    world = World(step=step)
    run, times = Run(world), []
    for seconds, event in steps_taken:
        world.now += timedelta(seconds=seconds)
        world.tick += seconds
        times += [world.now, world.now - timedelta(seconds=seconds / 2)]
        match event:
            case "look":
                world.recorder.record([run], world.tick)
            case "kill":
                world.recorder = world.fresh()
            case "end":
                world.recorder.end(run)
    world.recorder.close([run])
    last = 0
    for time in sorted(times):
        stretch = world.store.timeline_at("revenue", time)
        moment = stretch.steps().at(int(time.timestamp() * 1000)) if stretch is not None else None
        reported = moment.offsets[0] if moment is not None else 0
        assert last <= reported <= world.consumed(time)
        last = reported


def test_a_run_ending_in_its_first_minute_leaves_one_stretch_with_two_places() -> None:
    world = World()
    run = Run(world)
    world.go(2, run)
    (begun,) = world.stored()
    world.recorder.end(run)
    world.go(61)
    (stretch,) = world.stored()
    assert stretch.begin == begun.begin
    assert [moment.offsets for moment in stretch.steps().moments] == [(100_000,), (100_020,)]
