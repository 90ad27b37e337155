"""What the tracker does with a store that goes away and comes back, also for the process after it."""

import math
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from state.errors import StoreUnavailable
from state.memory import MemoryStore
from state.model import Assignment, Desired, EndSample, Position
from state.settings import Timeline
from streaming.errors import ClusterUnreachable
from streaming.log import Log
from streaming.spark.follow import Batch
from streaming.spark.hosting import Subject
from streaming.spark.recorder import Recorder
from streaming.spark.spool import Spool
from streaming.spark.tracker import ClusterTracker, _Needed, _Over, _Seen, _Word

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = Subject("revenue", 1, "east", "/checkpoints/revenue")
SAMPLE = EndSample(
    cluster="east",
    topic="orders",
    partition=0,
    begin=0,
    end=120,
    newest_timestamp_ms=None,
    leader_epoch=None,
    topic_id=None,
    sampled_at=NOW,
)


class FragileStore(MemoryStore):
    """A store that may be away."""

    away = False

    def save_positions(self, positions: Iterable[Position]) -> None:
        if self.away:
            raise StoreUnavailable
        super().save_positions(positions)

    def save_ends(self, samples: Iterable[EndSample]) -> None:
        if self.away:
            raise StoreUnavailable
        super().save_ends(samples)


def no_log(_cluster: str) -> Log:
    raise AssertionError("the cluster is not asked in this test")


ROW = Assignment(
    query="revenue",
    epoch=1,
    placed_epoch=1,
    desired=Desired.RUNNING,
    cluster="east",
    runner="a",
    checkpoint=SUBJECT.checkpoint,
    starting_offsets=None,
    operation=None,
    changed_at=NOW,
)


def world(folder: Path) -> tuple[FragileStore, ClusterTracker]:
    store = FragileStore(lambda: NOW)
    store.adopt(ROW)
    return store, tracker(store, folder)


def tracker(store: FragileStore, folder: Path) -> ClusterTracker:
    recorder = Recorder(store, lambda _: Timeline(), lambda: NOW)
    return ClusterTracker("east", no_log, store, Spool(folder / "east.spool"), recorder, lambda: NOW)


def seen(number: int) -> _Seen:
    offsets = {"orders": {"orders": {"0": number * 10}}}
    return _Seen(SUBJECT, Batch(id=number, offsets=offsets, committed=True, planned_after=0.0))


def test_positions_of_an_outage_reach_the_store_through_a_new_process(tmp_path: Path) -> None:
    store, first = world(tmp_path)
    store.away = True
    first._take(seen(4))
    first._store_positions()
    first._store_ends([SAMPLE])
    second = tracker(store, tmp_path)
    second._kept = second._load()
    second._flush()
    assert list(store.positions("revenue")) == []
    store.away = False
    second._flush()
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]
    assert [each.end for each in store.ends("east").values()] == [120]
    assert not (tmp_path / "east.spool").exists()


def test_fifty_queries_of_a_hundred_partitions_are_one_write(tmp_path: Path) -> None:
    store, running = world(tmp_path)
    writes: list[int] = []

    def counted(positions: Iterable[Position]) -> None:
        writes.append(len(list(positions)))

    store.save_positions = counted  # type: ignore[method-assign] # counts only
    for number in range(50):
        query = f"query-{number}"
        store.adopt(replace(ROW, query=query))
        offsets = {"orders": {"orders": {str(partition): 10 for partition in range(100)}}}
        batch = Batch(id=4, offsets=offsets, committed=True, planned_after=0.0)
        running._take(_Seen(replace(SUBJECT, query=query), batch))
    running._store_positions()
    assert writes == [5_000]


def test_who_needs_the_positions_waits_until_a_store_that_is_back_has_them(tmp_path: Path) -> None:
    store, running = world(tmp_path)
    store.away = True
    running._take(seen(4))
    running._store_positions()
    running._tracks.clear()  # nothing to ask of a cluster
    Spool(tmp_path / "east.spool").save(running._kept)
    running._over.clear()
    running.start()
    running.catch_up(0.1)
    assert list(store.positions("revenue")) == []
    store.away = False
    running.catch_up(10.0)
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]
    running.ask_to_stop()
    running.join(10.0)


class SlowStore(FragileStore):
    """A store that is locked for a moment."""

    locked = threading.Event()

    def save_positions(self, positions: Iterable[Position]) -> None:
        assert self.locked.wait(10.0)
        super().save_positions(positions)


def test_who_needs_the_positions_waits_for_a_store_that_is_slow(tmp_path: Path) -> None:
    store = SlowStore(lambda: NOW)
    store.adopt(ROW)
    running = tracker(store, tmp_path)
    running.tell(seen(4))
    running.tell(_Over(SUBJECT))
    running.start()
    threading.Timer(0.5, store.locked.set).start()
    running.catch_up(10.0)
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]
    running.ask_to_stop()
    running.join(10.0)


