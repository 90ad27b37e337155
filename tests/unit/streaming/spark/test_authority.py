"""Who may write beside a checkpoint: a runner that was frozen writes nothing for an operation that is over."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from state.errors import StoreUnavailable
from state.messages import FenceRequest, PrepareRequest, ReleaseRequest
from state.model.entities import Assignment, Desired, Intent, IntentKind, IntentState
from state.store.sql.schema import assignments, intents, operations
from streaming.process import own_identity
from streaming.spark.authority import Authority, clear, counts, restore_epoch
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import holder, plant, planted_epochs, release
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import Placed, all_moves
from streaming.spark.errors import MovedOn, Overtaken
from streaming.spark.hosting import Hosting
from streaming.spark.query.sink_memory import UNKNOWN_SINK
from streaming.spark.runner import intents as module
from streaming.spark.runner.fence import FenceContext, FinishWait, fence
from streaming.spark.runner.intents import IntentWorker
from tests.checkpoints import CheckpointFolder, orders
from tests.contract import samples
from tests.memory_store import MemoryStore
from tests.unit.streaming.spark.runner.test_intents import SETTINGS
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FILES = LocalFiles()
DECLARED = {"orders": ["orders"]}


class World:
    """Query ``q``, held by operation ``op`` under epoch 2, and a fence of it that is requested of runner ``a``."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = CheckpointFolder(folder / "checkpoint")
        for batch in range(3):
            self.checkpoint.commit(batch)
        self.path = str(self.checkpoint.path)
        self.before = self.checkpoint.files()
        self.store = MemoryStore(lambda: NOW)
        self.row = Assignment(
            query="q", epoch=2, placed_epoch=1, desired=Desired.HELD, cluster="east", runner="a", checkpoint=self.path,
            starting_offsets=None, operation="op", changed_at=NOW,
        )  # fmt: skip
        self.store.force(assignments, self.row)
        self.store.force(operations, samples.operation(id="op", query="q", epoch=2))
        self.store.force(intents, self.requested(IntentKind.FENCE))

    def requested(self, kind: IntentKind, attempt: int = 1, **changes: Any) -> Intent:
        requests = {
            IntentKind.FENCE: FenceRequest(
                checkpoint=self.path, epoch=2, operation="op", hosting=None, wait_seconds=0.0
            ),
            IntentKind.PREPARE: PrepareRequest(
                checkpoint=self.path, target=self.path, operation="op", epoch=2, resume="switch", cluster="west",
                attempt=attempt, batch=2, offsets={"orders": orders(2)}, target_offsets={"orders": orders(2, 900)},
            ),
            IntentKind.RELEASE: self.undo(),
        }  # fmt: skip
        name = Intent.name_of(kind, attempt - 1)
        wanted = Intent(
            id=f"op/{name}", operation="op", name=name, kind=kind, query="q", runner="a", epoch=2,
            request=requests[kind].as_json(), state=IntentState.PENDING, result=None, created_at=NOW, ended_at=None,
        )  # fmt: skip
        return replace(wanted, **changes)

    def undo(self) -> ReleaseRequest:
        return ReleaseRequest(checkpoint=self.path, planted=(), prepared=None, operation="op", mapped=True, epoch=2)

    def cancel(self) -> None:
        """Another runner fences and releases; the query is given back under the next epoch."""
        plant(FILES, self.path, operation="op", epoch=2, attempt=2, knows=lambda _: True)
        release(FILES, self.undo())
        self.store.force(operations, samples.operation(id="op", query="q", epoch=2, outcome="refused"))
        self.store.force(assignments, replace(self.row, epoch=3, desired=Desired.RUNNING))

    def commit(self) -> None:
        """Another runner fenced and mapped it; it runs on west, from this very checkpoint."""
        Authority(FILES, self.path, Fence(2, "op", 2), lambda: None).plant_epoch()
        changed = replace(self.row, desired=Desired.RUNNING, cluster="west", placed_epoch=2, runner="b")
        self.store.force(assignments, changed)

    def context(self) -> FenceContext:
        return FenceContext(
            instance="a", here=own_identity(), spark=SETTINGS.spark, files=FILES, knows=lambda _: True,
            still=counts(self.store, self.requested(IntentKind.FENCE)), with_sink=lambda report, _: report,
        )  # fmt: skip

    def fence(self, hosted: "Frozen") -> None:
        request = FenceRequest.of(self.requested(IntentKind.FENCE).request)
        fence(
            self.context(), request, FinishWait(request, lambda: False), [cast(Any, hosted)], DECLARED,
            lambda: UNKNOWN_SINK, Placed("east", 0),
        )  # fmt: skip


