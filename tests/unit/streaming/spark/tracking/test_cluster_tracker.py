"""How the records before the ends of batches are read, and what is known of a run that has ended."""

import math
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from state.model.entities import Assignment, Desired, Position
from state.settings.keys import Timeline
from streaming.cluster_log import ClusterLog, TopicFacts
from streaming.errors import ClusterUnreachable, WrongCluster
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import EndedRun, Subject
from streaming.spark.tracking import cluster_tracker as module
from streaming.spark.tracking.cluster_tracker import BatchSeen, ClusterTracker, PositionsNeeded, RunOver, Word
from streaming.spark.tracking.spool import Spool
from streaming.spark.tracking.timeline_recorder import TimelineRecorder
from tests.fragile_store import FragileStore
from tests.memory_log import MemoryCluster
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = Subject("revenue", 1, "east", "/checkpoints/revenue")


def no_log(_cluster: str) -> ClusterLog:
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
    recorder = TimelineRecorder(store, lambda _: Timeline(), lambda: NOW)
    return ClusterTracker("east", no_log, store, Spool(folder / "east.spool"), recorder, lambda: NOW)


def seen(number: int) -> BatchSeen:
    offsets = {"orders": {"orders": {"0": number * 10}}}
    return BatchSeen(SUBJECT, Batch(id=number, offsets=offsets, committed=True, planned_after=0.0))


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
        running._take(BatchSeen(replace(SUBJECT, query=query), batch))
    running._store_positions()
    assert writes == [5_000]


def test_who_needs_the_positions_waits_until_a_store_that_is_back_has_them(tmp_path: Path) -> None:
    store, running = world(tmp_path)
    store.away = True
    running._take(seen(4))
    running._store_positions()
    running._tracks.clear()  # nothing to read from a cluster
    Spool(tmp_path / "east.spool").save(running._outbox._waiting)
    running._over.clear()
    running.start()
    assert not running.catch_up(None, 0.1)
    assert list(store.positions("revenue")) == []
    store.away = False
    assert running.catch_up(None, 10.0)
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]
    running.request_stop()
    running.join(60.0)


class LockedStore(FragileStore):
    """A store that is locked for a moment."""

    locked = threading.Event()

    def save_positions(self, positions: Iterable[Position]) -> None:
        assert self.locked.wait(60.0)
        super().save_positions(positions)


def test_who_needs_the_positions_waits_for_a_store_that_is_slow(tmp_path: Path) -> None:
    store = LockedStore(lambda: NOW)
    store.adopt(ROW)
    running = tracker(store, tmp_path)
    running.notify(seen(4))
    running.notify(RunOver(SUBJECT))
    running.start()
    threading.Timer(0.5, store.locked.set).start()
    assert running.catch_up(None, 10.0)
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]
    running.request_stop()
    running.join(60.0)


def test_a_spool_that_cannot_be_removed_keeps_no_fence_waiting(tmp_path: Path) -> None:
    store, running = world(tmp_path)
    store.away = True
    running._take(seen(4))
    running._store_positions()
    running._tracks.clear()  # nothing to read from a cluster
    store.away = False
    spool = tmp_path / "east.spool"
    spool.unlink()
    spool.mkdir()
    needed = PositionsNeeded(None, threading.Event())
    running._take(needed)
    assert needed.stored.is_set()
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]


def test_a_word_that_raises_does_not_end_the_tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_REST_SECONDS", 0.01)
    _, running = world(tmp_path)
    saved, raised = running._outbox.flush, threading.Event()

    def raises_once() -> None:
        if not raised.is_set():
            raised.set()
            raise ValueError("what was not foreseen")
        saved()

    monkeypatch.setattr(running._outbox, "flush", raises_once)
    running.start()
    running.notify(PositionsNeeded(None, threading.Event()))
    until(raised.is_set)
    needed = PositionsNeeded(None, threading.Event())
    running.notify(needed)
    until(needed.stored.is_set)
    running.request_stop()
    running.join(60.0)


def test_spooled_positions_are_flushed_before_a_hung_cluster_is_read(tmp_path: Path) -> None:
    store, running = world(tmp_path)
    store.away = True
    running._take(seen(4))
    running._store_positions()
    store.away = False
    needed = PositionsNeeded(None, threading.Event())
    running._take(needed)
    assert needed.stored.is_set()
    assert [(each.batch, each.offset) for each in store.positions("revenue")] == [(4, 40)]


def test_no_thread_waits_for_the_end_of_a_look_at_a_hung_cluster(tmp_path: Path) -> None:
    store = FragileStore(lambda: NOW)
    store.adopt(ROW)
    hangs, is_over = threading.Event(), threading.Event()

    def hang(_cluster: str) -> ClusterLog:
        hangs.set()
        is_over.wait(60.0)
        raise ClusterUnreachable

    recorder = TimelineRecorder(store, lambda _: Timeline(), lambda: NOW)
    running = ClusterTracker("east", hang, store, Spool(tmp_path / "east.spool"), recorder, lambda: NOW)
    running.notify(seen(4))
    running.start()
    assert hangs.wait(60.0)
    assert running._outbox.is_empty
    waits = threading.Thread(target=running.catch_up, args=(None, math.inf))
    waits.start()
    waits.join(60.0)
    assert not waits.is_alive()
    is_over.set()
    running.request_stop()
    running.join(60.0)


