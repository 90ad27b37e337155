"""What a hosted query says before it starts anything, and after nothing of it runs any more."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from state.errors import StoreUnavailable
from state.messages import SinkState
from state.model.column_uses import Column
from state.model.entities import Assignment, Desired, RunnerFact, RunState, SeenCheckpoint
from state.settings.keys import Tideover
from state.store.sql.schema import assignments, operations
from streaming.probe.identities import Identities
from streaming.process import Identity
from streaming.pulse import PULSE
from streaming.spark.checkpoint.batch_news import RunName
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import holder, plant, plant_epoch, planted_epochs, unplant
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.mapping import Left, Move, Place, write_move
from streaming.spark.errors import MovedOn, PipelineRaised, RunFenced, SparkMissing
from streaming.spark.hosting import Hosting, NoListener
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.plan_columns import UNREAD
from streaming.spark.query.session import Liveness
from streaming.spark.query.sink_memory import UNKNOWN_SINK, WrittenTo
from streaming.spark.query.writers_ahead import ReadyWriter
from streaming.spark.runner import supervisor as module
from streaming.spark.runner.permission import Permission
from streaming.spark.runner.runner import Runner
from streaming.spark.runner.supervisor import QuerySupervisor
from tests.checkpoints import CheckpointFolder, orders
from tests.contract import samples
from tests.fragile_store import FragileStore
from tests.waiting import until

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HERE = Identity(host="h", boot_id="b", pid=7, pid_started=9)
ROW = Assignment(
    query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="/c",
    starting_offsets=None, operation="op-1", changed_at=NOW,
)  # fmt: skip


ANSWERS = Liveness(lambda: False)
"""A JVM that never gets a call, so that none waits."""


class FakeRun:
    """A run that stops when it is allowed to, and comes to a hold when it may."""

    run_id, is_active = "r", True
    query_id = "8a8f2b0e-6cb3-4a51-a2e8-8f7c8c1fb4d2"
    news: Any = None
    resting = False
    reported = False
    looks = 0
    holding = False
    on_hold = False
    can_go_on_there = True
    is_kept_in_batch = False
    may_leave_in_batch = True
    pins: tuple[tuple[str, str], ...] = ()
    checked_whether: tuple[int, object] | None = None
    silent_for: timedelta | None = None
    went_on: tuple[int, object] | None = None

    def silence(self) -> timedelta | None:
        return self.silent_for

    def keep_in_batch(self) -> bool:
        self.is_kept_in_batch = self.holding
        return self.holding

    def hold(self) -> None:
        self.holding = True

    def unrest_on_hold(self) -> str | None:
        return None if self.holding and self.on_hold else "its batch is not finished"

    def can_go_on(self, epoch: int, sources: object) -> bool:
        self.checked_whether = (epoch, sources)
        return self.can_go_on_there

    def go_on(self, epoch: int, sources: object) -> bool:
        self.went_on = (epoch, sources)
        self.holding = not self.can_go_on_there
        return self.can_go_on_there

    def pin(self, cluster: str, known: str) -> None:
        self.pins = (*self.pins, (cluster, known))

    def begin_stop(self) -> None:
        self.reported = True

    def unrest(self) -> str | None:
        self.looks += 1
        return None if self.resting else "2 tasks of its job group still active"

    def error(self) -> str | None:
        return None

    def trace(self) -> str | None:
        return None


def monitor(**more: Any) -> SimpleNamespace:
    """A look-out that waits as long as it is set."""
    return SimpleNamespace(wait=lambda over, seconds: over.wait(seconds), close=lambda: None, **more)


class Stage:
    """One runner process and the runs that it started."""

    def __init__(self, folder: Path) -> None:
        self.store = FragileStore(lambda: NOW)
        self.runs: list[FakeRun] = []
        self.all: list[QuerySupervisor] = []
        self.folder = folder
        self.strange: str | None = None
        self.companion = self.elsewhere = False
        self.requested = 0
        self.known_id: str | None = None
        self.turns: list[float] = []
        """Seconds that starts wait for their turns, one after the other."""
        """Why the query may not be read where its row says."""
        self.said_at_start: list[RunState] = []
        self.store.adopt(replace(ROW, checkpoint=str(folder)))
        self.register("one")

    def register(self, instance: str) -> None:
        for fact in self.store.runners():
            self.store.unregister(fact.runner, fact.instance)
        self.store.register(
            RunnerFact(
                runner="a", instance=instance, site="", host="h", boot_id="b", pid=7, pid_started=9,
                spark_master="local[4]", application_id="app", warm=False, started_at=NOW, seen_at=NOW,
            )
        )  # fmt: skip

    def is_elsewhere(self, _: str) -> bool:
        self.requested += 1
        return self.elsewhere

    def start(self, *_: object) -> FakeRun:
        self.said_at_start.append(self.store.fact.state)
        self.runs.append(FakeRun())
        return self.runs[-1]

    @property
    def hosting(self) -> Hosting:
        settings = Tideover.model_validate(
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
        return Hosting(
            settings=settings, runner="a", instance="one", spark_master="local[4]", application_id="app",
            base=self.folder, here=HERE, session=cast(Any, None), files=LocalFiles(), store=self.store,
            listener=NoListener(), stranger=lambda row: self.strange, cluster_id=lambda _: self.known_id,
            turn=lambda _: self.turns.pop(0) if self.turns else 0.0, is_elsewhere=self.is_elsewhere,
            companion=self.companion, now=lambda: NOW,
        )  # fmt: skip

    def hosted(self, epoch: int = 1, before: tuple[QuerySupervisor, ...] = (), place: str = "") -> QuerySupervisor:
        """Hosted under a row that the store has by now, from the checkpoint of before or another."""
        row = replace(ROW, epoch=epoch, checkpoint=str(self.folder / place))
        self.store.force(assignments, row)
        self.all.append(QuerySupervisor(self.hosting, row, before))
        return self.all[-1]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    known = Stage(tmp_path)
    monkeypatch.setattr(module, "_STORE_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(module, "prepare_writer", lambda *_: (None, None))
    monkeypatch.setattr(module, "written_to", lambda *_: UNKNOWN_SINK)
    monkeypatch.setattr(module, "uses_in_writer", lambda *_, **__: ())
    monkeypatch.setattr(module, "detach", lambda _: None)
    monkeypatch.setattr(module, "Run", SimpleNamespace(start=known.start))
    monkeypatch.setattr(module, "RunMonitor", lambda *_: monitor(poll=lambda: None, committed_any=False))
    yield known
    known.store.away = False
    for run in known.runs:
        run.resting = True
    for hosted in known.all:
        hosted.close()
        until(lambda hosted=hosted: not hosted.is_alive)  # type: ignore[misc] # bound now


def test_a_start_is_announced_by_its_full_process_name_before_it_begins(stage: Stage) -> None:
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs and stage.store.reported[-1] is RunState.RUNNING)
    assert stage.said_at_start == [RunState.STARTING]
    fact = stage.store.fact
    assert (fact.host, fact.boot_id, fact.pid, fact.pid_started) == ("h", "b", 7, 9)
    assert (fact.spark_master, fact.application_id, fact.instance) == ("local[4]", "app", "one")
    hosted.close()


def test_a_start_waits_for_its_turn_and_is_announced_then(stage: Stage) -> None:
    stage.turns = [0.01, 0.01, 0.0]
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs)
    assert stage.turns == []
    hosted.close()


def test_a_query_that_is_to_stop_does_not_wait_for_its_turn(stage: Stage) -> None:
    stage.turns = [3600.0]
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: not stage.turns)
    hosted.close()
    until(lambda: hosted.is_quiet)
    assert stage.runs == []


def test_a_plan_that_cannot_be_read_stops_no_query_and_may_use_every_column(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise ValueError("a plan of a Spark to come")

    monkeypatch.setattr(module, "uses_in_writer", unreadable)
    monkeypatch.setattr(module, "_READ_SECONDS", 0.1)
    hosted = stage.hosted()
    with capture_logs() as lines:
        hosted.begin()
        until(lambda: hosted._ledger._fact.columns == UNREAD)
    assert [line["error"] for line in lines if line["event"] == "the plan cannot be read"] == [
        "ValueError: a plan of a Spark to come"
    ]
    assert {use.column for use in UNREAD} == set(Column)
    assert not any(use.is_logic for use in UNREAD)
    assert len(stage.runs) == 1
    hosted.close()


def test_a_start_takes_the_writer_that_was_built_ahead(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[object, ...]] = []
    gate = CallbackGate()
    ready = ReadyWriter(cast(Any, None), cast(Any, "built ahead"), gate)
    monkeypatch.setattr(module, "prepare_writer", lambda *_: (None, "built now"))
    monkeypatch.setattr(module, "Run", SimpleNamespace(start=lambda *with_: began.append(with_) or stage.start()))
    ahead = SimpleNamespace(take=lambda row: ready if not began and row.epoch == 1 else None)
    row = stage.hosted()._assignment
    hosted = stage.all[-1] = QuerySupervisor(stage.hosting, row, (), cast(Any, ahead))
    hosted.begin()
    until(lambda: stage.runs)
    assert began == [(None, "built ahead", gate, RunName(row.query, row.epoch, row.checkpoint))]
    hosted.close()
    with pytest.raises(RunFenced):
        gate.watch(lambda *_: None)(cast(Any, None), 1)


def test_log_lines_of_a_run_name_its_query_epoch_and_operation(stage: Stage) -> None:
    with capture_logs() as lines:
        hosted = stage.hosted()
        hosted.begin()
        until(lambda: stage.runs)
        hosted.close()
        stage.runs[0].resting = True
        until(lambda: not hosted.is_alive)
    assert {line["event"] for line in lines} >= {"query started", "query stopped"}
    assert {(line["query"], line["epoch"], line["operation"]) for line in lines} == {("q", 1, "op-1")}


def test_nothing_is_started_that_the_store_did_not_hear_of(stage: Stage) -> None:
    stage.store.away = True
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.tries >= 3)
    assert stage.runs == []
    stage.store.away = False
    until(lambda: stage.runs)
    hosted.close()


# -- a run that is held and continues --------------------------------------------------------------------------------
def holdable(stage: Stage) -> QuerySupervisor:
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs and stage.store.reported[-1] is RunState.RUNNING)
    stage.runs[0].news = SimpleNamespace(close=lambda: None)
    hosted._session = cast(Any, SimpleNamespace())
    return hosted


@pytest.fixture
def first(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> QuerySupervisor:
    """Its run waits in the hold for a move to west, which has written its mapping."""
    monkeypatch.setattr(module, "switched_sources", lambda _, row: {"orders": {"cluster": row.cluster}})
    hosted = holdable(stage)
    assert hosted.hold()
    assert hosted.unrest() == "its batch is not finished"
    stage.runs[0].on_hold = True
    assert hosted.unrest() is None
    hosted.keep_held()
    assert hosted.is_held
    moved(stage.folder)
    return hosted


def following(stage: Stage, before: QuerySupervisor, **changes: Any) -> QuerySupervisor:
    mapping = None if {"cluster", "checkpoint"} & changes.keys() else "2-op-1.1"
    row = replace(ROW, epoch=2, placed_epoch=2, cluster="west", checkpoint=str(stage.folder), mapping=mapping)
    row = replace(row, **changes)
    stage.store.force(assignments, row)
    stage.all.append(QuerySupervisor(stage.hosting, row, (before,)))
    stage.all[-1].begin()
    return stage.all[-1]


def test_a_held_run_continues_where_the_move_leads(stage: Stage, first: QuerySupervisor) -> None:
    second = following(stage, first)
    until(lambda: stage.runs[0].went_on)
    assert stage.runs[0].went_on == (2, {"orders": {"cluster": "west"}})
    assert (len(stage.runs), stage.runs[0].reported) == (1, False), "it was not started again"
    assert holder(LocalFiles(), str(stage.folder)) is None, "the entries that held it are gone"
    until(lambda: first.is_quiet)
    until(lambda: stage.store.fact.state is RunState.RUNNING)
    assert (stage.store.fact.epoch, stage.store.fact.run_id) == (2, "r")
    first.close()
    assert not stage.runs[0].reported, "who gave it away cannot stop it"
    second.close()
    assert stage.runs[0].reported


def test_a_held_run_whose_move_is_given_up_stays_where_it_was(stage: Stage, first: QuerySupervisor) -> None:
    stage.store.force(operations, samples.operation(id="op-1"))
    following(stage, first, placed_epoch=1, cluster="east", operation=None)
    until(lambda: stage.runs[0].went_on)
    assert stage.runs[0].went_on == (2, None)
    assert len(stage.runs) == 1


def test_a_held_run_is_ended_where_its_query_resumes_from_a_copy(stage: Stage, first: QuerySupervisor) -> None:
    following(stage, first, checkpoint=str(stage.folder / "elsewhere"))
    until(lambda: stage.runs[0].reported and len(stage.runs) == 2)
    assert stage.runs[0].went_on is None


def test_a_held_run_is_restarted_where_it_cannot_continue(stage: Stage, first: QuerySupervisor) -> None:
    stage.strange = "west leads to cluster B"
    following(stage, first)
    until(lambda: stage.runs[0].reported)
    until(lambda: stage.store.fact.error == "west leads to cluster B")
    stage.runs[0].resting = True
    stage.strange = None
    until(lambda: len(stage.runs) == 2)
    assert stage.runs[0].went_on is None


def test_a_batch_whose_middle_is_not_found_there_is_run_again(stage: Stage, first: QuerySupervisor) -> None:
    closed: list[str] = []
    stage.runs[0].news = SimpleNamespace(close=lambda: closed.append("news"))
    stage.runs[0].can_go_on_there = False
    stage.runs[0].resting = True
    following(stage, first)
    until(lambda: len(stage.runs) == 2)
    assert stage.runs[0].went_on == (2, {"orders": {"cluster": "west"}})
    assert stage.runs[0].reported, "it is still held"
    until(lambda: stage.store.fact.state is RunState.RUNNING)
    assert stage.store.fact.error is None
    assert closed == ["news"], "its queue and its hold are kept for nobody"


def test_a_move_that_counts_on_a_run_that_cannot_continue_is_refused(stage: Stage, first: QuerySupervisor) -> None:
    row = replace(ROW, epoch=2, placed_epoch=2, cluster="west", checkpoint=str(stage.folder))
    first.require_in_run("r", row)
    assert stage.runs[0].checked_whether == (2, {"orders": {"cluster": "west"}})
    with pytest.raises(MovedOn, match="batch under way of run s cannot continue"):
        first.require_in_run("s", row)
    stage.runs[0].can_go_on_there = False
    with pytest.raises(MovedOn, match="batch under way of run r cannot continue in its run on west"):
        first.require_in_run("r", row)


def test_a_run_is_named_in_its_batch_only_where_that_may_leave_its_cluster(
    stage: Stage, first: QuerySupervisor
) -> None:
    assert first.run_id_in_batch() == "r"
    stage.runs[0].may_leave_in_batch = False
    assert first.run_id_in_batch() is None


def test_a_run_knows_a_new_id_of_its_cluster_at_once(stage: Stage) -> None:
    holdable(stage)
    until(lambda: stage.runs)
    stage.known_id = "A"
    until(lambda: stage.runs[0].pins == (("east", "A"),))
    stage.known_id = "B"
    until(lambda: stage.runs[0].pins == (("east", "A"), ("east", "B")))


def test_only_a_run_that_is_to_be_held_is_kept_in_its_batch(stage: Stage) -> None:
    hosted = holdable(stage)
    assert not hosted.keep_in_batch()
    assert hosted.hold()
    assert hosted.keep_in_batch()
    assert hosted.is_kept_in_batch


def test_a_query_waits_for_its_cluster_as_soon_as_a_part_of_its_run_does(stage: Stage) -> None:
    hosted = holdable(stage)
    assert not hosted.waits_for_cluster
    stage.runs[0].silent_for = timedelta(milliseconds=1)
    assert hosted.waits_for_cluster


def test_a_held_run_that_is_closed_is_stopped(stage: Stage, first: QuerySupervisor) -> None:
    first.close()
    assert stage.runs[0].reported
    assert not first.is_held
    assert first.unrest() == "2 tasks of its job group still active"
    assert first.give_held() is None


@pytest.mark.parametrize("is_given", [True, False])
def test_the_news_of_a_held_run_are_closed_unless_it_is_given_away(
    stage: Stage, first: QuerySupervisor, is_given: bool
) -> None:
    closed: list[str] = []
    stage.runs[0].news = SimpleNamespace(close=lambda: closed.append("news"))
    stage.runs[0].resting = True
    assert not is_given or first.give_held() is not None
    first.close()
    until(lambda: not first.is_alive)
    assert closed == ([] if is_given else ["news"])


def test_a_run_that_publishes_nothing_cannot_be_held(stage: Stage) -> None:
    hosted = holdable(stage)
    stage.runs[0].news = None
    assert not hosted.hold()
    assert not stage.runs[0].holding
    assert hosted.unrest() == "it still runs here"


def test_a_run_that_has_ended_cannot_be_held(stage: Stage) -> None:
    hosted, ended = stage.hosted(), FakeRun()
    ended.is_active, ended.news = False, SimpleNamespace(close=lambda: None)
    hosted._runs = [cast(Any, ended)]
    assert not hosted.hold()
    assert not ended.holding
    ended.is_active = True
    assert hosted.hold()


# -- a move that kept the checkpoint ---------------------------------------------------------------------------------
def moved(folder: Path, operation: str = "op-1") -> CheckpointFolder:
    """A checkpoint that an operation holds and has mapped, with epoch 2."""
    checkpoint, files = CheckpointFolder(folder), LocalFiles()
    checkpoint.commit(0)
    plant(files, str(folder), operation=operation, epoch=2, knows=lambda _: True)
    plant_epoch(files, str(folder), Fence(2, operation))
    places: dict[str, tuple[Place, ...]] = {"0": (Place(there=orders(0), here=orders(0, 900)),)}
    move = Move(epoch=2, operation=operation, left=Left(cluster="east", epoch=0), to="west", places=places)
    write_move(files, str(folder), move, lambda: None)
    return checkpoint


def placed(stage: Stage, **changes: Any) -> QuerySupervisor:
    mapping = None if "cluster" in changes else "2-op-1.1"
    here: dict[str, Any] = {"epoch": 2, "placed_epoch": 2, "cluster": "west", "checkpoint": str(stage.folder)}
    row = replace(ROW, **{**here, "mapping": mapping, **changes})
    stage.store.force(assignments, row)
    stage.all.append(QuerySupervisor(stage.hosting, row))
    return stage.all[-1]


def test_the_entries_of_the_move_that_placed_it_go_before_a_query_starts(stage: Stage) -> None:
    moved(stage.folder)
    assert holder(LocalFiles(), str(stage.folder)) is not None
    begun = placed(stage)
    begun.begin()
    until(lambda: stage.runs)
    assert holder(LocalFiles(), str(stage.folder)) is None
    assert planted_epochs(LocalFiles(), str(stage.folder)) == (Fence(2, "op-1"),), "older runs stay held"


@pytest.mark.parametrize("row", [{"operation": "op-2"}, {"operation": "op-2", "epoch": 3, "placed_epoch": 2}])
def test_entries_of_another_operation_that_is_open_stay(stage: Stage, row: dict[str, Any]) -> None:
    stage.store.force(operations, samples.operation(id="op-1"))
    checkpoint = moved(stage.folder)
    before = checkpoint.files()
    placed(stage, **row).begin()
    until(lambda: stage.runs)
    written = {path for path in checkpoint.files() if path not in before}
    assert written == ({"_tideover_epochs/3-op-2.0"} if row.get("epoch") == 3 else set())
    assert {path: text for path, text in checkpoint.files().items() if path in before} == before


def test_entries_that_a_closed_operation_planted_late_hold_nothing(stage: Stage) -> None:
    """Its runner thawed behind the release, planted once more, and died."""
    stage.store.force(operations, samples.operation(id="op-1", outcome="refused"))
    CheckpointFolder(stage.folder).commit(0)
    plant(LocalFiles(), str(stage.folder), operation="op-1", epoch=2, knows=lambda _: True)
    placed(stage, epoch=4, placed_epoch=1, cluster="east", operation="op-2").begin()
    until(lambda: stage.runs)
    assert holder(LocalFiles(), str(stage.folder)) is None


def test_entries_of_a_takeover_stay_where_a_thawed_runner_starts_a_run(stage: Stage) -> None:
    """The same operation fenced the query again under the next epoch, for this runner was silent."""
    moved(stage.folder)
    plant(LocalFiles(), str(stage.folder), operation="op-1", epoch=3, knows=lambda _: True)
    begun = placed(stage)
    begun.begin()
    until(lambda: stage.runs)
    assert holder(LocalFiles(), str(stage.folder)) == Fence(3, "op-1")


def test_a_query_that_moved_on_unknown_to_the_store_is_not_started(stage: Stage) -> None:
    moved(stage.folder, "lost")
    unplant(LocalFiles(), str(stage.folder), "lost")
    placed(stage, epoch=5, placed_epoch=1, cluster="east").begin()
    until(lambda: stage.store.query_facts() and stage.store.fact.error is not None)
    fact = stage.store.fact
    assert "was moved to west by operation lost of epoch 2, which this store does not know" in (fact.error or "")
    assert (fact.held_by, fact.held_epoch, stage.runs) == ("lost", 2, [])


@pytest.mark.parametrize("name", ["taken", "free"])
def test_nothing_is_started_by_a_process_that_has_lost_its_name(stage: Stage, name: str) -> None:
    stage.register("two")
    if name == "free":
        stage.store.unregister("a", "two")
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.tries >= 3)
    assert stage.runs == []
    assert list(stage.store.query_facts()) == []
    stage.register("one")
    until(lambda: stage.runs)
    hosted.close()


def test_a_name_that_is_lost_after_the_announcement_stops_the_start(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "prepare_writer", lambda *_: (stage.register("two"), None))
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.tries >= 3)
    assert stage.runs == []
    assert stage.store.reported[0] is RunState.STARTING
    hosted.close()


@pytest.mark.parametrize("change", [{"epoch": 2}, {"desired": Desired.HELD}, {"runner": "b"}], ids=str)
def test_a_row_that_changes_after_the_announcement_stops_the_start(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    def prepare(*_: object) -> tuple[None, None]:
        stage.store.force(assignments, replace(ROW, checkpoint=str(stage.folder), **change))
        return None, None

    monkeypatch.setattr(module, "prepare_writer", prepare)
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.tries >= 3 or stage.runs or not hosted.is_alive)
    assert stage.store.reported[0] is RunState.STARTING
    assert stage.runs == []
    hosted.close()


def test_nothing_starts_on_a_cluster_other_than_the_pinned_one(stage: Stage) -> None:
    stage.strange = "east leads to cluster B"
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.reported[-1:] == [RunState.FAILED])
    assert stage.runs == []
    assert stage.store.fact.error == "east leads to cluster B"
    stage.strange = None
    until(lambda: stage.runs)
    hosted.close()


def test_a_run_whose_cluster_is_another_one_is_stopped_and_looked_at_no_more(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str | None] = []
    seeing = monitor(poll=lambda: looks.append(stage.strange), committed_any=True)
    monkeypatch.setattr(module, "RunMonitor", lambda *_: seeing)
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: looks)
    stage.strange = "east leads to cluster B"
    until(lambda: stage.runs[0].reported)
    until(lambda: stage.store.reported[-1] is RunState.FAILED)
    assert stage.store.fact.error == "east leads to cluster B"
    assert stage.strange not in looks[:-1], "a look that had begun may end"
    stage.runs[0].resting = True
    hosted.close()


def test_a_run_with_the_companion_stays_as_its_endpoint_turns(stage: Stage) -> None:
    stage.companion = stage.elsewhere = True
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs)
    looks = stage.runs[0].pins
    stage.strange, stage.known_id = "endpoint dr leads to west now", "A"
    until(lambda: stage.runs[0].pins != looks, "it is looked at again")
    until(lambda: stage.requested >= 5)
    assert not stage.runs[0].reported
    hosted.close()


def test_a_run_without_the_companion_stops_as_its_endpoint_turns(stage: Stage) -> None:
    stage.elsewhere = True
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs)
    stage.strange = "endpoint dr leads to west now"
    until(lambda: stage.runs[0].reported)
    until(lambda: stage.store.reported[-1] is RunState.FAILED)
    stage.runs[0].resting = True
    hosted.close()


def test_it_says_stopped_only_when_nothing_of_it_runs_any_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "_RESTLESS_LOOK_SECONDS", 0.01)
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs)
    hosted.close()
    until(lambda: stage.store.fact.error)
    assert stage.runs[0].reported
    assert stage.store.fact.error == "ordered to stop, but 2 tasks of its job group still active"
    assert RunState.STOPPED not in stage.store.reported
    stage.runs[0].resting = True
    until(lambda: stage.store.fact.state is RunState.STOPPED)


def test_an_earlier_run_that_still_writes_keeps_a_later_one_from_stopped(stage: Stage) -> None:
    first = stage.hosted()
    first.begin()
    until(lambda: stage.runs)
    first.close()
    second = stage.hosted(3, (first,), place="moved")
    second.begin()
    until(lambda: len(stage.runs) == 2)
    second.close()
    stage.runs[1].resting = True
    looked = stage.runs[0].looks
    until(lambda: stage.runs[0].looks >= looked + 3)
    assert stage.store.fact.state is not RunState.STOPPED
    stage.runs[0].resting = True
    until(lambda: stage.store.fact.state is RunState.STOPPED)
    assert stage.store.fact.epoch == 3


def test_nothing_starts_from_a_checkpoint_that_is_still_written_to(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back where it was, without a fence in between; the watcher gets word, and it starts once the other is quiet."""
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "pause_seconds", lambda _: 0.01)
    first = stage.hosted()
    first.begin()
    until(lambda: stage.runs)
    first.close()
    second = stage.hosted(3, (first,))
    second.begin()
    until(lambda: stage.store.fact.state is RunState.FAILED)
    assert stage.store.fact.error == "q still runs here from before: 2 tasks of its job group still active"
    assert len(stage.runs) == 1
    stage.runs[0].resting = True
    until(lambda: len(stage.runs) == 2)
    until(lambda: stage.store.fact.state is RunState.RUNNING)