def test_what_is_spooled_is_flushed_for_whoever_needs_it_before_a_cluster_that_hangs_is_asked(tmp_path: Path) -> None:
    store, running = world(tmp_path)
    store.away = True
    running._take(seen(4))
    running._store_positions()
    store.away = False
    needed = _Needed(threading.Event())
    running._take(needed)
    assert needed.stored.is_set()
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]


def test_nobody_waits_for_the_end_of_a_look_at_a_cluster_that_hangs(tmp_path: Path) -> None:
    store = FragileStore(lambda: NOW)
    store.adopt(ROW)
    hangs, is_over = threading.Event(), threading.Event()

    def hang(_cluster: str) -> Log:
        hangs.set()
        is_over.wait(30.0)
        raise ClusterUnreachable

    recorder = Recorder(store, lambda _: Timeline(), lambda: NOW)
    running = ClusterTracker("east", hang, store, Spool(tmp_path / "east.spool"), recorder, lambda: NOW)
    running.tell(seen(4))
    running.start()
    assert hangs.wait(10.0)
    assert running._kept.is_empty
    waits = threading.Thread(target=running.catch_up, args=(math.inf,))
    waits.start()
    waits.join(10.0)
    assert not waits.is_alive()
    is_over.set()
    running.ask_to_stop()
    running.join(10.0)


def test_what_waits_is_stored_before_what_is_new(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    store.away = True
    known._take(seen(4))
    known._store_positions()
    store.away = False
    known._take(seen(5))
    known._store_positions()
    assert list(store.positions("revenue")) == []
    known._flush()
    assert [each.batch for each in store.positions("revenue")] == [4, 5]


MOVED = replace(ROW, epoch=2, placed_epoch=2, cluster="west", checkpoint="/checkpoints/revenue/epoch-2-op")
HELD = replace(ROW, epoch=2, desired=Desired.HELD)
ABORTED = replace(ROW, epoch=3)


@pytest.mark.parametrize(
    ("row", "kept"), [(MOVED, []), (replace(MOVED, cluster="east"), []), (HELD, [4]), (ABORTED, [4])]
)
@pytest.mark.parametrize("away", [False, True])
def test_positions_of_a_place_that_is_not_in_use_any_more_are_dropped(
    tmp_path: Path, row: Assignment, kept: list[int], away: bool
) -> None:
    store, known = world(tmp_path)
    known._take(seen(4))
    store.away = away
    if away:
        known._store_positions()
    store._assignments["revenue"] = row
    store.away = False
    known._store_positions()
    known._flush()
    assert [each.batch for each in store.positions("revenue")] == kept
    assert not (tmp_path / "east.spool").exists()


def test_the_last_positions_of_a_run_are_stored_when_it_is_over(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    known._take(seen(4))
    known._take(_Over(SUBJECT))
    assert [each.batch for each in store.positions("revenue")] == [4]
    assert known._tracks == {}


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("is_over", [False, True])
def test_what_was_left_as_word_when_the_process_ends_is_stored_or_spooled(
    tmp_path: Path, away: bool, is_over: bool
) -> None:
    store, known = world(tmp_path)
    known._take(seen(3))
    words: list[_Word] = [seen(4), seen(5), *([_Over(SUBJECT)] if is_over else [])]
    for word in words:
        known.tell(word)
    store.away = away
    known.ask_to_stop()
    known.run()
    store.away = False
    after = tracker(store, tmp_path)
    after._kept = after._load()
    after._flush()
    assert [each.batch for each in store.positions("revenue")][-2:] == [4, 5]


def test_a_full_disk_does_not_stop_the_tracking(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = FragileStore(lambda: NOW)
    known = tracker(store, tmp_path / "file")
    store.away = True
    known._take(seen(4))
    known._store_positions()
    assert len(known._kept.positions) == 1


def test_the_timeline_has_the_first_place_of_a_run_at_once_and_its_last_when_the_process_ends(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    known._read_at = math.inf  # the cluster is not asked
    known._take(seen(4))
    known._round()
    (stretch,) = store.timeline("revenue")
    assert (stretch.epoch, stretch.cluster) == (1, "east")
    assert [moment.offsets for moment in stretch.steps().moments] == [(40,)]
    known._take(seen(5))
    known._round()
    assert store.timeline("revenue") == [stretch], "not with every batch"
    known.ask_to_stop()
    known.run()
    assert [moment.offsets for each in store.timeline("revenue") for moment in each.steps().moments] == [(50,)]