class Frozen:
    """A hosted run, at the look at which its process is frozen for a while."""

    is_finishing = is_held = is_kept_in_batch = False

    def __init__(self, at: str, happens: Callable[[], None]) -> None:
        self._at, self._happens = at, happens

    def close(self) -> None:
        self._thaw("before it plants")

    def unrest(self) -> None:
        self._thaw("between two plantings")

    def sink_state(self, _batch: int) -> Any:
        return None

    def _thaw(self, at: str) -> None:
        if self._at == at:
            self._at = ""
            self._happens()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


FREEZES = ["before it plants", "between two plantings"]


@pytest.mark.parametrize("at", FREEZES)
def test_a_fence_that_thaws_when_its_move_was_cancelled_leaves_nothing(world: World, at: str) -> None:
    with pytest.raises((Overtaken, MovedOn)):
        world.fence(Frozen(at, world.cancel))
    assert world.checkpoint.files() == world.before


@pytest.mark.parametrize("at", FREEZES)
def test_a_fence_that_thaws_behind_the_commit_plants_nothing(world: World, at: str) -> None:
    with pytest.raises(Overtaken):
        world.fence(Frozen(at, world.commit))
    assert holder(FILES, world.path) is None
    assert planted_epochs(FILES, world.path) == (Fence(2, "op", 2),), "that of the other attempt stays"


def test_a_fence_that_is_taken_back_is_not_begun(world: World) -> None:
    world.store.report(
        replace(world.requested(IntentKind.FENCE), state=IntentState.FAILED, result={"kind": "withdrawn"})
    )
    with pytest.raises(Overtaken, match="fence of operation op was taken back from this runner"):
        world.fence(Frozen("never", world.cancel))
    assert world.checkpoint.files() == world.before


def test_entries_of_a_later_attempt_are_not_taken_from_it(world: World) -> None:
    """Both attempts plant the same entries: a late attempt takes back what bears its own token."""
    first, second = (Authority(FILES, world.path, Fence(2, "op", attempt), lambda: None) for attempt in (1, 2))
    assert first.plant(lambda _: True) == (3, 4)
    assert second.plant(lambda _: True) == (3, 4)
    with pytest.raises(MovedOn, match="attempt 2, holds"):
        first.plant(lambda _: True)
    first.take_back_fence()
    assert holder(FILES, world.path) == Fence(2, "op", 2)
    second.take_back_fence()
    assert world.checkpoint.files() == world.before


def test_the_report_tries_a_store_that_is_away_again(world: World) -> None:
    requested: list[bool] = []

    def away() -> None:
        requested.append(True)
        if len(requested) > 1:
            raise StoreUnavailable

    authority = Authority(FILES, world.path, Fence(2, "op"), away)
    with authority.writing():
        authority.plant(lambda _: True)
    assert holder(FILES, world.path) == Fence(2, "op")


def worker_of(world: World, monkeypatch: pytest.MonkeyPatch) -> IntentWorker:
    """A worker for which no look at the store stops an intent."""
    hosting = Hosting(
        settings=SETTINGS, runner="a", instance="one", spark_master="local[4]", application_id="app", base=Path(),
        here=own_identity(), session=cast(Any, None), files=FILES, store=world.store,
        listener=cast(Any, SimpleNamespace(catch_up=lambda *_: True)), is_silent=lambda _: False, now=lambda: NOW,
    )  # fmt: skip
    monkeypatch.setattr(module, "counts", lambda _store, _intent: lambda: None)
    monkeypatch.setattr(IntentWorker, "_require_companion", lambda *_: None)
    return IntentWorker(hosting, lambda _: [], cast(Any, SimpleNamespace(sink=lambda _: UNKNOWN_SINK)))


