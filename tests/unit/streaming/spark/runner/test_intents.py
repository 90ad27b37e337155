"""When a runner answers a request, with a store that is slow, away or just back."""

import json
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from orchestrator.decide.operation.intents import LASTING
from state.errors import StoreUnavailable
from state.messages import Failure, FenceRequest, Message, PrepareRequest, ReleaseRequest, SinkState
from state.model.entities import Assignment, Desired, Intent, IntentKind, IntentState, Position
from state.settings.keys import Tideover, Timeline
from streaming.process import own_identity
from streaming.spark.authority import Authority
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.checkpoint.mapping import MAPPINGS, RELEASED
from streaming.spark.errors import FileVanished
from streaming.spark.hosting import Hosting, Subject
from streaming.spark.query.sink_memory import UNKNOWN_SINK
from streaming.spark.runner import fence as fencing
from streaming.spark.runner import intents as module
from streaming.spark.runner.intents import CopyTurns, IntentWorker
from streaming.spark.tracking.tracker import Tracker
from tests.checkpoints import CheckpointFolder
from tests.memory_log import MemoryCluster
from tests.memory_store import MemoryStore
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PARTITIONS = {"0": 500, "1": 500}


class RefusingStore(MemoryStore):
    """A store that refuses some writes before it takes them, and remembers in which order it took which."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW)
        self.refusals = {"positions": 0, "answer": 0}
        self.taken: list[str] = []
        self.answers: list[Intent] = []
        self.answered = Event()

    def save_positions(self, positions: Iterable[Position]) -> None:
        positions = list(positions)
        self._take("positions", *(f"position of batch {each.batch}" for each in positions))
        super().save_positions(positions)

    def report(self, intent: Intent, *, term: int | None = None) -> bool:
        self._take("answer", "answer")
        self.answers.append(intent)
        self.answered.set()
        return True

    def _take(self, kind: str, *what: str) -> None:
        if self.refusals[kind]:
            self.refusals[kind] -= 1
            raise StoreUnavailable
        self.taken += what


class Ended:
    """A hosted run that is quiet."""

    is_held = False

    def __init__(self, folder: Path) -> None:
        self.subject = Subject("q", 1, "east", str(folder))
        self.epoch = 1
        self.sink = UNKNOWN_SINK

    def close(self) -> None:
        """It is."""

    def unrest(self) -> None:
        return None

    def sink_state(self, _batch: int) -> SinkState:
        return SinkState.UNKNOWN


class Unfinished(Ended):
    """A hosted run whose batch ends with it alone."""

    is_finishing = True

    def close(self) -> None:
        self.is_finishing = False


class Runner:
    """One process that hosted a query of which batch 1 was the last, and a cluster that still answers."""

    def __init__(self, folder: Path, settings: Tideover | None = None) -> None:
        self.folder = folder / "checkpoint"
        checkpoint = CheckpointFolder(self.folder)
        for batch in (0, 1):
            checkpoint.commit(batch, {"orders": {key: end - 100 * (1 - batch) for key, end in PARTITIONS.items()}})
        self.store, self.cluster = RefusingStore(), MemoryCluster("east")
        self.cluster.create("orders", partitions=2)
        for number in range(1000):
            self.cluster.append("orders", number % 2, 1_000 + number, number.to_bytes(16))
        self.store.adopt(
            Assignment(
                query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a",
                checkpoint=str(self.folder), starting_offsets=None, operation=None, changed_at=NOW,
            )
        )  # fmt: skip
        self.tracker = Tracker(lambda _: self.cluster, self.store, folder / "spool", lambda: NOW, lambda _: Timeline())
        hosting = Hosting(
            settings=settings or SETTINGS, runner="a", instance="one", spark_master="local[4]", application_id="app",
            base=folder, here=own_identity(), session=cast(Any, None), files=LocalFiles(), store=self.store,
            listener=self.tracker, is_silent=lambda cluster: cluster in self.silent, now=lambda: NOW,
        )  # fmt: skip
        self.silent: set[str] = set()
        self.run = Ended(self.folder)
        self.hosted = [cast(Any, self.run)]
        sinks = cast(Any, SimpleNamespace(sink=lambda _row: self.run.sink))
        self.ahead: list[tuple[str, str]] = []
        ahead = SimpleNamespace(
            begin=lambda query, _, *, cluster, starting, **__: self.ahead.append((query, f"{cluster} from {starting}")),
            forget=lambda query: self.ahead.append((query, "forgotten")),
        )
        self.errands = IntentWorker(hosting, lambda _: self.hosted, sinks, cast(Any, ahead))

    def goes_on_until_it_ends(self, batches: int = 2) -> None:
        """What the tracker hears of the run: so many batches, and that it is over."""
        for number in range(batches):
            offsets = {"orders": {"orders": {key: end - 100 * (1 - number) for key, end in PARTITIONS.items()}}}
            batch = Batch(id=number, offsets=offsets, committed=True, planned_after=0.0)
            self.tracker.see(self.run.subject, batch)
        self.tracker.forget(self.run.subject)

    def fence(self, cluster: str = "", finish_seconds: float = 0.0) -> None:
        """Request a fence, and wait for the answer."""
        request = FenceRequest(
            checkpoint=str(self.folder), epoch=2, operation="op", hosting=None, cluster=cluster,
            finish_seconds=finish_seconds,
        )  # fmt: skip
        self.errands.take([intent(IntentKind.FENCE, request.as_json())])
        assert self.store.answered.wait(60.0)


def intent(kind: IntentKind, request: dict[str, Any]) -> Intent:
    return Intent(
        id="op/fence", operation="op", name="fence", kind=kind, query="q", runner="a", epoch=2, request=request,
        state=IntentState.PENDING, result=None, created_at=NOW, ended_at=None,
    )  # fmt: skip


SETTINGS = Tideover.model_validate(
    {
        "store": "sqlite://",
        "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
        "runners": {"a": {}},
        "queries": {
            "q": {
                "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
                "runners": ["a"], "checkpoint": "c",
            }
        },
    }
)  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(module, "_CATCH_UP_SECONDS", 0.05)
    monkeypatch.setattr(module, "_REPORT_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "counts", lambda _store, _intent: lambda: None)  # test_authority queries the store
    known = Runner(tmp_path)
    yield known
    known.errands.close()
    known.tracker.close(10.0)


def test_a_fence_is_answered_behind_the_newest_positions(runner: Runner) -> None:
    runner.goes_on_until_it_ends()
    runner.store.refusals["positions"] = 5
    runner.fence()
    assert runner.store.taken.index("position of batch 1") < runner.store.taken.index("answer")


def test_a_batch_of_a_cluster_that_died_is_given_up_in_a_planned_move(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "_SILENT_SECONDS", 0.05)
    CheckpointFolder(runner.folder).plan(2)
    runner.hosted, runner.silent = [cast(Any, Unfinished(runner.folder))], {"east"}
    runner.fence(finish_seconds=3600.0)
    assert not runner.hosted[0].is_finishing


def test_a_query_that_was_handed_back_to_plain_spark_is_not_fenced(runner: Runner) -> None:
    begun = {"number": 1, "cluster": "west", "last": 1}
    CheckpointFolder(runner.folder).write(f"{RELEASED}/2-former.1/begun", json.dumps(begun))
    runner.hosted.clear()
    runner.fence()
    (answer,) = runner.store.answers
    assert (answer.state, "was broken off" in str(answer.result)) == (IntentState.FAILED, True)


def test_a_fence_reports_a_last_batch_that_was_not_seen_before(runner: Runner) -> None:
    runner.goes_on_until_it_ends(batches=1)
    runner.fence()
    rings = {each.partition: each.ring for each in runner.store.positions("q", batch=1)}
    assert {partition: ring[-1].offset for partition, ring in rings.items()} == {0: 499, 1: 499}


def test_a_fence_reports_the_last_batch_after_the_run_was_let_go(runner: Runner) -> None:
    runner.goes_on_until_it_ends(batches=1)
    runner.hosted.clear()
    runner.fence()
    rings = {each.partition: each.ring for each in runner.store.positions("q", batch=1)}
    assert {partition: ring[-1].offset for partition, ring in rings.items()} == {0: 499, 1: 499}


def test_an_answer_that_the_store_refuses_is_given_again(runner: Runner) -> None:
    runner.goes_on_until_it_ends()
    runner.store.refusals["answer"] = 3
    runner.fence()
    assert runner.store.taken.count("answer") == 1


def test_a_store_that_refuses_positions_holds_up_a_fence_only_briefly(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_POSITIONS_SECONDS", 0.2)
    runner.goes_on_until_it_ends()
    runner.store.refusals["positions"] = 1_000_000
    runner.fence()
    assert runner.store.taken == ["answer"]


def test_an_answer_to_a_withdrawn_intent_is_dropped(runner: Runner) -> None:
    runner.store.refusals["answer"] = 1_000_000
    release = ReleaseRequest(checkpoint=str(runner.folder), planted=(), prepared=None, operation="op")
    runner.errands.take([intent(IntentKind.RELEASE, release.as_json())])
    until(lambda: runner.store.refusals["answer"] < 1_000_000)
    runner.errands.take([])
    for thread in [each for each in threading.enumerate() if each.name == "intent fence"]:
        thread.join(60.0)
    assert runner.store.taken == []


@pytest.mark.parametrize("hangs", ["prepare", "release"])
def test_a_fence_waits_for_nothing_that_hangs(runner: Runner, monkeypatch: pytest.MonkeyPatch, hangs: str) -> None:
    begun, go_on = threading.Semaphore(0), Event()

    def hang(*_: object, **__: object) -> None:
        begun.release()
        assert go_on.wait(60.0)
        raise FileVanished("the mount is gone")

    place = Authority if hangs == "release" else module
    monkeypatch.setattr(place, hangs, hang)
    prepare = PrepareRequest(
        checkpoint=str(runner.folder), target=str(runner.folder.parent / "t"), operation="op", epoch=2, resume="carry",
        batch=1, offsets={}, target_offsets={},
    )  # fmt: skip
    release = ReleaseRequest(checkpoint=str(runner.folder), planted=(), prepared=None, operation="op")
    requested: dict[str, Message] = {"prepare": prepare, "release": release}
    hung = intent(IntentKind(hangs), requested[hangs].as_json())
    runner.errands.take([replace(hung, id=f"op/{number}") for number in range(30)])
    for _ in range(8):
        assert begun.acquire(timeout=60.0)
    runner.fence()
    assert runner.store.taken[-1] == "answer"
    go_on.set()
    until(lambda: not any(each.name == "intent fence" for each in threading.enumerate()))


def test_a_runner_without_the_companion_maps_no_checkpoint(runner: Runner) -> None:
    """It could not start the query from there, and behind the commit that would be too late."""
    prepare = PrepareRequest(
        checkpoint=str(runner.folder), target=str(runner.folder), operation="op", epoch=2, resume="switch",
        cluster="west", batch=1, offsets={}, target_offsets={},
    )  # fmt: skip
    requested = intent(IntentKind.PREPARE, prepare.as_json())
    runner.errands.take([requested])
    until(lambda: runner.store.answers)
    assert Failure.of(runner.store.answers[-1].result).kind in LASTING
    assert not (runner.folder / MAPPINGS).exists()


def test_a_writer_is_built_beside_its_checkpoint_and_dropped_on_the_way_back(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_before = Event()

    def copying(*_: object, **__: object) -> Any:
        if runner.ahead:
            begun_before.set()
        raise FileVanished("the mount is gone")

    monkeypatch.setattr(module, "prepare", copying)
    prepare = PrepareRequest(
        checkpoint=str(runner.folder), target="/new", operation="op", epoch=2, resume="carry", cluster="west", batch=1,
        offsets={}, target_offsets={},
    )  # fmt: skip
    runner.errands.take([intent(IntentKind.PREPARE, prepare.as_json())])
    assert begun_before.wait(20.0)
    release = ReleaseRequest(checkpoint=str(runner.folder), planted=(), prepared=None, operation="op")
    runner.errands.take([replace(intent(IntentKind.RELEASE, release.as_json()), id="op/release")])
    until(lambda: runner.ahead == [("q", "west from None"), ("q", "forgotten")])


def test_a_fence_begins_the_writer_for_where_the_query_goes(runner: Runner) -> None:
    runner.goes_on_until_it_ends()
    runner.fence("west")
    assert runner.ahead == [("q", "west from None")]


def test_a_fresh_start_is_built_once_its_offsets_are_known(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object, **__: object) -> Any:
        raise FileVanished("the mount is gone")

    monkeypatch.setattr(module, "prepare", find)
    prepare = PrepareRequest(
        checkpoint=str(runner.folder), target="/new", operation="op", epoch=2, resume="fresh", cluster="west", batch=1,
        offsets={}, target_offsets={"0": {"orders": {"0": 7}}},
    )  # fmt: skip
    runner.errands.take([intent(IntentKind.PREPARE, prepare.as_json())])
    until(lambda: runner.ahead == [("q", "west from {'0': {'orders': {'0': 7}}}")])


def test_copies_take_turns_but_for_one_that_takes_long() -> None:
    now = [0.0]
    turns, go_on, inside = CopyTurns(2, 10.0, lambda: now[0]), Event(), threading.Semaphore(0)

    def copy() -> None:
        with turns.one():
            inside.release()
            assert go_on.wait(60.0)

    threads = [threading.Thread(target=copy, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert [inside.acquire(timeout=60.0) for _ in range(2)] == [True, True]
    assert not inside.acquire(timeout=0.1), "a third one has to wait"
    now[0] = 10.0
    assert inside.acquire(timeout=60.0), "until the first two have been at it for long"
    go_on.set()
    for thread in threads:
        thread.join(60.0)
    with turns.one():
        """Each has given its turn back."""


def test_a_fence_ends_the_application_that_no_run_here_shows(runner: Runner, tmp_path: Path) -> None:
    """Its runner was killed, and the next one hosts nothing of a query that is held: that process proves nothing."""
    application = {
        "start": ["true", "{cluster}"], "stop": ["rm", "-f", "running"],
        "status": ["bash", "-c", "[ -e running ] || exit 3"],
    }  # fmt: skip
    declared = SETTINGS.model_dump(by_alias=True, exclude_unset=True)
    del declared["queries"]["q"]["pipeline"]
    declared["queries"]["q"]["application"] = application
    other = Runner(tmp_path / "other", Tideover.model_validate(declared))
    other.hosted = []
    (tmp_path / "other" / "running").touch()
    other.fence()
    assert not (tmp_path / "other" / "running").exists()
    other.errands.close()
    other.tracker.close(10.0)