def test_a_cluster_that_is_known_to_be_silent_gets_a_short_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no one waits an hour for what is requested since before."""
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 3600.0)
    store, cluster = FragileStore(lambda: NOW), SlowCluster(east(50))
    store.adopt(ROW)
    recorder = TimelineRecorder(store, lambda _: Timeline(), lambda: NOW)
    silent = [False]
    running = ClusterTracker(
        "east", lambda _: cast(ClusterLog, cluster), store, Spool(tmp_path / "s"), recorder, lambda: NOW,
        lambda: silent[0],
    )  # fmt: skip
    running.notify(seen(4))
    running.start()
    assert cluster.requested.wait(60.0)
    assert cluster.timeouts[-1] > 1000.0
    silent[0] = True
    waits = threading.Thread(target=running.catch_up, args=(None, math.inf))
    waits.start()
    waits.join(60.0)
    assert not waits.is_alive()
    cluster.go_on.set()
    running.notify(seen(5))
    until(lambda: len(cluster.timeouts) > 1 and cluster.timeouts[-1] <= module._SILENT_ANSWER_SECONDS)
    running.request_stop()
    running.join(60.0)


class SlowCluster:
    """Answers its first fetch only once it may, and knows how long each might have taken."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.requested, self.go_on = threading.Event(), threading.Event()
        self.timeouts: list[float] = []

    def fetch(self, starts: Any, *, timeout: float, **more: Any) -> Any:
        self.timeouts.append(timeout)
        self.requested.set()
        assert self.go_on.wait(60.0)
        return self._cluster.fetch(starts, timeout=timeout, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def east(records: int) -> MemoryCluster:
    cluster = MemoryCluster("east")
    cluster.create("orders")
    for number in range(records):
        cluster.append("orders", 0, 1_000 + number, number.to_bytes(16))
    return cluster


def reading(store: FragileStore, folder: Path, cluster: ClusterLog) -> ClusterTracker:
    store.adopt(ROW)
    recorder = TimelineRecorder(store, lambda _: Timeline(), lambda: NOW)
    return ClusterTracker("east", lambda _: cluster, store, Spool(folder / "east.spool"), recorder, lambda: NOW)


def last_batch(number: int, *planned: int, epoch: int | None = SUBJECT.epoch) -> PositionsNeeded:
    batches = [
        Batch(id=each, offsets=seen(each).batch.offsets, committed=each == number) for each in (number, *planned)
    ]
    return PositionsNeeded(EndedRun(SUBJECT.query, SUBJECT.checkpoint, epoch, tuple(batches)), threading.Event())


def remembered(store: FragileStore) -> dict[int, int | None]:
    """By batch, the offset of the newest record that its position remembers."""
    return {each.batch: each.ring[-1].offset if each.ring else None for each in store.positions("revenue")}


@pytest.mark.parametrize("reported", [[4], [4, 5]], ids=["no word of it", "no time to look"])
def test_the_last_records_of_a_run_that_ended_before_the_round_are_kept(tmp_path: Path, reported: list[int]) -> None:
    store = FragileStore(lambda: NOW)
    running = reading(store, tmp_path, east(70))
    running._take(seen(4))
    running._round()
    words: list[Word] = [*(seen(each) for each in reported[1:]), RunOver(SUBJECT), last_batch(5, 6)]
    for word in words:
        running._take(word)
    assert remembered(store) == {4: 39, 5: 49, 6: 59}
    assert running._ended == {}


def test_the_last_records_of_a_run_the_runner_let_go_of_are_kept(tmp_path: Path) -> None:
    store = FragileStore(lambda: NOW)
    running = reading(store, tmp_path, east(70))
    for word in (seen(4), RunOver(SUBJECT), last_batch(5, 6, epoch=None)):
        running._take(word)
    assert remembered(store) == {4: None, 5: 49, 6: 59}


def test_a_silent_cluster_is_tried_once_and_loses_no_remembered_record(tmp_path: Path) -> None:
    store, cluster = FragileStore(lambda: NOW), east(70)
    running = reading(store, tmp_path, cluster)
    for query in ("revenue", "refunds"):
        store.adopt(replace(ROW, query=query))
        running._take(BatchSeen(replace(SUBJECT, query=query), seen(4).batch))
    running._round()
    requested: list[object] = []

    def is_silent(*starts: object, **_: Any) -> None:
        requested.append(starts)
        raise ClusterUnreachable

    cluster.fetch = is_silent  # type: ignore[method-assign, assignment] # never returns
    for query in ("revenue", "refunds"):
        subject = replace(SUBJECT, query=query)
        running._take(RunOver(subject))
        ended = EndedRun(query, SUBJECT.checkpoint, SUBJECT.epoch, (seen(4).batch, seen(5).batch))
        running._take(PositionsNeeded(ended, threading.Event()))
    assert len(requested) == 1
    assert remembered(store)[4] == 39


def test_another_runs_batches_say_nothing_of_the_ended_one(tmp_path: Path) -> None:
    store = FragileStore(lambda: NOW)
    running = reading(store, tmp_path, east(70))
    running._take(BatchSeen(replace(SUBJECT, epoch=3), seen(4).batch))
    running._take(RunOver(replace(SUBJECT, epoch=3)))
    running._take(last_batch(5))
    assert list(remembered(store)) == [4]


def test_a_look_at_a_cluster_that_answers_slowly_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(MemoryCluster):
        requested, answers = threading.Event(), threading.Event()

        def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
            self.requested.set()
            assert self.answers.wait(60.0)
            return super().describe(topics, timeout=timeout)

    store, cluster, nap = FragileStore(lambda: NOW), Slow("east"), time.sleep
    cluster.topics = east(70).topics
    running = reading(store, tmp_path, cluster)
    running.notify(seen(4))
    running.start()
    assert cluster.requested.wait(60.0)
    running.notify(seen(5))
    monkeypatch.setattr(module, "_DEAD_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 30.0)

    def answer_while_waited_for(seconds: float) -> None:
        cluster.answers.set()
        nap(seconds)

    monkeypatch.setattr(module, "time", SimpleNamespace(**vars(time) | {"sleep": answer_while_waited_for}))
    assert running.catch_up(None, 30.0)
    assert 5 in remembered(store)
    cluster.answers.set()
    running.request_stop()
    running.join(60.0)


def test_the_last_positions_of_a_run_are_stored_when_it_is_over(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    known._take(seen(4))
    known._take(RunOver(SUBJECT))
    assert [each.batch for each in store.positions("revenue")] == [4]
    assert known._tracks == {}


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("is_over", [False, True])
def test_words_left_when_the_process_ends_are_stored_or_spooled(tmp_path: Path, away: bool, is_over: bool) -> None:
    store, known = world(tmp_path)
    known._take(seen(3))
    words: list[Word] = [seen(4), seen(5), *([RunOver(SUBJECT)] if is_over else [])]
    for word in words:
        known.notify(word)
    store.away = away
    known.request_stop()
    known.run()
    store.away = False
    after = tracker(store, tmp_path)
    after._outbox.load()
    after._outbox.flush()
    assert [each.batch for each in store.positions("revenue")][-2:] == [4, 5]


def test_a_runs_first_place_is_in_the_timeline_at_once_its_last_at_the_end(tmp_path: Path) -> None:
    store, known = world(tmp_path)
    known._read_at = known._store_at = math.inf  # the cluster gets no request
    known._take(seen(4))
    known._round()
    (stretch,) = store.timeline("revenue")
    assert (stretch.epoch, stretch.cluster) == (1, "east")
    assert [moment.offsets for moment in stretch.steps().moments] == [(40,)]
    known._take(seen(5))
    known._round()
    assert store.timeline("revenue") == [stretch], "not with every batch"
    known.request_stop()
    known.run()
    assert [moment.offsets for each in store.timeline("revenue") for moment in each.steps().moments] == [(50,)]


class Strange(MemoryCluster):
    """A cluster behind whose name another one may come up."""

    stranger: str | None = None

    def _reach(self, timeout: float) -> None:
        super()._reach(timeout)
        if self.stranger is not None:
            raise WrongCluster("east leads to another cluster", seen=self.stranger)


def strange(records: int) -> Strange:
    cluster = Strange("east")
    cluster.topics = east(records).topics
    return cluster


@pytest.mark.parametrize("ending", ["goes on", "ends", "is fenced"])
def test_records_read_from_another_cluster_are_no_progress(tmp_path: Path, ending: str) -> None:
    store, cluster = FragileStore(lambda: NOW), strange(70)
    running = reading(store, tmp_path, cluster)
    running._take(seen(4))
    running._round()
    assert remembered(store) == {4: 39}
    cluster.stranger = "B"
    words: list[Word] = [seen(5), *([last_batch(6)] if ending == "is fenced" else [])]
    for word in words:
        running._take(word)
    running._read_at = 0.0
    running._round()
    words = [seen(6), *((RunOver(SUBJECT), last_batch(6)) if ending == "ends" else ())]
    for word in words:
        running._take(word)
    running._store_at = running._read_at = 0.0
    running._round()
    assert remembered(store) == {4: 39}
    cluster.stranger = None
    running._read_at = 0.0
    running._round()
    running._take(seen(6))
    running._read_at = 0.0
    running._round()
    assert remembered(store) == {4: 39, 6: 59}


def test_a_cluster_is_read_before_an_unread_batch_is_stored(tmp_path: Path) -> None:
    store, cluster = FragileStore(lambda: NOW), strange(70)
    running = reading(store, tmp_path, cluster)
    running._take(seen(4))
    running._round()
    cluster.stranger = "B"
    running._take(seen(5))
    running._read_at, running._store_at = math.inf, 0.0
    running._round()
    assert remembered(store) == {4: 39}