@pytest.mark.parametrize("kind", [IntentKind.FENCE, IntentKind.PREPARE])
def test_an_answer_that_the_store_refuses_takes_back_what_was_written(
    world: World, kind: IntentKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken back between the last look at the store and the report."""
    if kind is IntentKind.PREPARE:  # the fence of the same number stays: the next attempt needs it
        plant(FILES, world.path, operation="op", epoch=2, knows=lambda _: True)
    before = world.checkpoint.files()
    worker = worker_of(world, monkeypatch)
    written: list[dict[str, str]] = []

    def refuses(intent: Intent) -> bool:
        assert intent.state is IntentState.DONE, intent.result
        written.append(world.checkpoint.files())
        return False

    monkeypatch.setattr(world.store, "report", refuses)
    worker.take([world.requested(kind)])
    until(lambda: written and world.checkpoint.files() == before)
    assert written[0] != before


def test_a_fence_that_thaws_late_leaves_the_mapping_of_its_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another runner answered the second request for a fence, and then the first one for a mapping."""
    plant(FILES, world.path, operation="op", epoch=2, attempt=2, knows=lambda _: True)
    worker = worker_of(world, monkeypatch)
    request = world.requested(IntentKind.PREPARE)
    world.store.force(intents, request)
    worker.take([request])
    until(lambda: [move.attempt for move in all_moves(FILES, world.path)] == [1])
    before = world.checkpoint.files()
    late = Authority(FILES, world.path, Fence(2, "op", 1), Mock(side_effect=[None, Overtaken("it is over")]))
    with pytest.raises(Overtaken), late.writing():
        late.plant_epoch(is_held=True)
    assert world.checkpoint.files() == before


def test_a_mapping_is_not_left_where_its_request_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from streaming.spark.checkpoint.carry import prepare

    plant(FILES, world.path, operation="op", epoch=2, knows=lambda _: True)
    looks: list[float] = []

    def still() -> None:
        looks.append(time.monotonic())
        if len(looks) > 1:
            raise Overtaken("it is over")

    request = PrepareRequest.of(world.requested(IntentKind.PREPARE).request)
    with pytest.raises(Overtaken):
        prepare(FILES, request, DECLARED, placed=Placed("east", 0), still=still)
    assert all_moves(FILES, world.path) == []


def test_the_store_knows_a_mapping_before_its_move_is_committed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(FILES, world.path, operation="op", epoch=2, knows=lambda _: True)
    worker = worker_of(world, monkeypatch)
    known: list[dict[str, str]] = []

    def hears(intent: Intent) -> bool:
        assert intent.state is IntentState.DONE, intent.result
        known.append(dict(world.store.mappings("q")))
        return True

    monkeypatch.setattr(world.store, "report", hears)
    worker.take([world.requested(IntentKind.PREPARE)])
    until(lambda: known)
    assert known == [{"2-op.1": world.checkpoint.text("_tideover_mappings/2-op.1")}]


def test_a_release_for_an_operation_that_is_over_removes_nothing(world: World) -> None:
    """The checkpoint may be held again, by the takeover of the very operation."""
    plant(FILES, world.path, operation="op", epoch=2, knows=lambda _: True)
    requests = world.requested(IntentKind.RELEASE)
    world.store.force(assignments, replace(world.row, epoch=3))
    late = Authority(FILES, world.path, Fence(2, "op"), counts(world.store, requests))
    with pytest.raises(Overtaken, match="does not hold q under epoch 2"):
        late.release(world.undo())
    assert holder(FILES, world.path) == Fence(2, "op")


def test_a_start_writes_the_epoch_again_that_the_folder_lost(world: World) -> None:
    row = replace(world.row, epoch=3, desired=Desired.RUNNING)
    for lost in (True, False):
        assert restore_epoch(FILES, row) is lost, "a second start finds it"
        assert [(each.epoch, each.operation) for each in planted_epochs(FILES, world.path)] == [(3, "op")]
    assert not restore_epoch(FILES, replace(row, epoch=2)), "a newer one is there, and ends this run"
    release(FILES, world.undo())
    assert [each.epoch for each in planted_epochs(FILES, world.path)] == [3], "a late release of epoch 2 leaves it"


def test_the_first_epoch_writes_nothing_and_a_row_without_operation_does(world: World) -> None:
    first = replace(world.row, epoch=1, operation=None)
    assert not restore_epoch(FILES, first)
    assert world.checkpoint.files() == world.before
    assert restore_epoch(FILES, replace(first, epoch=2))
    assert [each.epoch for each in planted_epochs(FILES, world.path)] == [2]


def test_the_start_removes_what_holds_nothing_and_nothing_else(world: World) -> None:
    row = replace(world.row, epoch=3, desired=Desired.RUNNING)
    plant(FILES, world.path, operation="other", epoch=2, knows=lambda _: True)
    assert clear(FILES, row, lambda _: False) == frozenset()
    assert clear(FILES, row, lambda operation: operation == "other") == {"other"}
    plant(FILES, world.path, operation="op", epoch=3, knows=lambda _: True)
    assert clear(FILES, row, lambda _: False) == {"op"}
    plant(FILES, world.path, operation="op", epoch=4, knows=lambda _: True)
    assert clear(FILES, row, lambda _: False) == frozenset(), "a newer fence of the same operation"