def test_a_query_that_is_closed_just_before_its_start_never_starts(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted, requested = stage.hosted(), threading.Event()

    def close(*_: object) -> WrittenTo:
        hosted.close()
        requested.set()
        return UNKNOWN_SINK

    monkeypatch.setattr(module, "written_to", close)
    hosted.begin()
    assert requested.wait(60.0)
    until(lambda: hosted.unrest() is None)
    assert stage.runs == []


def test_a_query_is_not_quiet_while_a_start_of_it_has_not_returned(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def start(*_: object) -> FakeRun:
        begun.set()
        assert go_on.wait(60.0)
        return stage.start()

    monkeypatch.setattr(module, "Run", SimpleNamespace(start=start))
    hosted = stage.hosted()
    hosted.begin()
    assert begun.wait(60.0)
    hosted.close()
    assert hosted.unrest() == "a start was under way and has not returned"
    go_on.set()
    until(lambda: stage.runs and stage.runs[0].reported)
    assert hosted.unrest() == "2 tasks of its job group still active"


def test_a_failed_run_is_not_followed_by_another_while_its_tasks_still_write(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "pause_seconds", lambda _: 0.01)
    monkeypatch.setattr(FakeRun, "is_active", False)
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: (stage.store.fact.error or "").startswith("q still runs here from before"))
    assert len(stage.runs) == 1
    stage.runs[0].resting = True
    until(lambda: len(stage.runs) == 2)
    hosted.close()


def test_callbacks_of_the_present_run_show_whether_the_sink_has_a_batch(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gates: list[CallbackGate] = []

    def prepare(_hosting: object, _assignment: object, gate: CallbackGate) -> tuple[None, None]:
        gates.append(gate)
        return None, None

    monkeypatch.setattr(module, "prepare_writer", prepare)
    hosted = stage.hosted()
    assert hosted.sink_state(4) is SinkState.UNKNOWN, "nothing has been started"
    hosted.begin()
    until(lambda: stage.runs)
    gates[0].watch(lambda *_: None)(cast(Any, None), 4)
    assert (hosted.sink_state(4), hosted.sink_state(5)) == (SinkState.HAS, SinkState.HAS_NOT)


def test_an_ending_runner_reports_only_quiet_queries_stopped(stage: Stage) -> None:
    given_back: list[str] = []
    registration = cast(Any, SimpleNamespace(give_back=lambda: given_back.append("a")))
    runner = Runner(stage.hosting, registration, cast(Any, None), ANSWERS, Identities(stage.hosting.settings))
    runner._obey(stage.store.assignments())
    until(lambda: stage.runs and stage.store.reported[-1] is RunState.RUNNING)
    assert not runner.close(0.1)
    assert RunState.STOPPED not in stage.store.reported
    assert given_back == []
    stage.all += runner._everything()
    stage.runs[0].resting = True
    until(lambda: stage.store.fact.state is RunState.STOPPED)


def test_the_session_of_each_start_is_let_go_once_its_run_is_quiet(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[Any] = []
    sessions = iter(range(1000))
    monkeypatch.setattr(module, "pause_seconds", lambda _: 0.01)
    monkeypatch.setattr(module, "prepare_writer", lambda *_: (next(sessions), None))
    monkeypatch.setattr(module, "detach", gone.append)
    monkeypatch.setattr(FakeRun, "is_active", False)
    monkeypatch.setattr(FakeRun, "resting", True)
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: len(stage.runs) >= 3)
    hosted.close()
    until(lambda: not hosted.is_alive)
    assert gone == list(range(next(sessions)))


def test_a_failed_run_logs_its_traceback_and_reports_its_last_line(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRun, "is_active", False)
    monkeypatch.setattr(FakeRun, "resting", True)
    monkeypatch.setattr(FakeRun, "error", lambda _: "ValueError: no such customer (Python worker, shop.py:12)")
    monkeypatch.setattr(FakeRun, "trace", lambda _: "Traceback (most recent call last):\n  ...")
    with capture_logs() as lines:
        hosted = stage.hosted()
        hosted.begin()
        until(lambda: stage.store.reported[-1:] == [RunState.FAILED])
        hosted.close()
    assert stage.store.fact.error == "ValueError: no such customer (Python worker, shop.py:12)"
    failed = next(line for line in lines if line["event"] == "query failed")
    assert failed["trace"] == "Traceback (most recent call last):\n  ..."


def test_a_stop_is_reported_again_until_the_store_has_it(stage: Stage) -> None:
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.reported[-1:] == [RunState.RUNNING])
    stage.store.away = True
    stage.runs[0].resting = True
    tried = stage.store.tries
    hosted.close()
    until(lambda: stage.store.tries >= tried + 3)
    stage.store.away = False
    until(lambda: stage.store.fact.state is RunState.STOPPED)


def test_a_run_that_never_announced_a_start_reports_nothing(stage: Stage) -> None:
    stage.register("two")
    hosted = stage.hosted()
    hosted.close()
    hosted.begin()
    until(lambda: not hosted.is_alive)
    assert stage.store.reported == []


def test_every_log_line_about_a_query_names_its_epoch_and_operation(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raises(*_: object) -> None:
        raise PipelineRaised("the pipeline raised")

    def is_said(lines: list[Any], event: str) -> bool:
        return any(line["event"] == event for line in lines)

    first = stage.store.assignment("q")
    assert first is not None
    stranger = replace(first, query="stranger", operation="op-2", epoch=7)
    held = replace(first, epoch=2, desired=Desired.HELD, operation="op-3")
    fails = replace(held, epoch=3, desired=Desired.RUNNING, operation="op-4")
    monkeypatch.setattr(FakeRun, "resting", True)
    with capture_logs() as lines:
        runner = Runner(stage.hosting, cast(Any, None), cast(Any, None), ANSWERS, Identities(stage.hosting.settings))
        runner._obey([first, stranger])
        until(lambda: is_said(lines, "query started"))
        runner._obey([held, stranger])
        until(lambda: is_said(lines, "query stopped"))
        monkeypatch.setattr(module, "prepare_writer", raises)
        monkeypatch.setattr(Permission, "require_row", lambda _: None)
        runner._obey([fails])
        until(lambda: is_said(lines, "query failed"))
        runner._obey([replace(fails, epoch=4, desired=Desired.HELD, operation="op-5")])
        stage.all += runner._everything()
        until(lambda: not any(each.is_alive for each in stage.all))
    about = {(line["event"], line["query"], line["epoch"], line["operation"]) for line in lines if "query" in line}
    assert about == {
        ("query started", "q", 1, "op-1"),
        ("query is assigned here but not in the configuration", "stranger", 7, "op-2"),
        ("stopping query", "q", 2, "op-3"),
        ("query stopped", "q", 1, "op-1"),
        ("query failed", "q", 3, "op-4"),
        ("stopping query", "q", 4, "op-5"),
        ("query stopped", "q", 3, "op-4"),
    }
    assert [line["ran_under"] for line in lines if line["event"] == "stopping query"] == [1, 3]


def test_a_runner_says_why_it_starts_nothing_by_an_older_row(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_reported() -> bool:
        runner._obey([first])
        return stage.store.reported[-1:] == [RunState.FAILED]

    first = replace(ROW, checkpoint=str(tmp_path / "held"))
    monkeypatch.setattr(FakeRun, "resting", True)
    with capture_logs() as lines:
        runner = Runner(stage.hosting, cast(Any, None), cast(Any, None), ANSWERS, Identities(stage.hosting.settings))
        runner._obey([replace(first, epoch=2, desired=Desired.HELD, operation="lost")])
        plant(LocalFiles(), first.checkpoint, operation="lost", epoch=2, knows=lambda _: True)
        until(is_reported)
    (said,) = (line["why"] for line in lines if line["event"] == "query not started")
    assert said == (
        "the store says epoch 1 of q, but said 2 before: the store was restored from an older backup; "
        "tideover reconcile q"
    )
    fact = stage.store.fact
    assert (fact.epoch, fact.error, fact.held_by, fact.held_epoch) == (1, said, "lost", 2)
    assert "query started" not in {line["event"] for line in lines}


def test_a_runner_whose_application_has_ended_ends_though_its_jvm_lives(stage: Stage) -> None:
    def away() -> None:
        raise StoreUnavailable("the store is away")

    runner = Runner(
        stage.hosting,
        cast(Any, SimpleNamespace(renew=away)),
        cast(Any, None),
        ANSWERS,
        Identities(stage.hosting.settings),
    )
    runner.lose_application()
    with pytest.raises(SparkMissing, match="the Spark application has ended"):
        runner.run()


def test_a_runner_shows_that_its_loop_turns_while_the_store_is_away(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def away() -> None:
        runner.request_stop()
        raise StoreUnavailable("the store is away")

    monkeypatch.setenv(PULSE, str(tmp_path / "pulse"))
    runner = Runner(
        stage.hosting,
        cast(Any, SimpleNamespace(renew=away)),
        cast(Any, None),
        ANSWERS,
        Identities(stage.hosting.settings),
    )
    runner.run()
    assert (tmp_path / "pulse").exists()


@pytest.mark.parametrize(("master", "quiet"), [("local[4]", True), ("spark://master:7077", False)])
def test_a_runner_of_an_ended_application_is_quiet_without_executors(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, master: str, quiet: bool
) -> None:
    def silent(_: FakeRun) -> str | None:
        raise SparkMissing("the Spark application has ended")

    given_back: list[str] = []
    hosting = replace(stage.hosting, spark_master=master)
    registration = cast(Any, SimpleNamespace(give_back=lambda: given_back.append("a")))
    runner = Runner(hosting, registration, cast(Any, None), ANSWERS, Identities(hosting.settings))
    runner._obey(stage.store.assignments())
    until(lambda: stage.runs)
    monkeypatch.setattr(FakeRun, "unrest", silent)
    runner.lose_application()
    assert runner.close(0.2) is quiet
    assert given_back == (["a"] if quiet else [])
    monkeypatch.setattr(FakeRun, "unrest", lambda _: None)
    stage.all += runner._everything()
    until(lambda: not any(each.is_alive for each in stage.all))


MISSING = {
    "metadata": "it has batch logs, but no file metadata",
    "offsets/0": "batch 0 is committed, but offsets/0 is missing",
    "offsets": "batch 0 is committed, but offsets/0 is missing",
    "_tideover_mappings": "the query came to west by a mapping of epoch 2, and _tideover_mappings has none of it",
}


@pytest.mark.parametrize("gone", MISSING)
def test_a_query_is_not_started_from_a_checkpoint_of_which_files_are_missing(stage: Stage, gone: str) -> None:
    """A missing file never means that nothing happened."""
    checkpoint = moved(stage.folder)
    checkpoint.write("metadata", '{"id":"8a8f2b0e-6cb3-4a51-a2e8-8f7c8c1fb4d2"}')
    assert LocalFiles().delete(f"{stage.folder}/{gone}", recursive=True)
    placed(stage, mapping="2-op-1.1").begin()
    until(lambda: stage.store.query_facts() and stage.store.fact.error is not None)
    assert MISSING[gone] in (stage.store.fact.error or "")
    assert stage.runs == []


@pytest.mark.parametrize("gone", ["_tideover_epochs", "commits", "sources"])
def test_a_query_is_started_where_only_what_a_start_makes_again_is_missing(stage: Stage, gone: str) -> None:
    checkpoint = moved(stage.folder)
    checkpoint.write("sources/0/0", "0v1")
    assert LocalFiles().delete(f"{stage.folder}/{gone}", recursive=True)
    placed(stage, mapping="2-op-1.1").begin()
    until(lambda: stage.runs)


def test_a_copy_of_a_moved_checkpoint_without_our_files_is_refused_in_words(stage: Stage) -> None:
    checkpoint = CheckpointFolder(stage.folder)
    checkpoint.commit(0, {**orders(0), "@west": {"epoch": 2}})
    placed(stage, epoch=2, placed_epoch=1, cluster="east").begin()
    until(lambda: stage.store.query_facts() and stage.store.fact.error is not None)
    assert "and no mapping leads from there" in (stage.store.fact.error or "")
    assert stage.runs == []


def test_a_query_is_not_started_where_the_store_knows_a_later_batch(stage: Stage) -> None:
    """Its commit was deleted: Spark would give the sink that batch again, and say nothing."""
    checkpoint = CheckpointFolder(stage.folder)
    checkpoint.commit(0)
    checkpoint.plan(1)
    stage.store.report_query(
        samples.fact(query="q", seen=SeenCheckpoint(str(stage.folder), 1, 1, 1, None, False), state=RunState.STOPPED)
    )
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.store.fact.contradicted is not None)
    said = f"{stage.folder}: its run of epoch 1 reported that batch 1 is committed, but the newest is commits/0"
    assert stage.store.fact.contradicted == said
    assert "tideover reconcile q --consent repeats" in (stage.store.fact.error or "")
    assert stage.runs == []
    checkpoint.commit(1)
    until(lambda: stage.runs)
    until(lambda: stage.store.fact.contradicted is None)


def test_a_running_query_reports_how_far_its_checkpoint_is(stage: Stage) -> None:
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs and stage.store.reported[-1] is RunState.RUNNING)
    ledger = hosted._ledger
    ledger.has_batch(3, committed=True)
    ledger.has_batch(4, committed=False)
    ledger.report()
    seen = SeenCheckpoint(str(stage.folder), 1, 4, 3, FakeRun.query_id, None)
    assert stage.store.fact.seen == seen


def test_a_batch_that_ends_behind_the_last_look_is_known_to_the_store(stage: Stage) -> None:
    """It is committed between the order to stop and the end of the run."""
    hosted = stage.hosted()
    hosted.begin()
    until(lambda: stage.runs and stage.store.reported[-1] is RunState.RUNNING)
    hosted._ledger.has_batch(3, committed=True)
    hosted.close()
    until(lambda: stage.runs[0].reported)
    checkpoint = CheckpointFolder(stage.folder)
    checkpoint.commit(4)
    plant(LocalFiles(), str(stage.folder), operation="op-2", epoch=2, knows=lambda _: True)
    stage.runs[0].resting = True
    until(lambda: stage.store.fact.state is RunState.STOPPED)
    assert stage.store.fact.seen == SeenCheckpoint(str(stage.folder), 1, 4, 4, FakeRun.query_id, None)


def test_a_mapping_that_was_deleted_is_restored_from_the_store(stage: Stage) -> None:
    checkpoint = moved(stage.folder)
    checkpoint.write("metadata", '{"id":"8a8f2b0e-6cb3-4a51-a2e8-8f7c8c1fb4d2"}')
    name = "_tideover_mappings/2-op-1.1"
    before = checkpoint.text(name)
    stage.store.keep_mapping("q", "2-op-1.1", before)
    LocalFiles().delete(f"{stage.folder}/_tideover_mappings", recursive=True)
    placed(stage, mapping="2-op-1.1").begin()
    until(lambda: stage.runs)
    assert checkpoint.text(name) == before


def test_a_mapping_that_differs_from_what_the_store_kept_is_refused(stage: Stage) -> None:
    checkpoint = moved(stage.folder)
    stage.store.keep_mapping("q", "2-op-1.1", checkpoint.text("_tideover_mappings/2-op-1.1"))
    stage.store.keep_mapping("q", "2-op-1.1", "the first one stays")
    before = checkpoint.text("_tideover_mappings/2-op-1.1")
    checkpoint.write("_tideover_mappings/2-op-1.1", before.replace("910", "911"))
    placed(stage, mapping="2-op-1.1").begin()
    until(lambda: stage.store.query_facts() and stage.store.fact.contradicted is not None)
    assert "says something else than the store kept of it" in (stage.store.fact.error or "")
    assert stage.runs == []


def test_a_start_gives_the_store_the_mapping_that_it_lacks(stage: Stage) -> None:
    """It was restored from a backup older than the move, and was reconciled since."""
    checkpoint = moved(stage.folder)
    placed(stage, mapping="2-op-1.1").begin()
    until(lambda: stage.runs)
    assert stage.store.mappings("q") == {"2-op-1.1": checkpoint.text("_tideover_mappings/2-op-1.1")}


def test_a_start_takes_back_a_cut_that_was_broken_off(stage: Stage) -> None:
    """The process died between taking the entry of the planned batch away and creating the smaller one."""
    checkpoint = CheckpointFolder(stage.folder)
    checkpoint.commit(0)
    checkpoint.plan(1)
    before = checkpoint.files()
    cutting = {"batch": 1, "epoch": 1, "former": checkpoint.text("offsets/1"), "content": "smaller"}
    checkpoint.write("_tideover_cut/1", json.dumps(cutting))
    LocalFiles().delete(f"{stage.folder}/offsets/1")
    stage.hosted().begin()
    until(lambda: stage.runs)
    assert checkpoint.files() == before
    assert stage.store.fact.seen is not None
    assert stage.store.fact.seen.ended_in_batch == 1, "it is counted before the run begins"
