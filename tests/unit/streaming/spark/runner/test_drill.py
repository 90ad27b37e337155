"""A runner rehearses from a copy, reports nothing of it as the query's, and leaves nothing behind, however it ends."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from state.checkpoint_folders import drill_folder, is_of_drill, read_drill_folder, read_folder
from state.drill_messages import DrillReport, DrillRequest
from state.messages import FenceRequest, PrepareRequest
from state.model.entities import (
    Assignment,
    Desired,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
)
from state.model.measured import NOTHING
from state.settings.keys import Tideover
from state.store.write_checks import CONTROLLER
from streaming.process import own_identity
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import DrillFailed
from streaming.spark.hosting import Hosting, NoListener
from streaming.spark.runner import drill as module
from streaming.spark.runner.drill import rehearse, sweep
from streaming.spark.runner.intents import IntentWorker
from tests.checkpoints import CheckpointFolder, orders
from tests.memory_store import MemoryStore
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHIFT = 900
SETTINGS = Tideover.model_validate(
    {
        "store": "sqlite://",
        "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
        "routes": [{"from": "east", "to": "west"}],
        "runners": {"a": {}},
        "queries": {
            "q": {
                "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
                "runners": ["a"], "checkpoint": "cp",
            }
        },
    }
)  # fmt: skip


class FakeWriter:
    """Remembers what it was given, and writes nothing."""

    def __init__(self) -> None:
        self.options: dict[str, object] = {}

    def option(self, name: str, value: str) -> "FakeWriter":
        self.options[name] = value
        return self

    def trigger(self, **options: str) -> "FakeWriter":
        self.options |= options
        return self


@dataclass
class FakeRun:
    """A run of the copy: what Spark would say of it, and the entry of the batch that it plans."""

    target: Path
    rows: list[int]
    """Of each run that is started, the rows of its batch; 0: nothing to read."""
    failure: str | None = None
    recovers_at: int | None = None
    """The run from which on nothing fails; None: each fails."""
    restless: int = 1
    started: int = 0
    stopped: int = 0
    begun: threading.Event = field(default_factory=threading.Event)
    hangs: bool = False

    is_waiting = False

    def start(self, *_: object) -> "FakeRun":
        self.started += 1
        (self.target / "offsets" / "3").write_text(offset_entry(orders(3, SHIFT)))
        self.begun.set()
        return self

    def error(self) -> str | None:
        return self.failure if self.recovers_at is None or self.started < self.recovers_at else None

    def last_progress(self) -> dict[str, Any] | None:
        if self.hangs:
            return None
        rows = self.rows[self.started - 1]
        source = {"startOffset": orders(2, SHIFT), "endOffset": json.dumps(orders(3, SHIFT)), "numInputRows": rows}
        return {"batchId": 3, "numInputRows": rows, "durationMs": {"addBatch": 1}, "sources": [source]}

    def begin_stop(self) -> None:
        self.stopped += 1

    def unrest(self) -> str | None:
        self.restless -= 1
        return "a task is active" if self.restless >= 0 else None


def offset_entry(*sources: Any) -> str:
    return "\n".join(["v1", json.dumps({"batchWatermarkMs": 0}), *(json.dumps(each) for each in sources)])


class Stage:
    """A query that runs under epoch 1, has committed five batches, and continues while its batch 2 is rehearsed."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.checkpoint = CheckpointFolder(folder / "cp", stores=("delta",))
        for batch in range(5):
            self.checkpoint.commit(batch)
        self.checkpoint.keep_state(6)
        self.before = self.files()
        self.store = MemoryStore(lambda: NOW)
        self.row = Assignment(
            query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a",
            checkpoint=str(self.checkpoint.path), starting_offsets=None, operation=None, changed_at=NOW,
        )  # fmt: skip
        self.store.adopt(self.row)
        self.hosting = Hosting(
            settings=SETTINGS, runner="a", instance="one", spark_master="local[4]", application_id="app", base=folder,
            here=own_identity(), session=cast(Any, None), files=LocalFiles(), store=self.store, listener=NoListener(),
            now=lambda: NOW,
        )  # fmt: skip
        self.target = Path(drill_folder(str(self.checkpoint.path), "op"))
        self.writer, self.run = FakeWriter(), FakeRun(self.target, [10])
        monkeypatch.setattr(module, "drill_writer", lambda *_: (None, self.writer))
        monkeypatch.setattr(module, "Run", SimpleNamespace(start=lambda *_: self.run.start()))
        monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)

    def files(self) -> set[str]:
        return {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}

    def rehearse(self, check: Any = lambda: None, **changes: Any) -> DrillReport:
        return rehearse(self.hosting, self.intent(**changes), check)

    def intent(self, *, target: str | None = None, within: float = 3600.0, epoch: int = 1) -> Intent:
        prepare = PrepareRequest(
            checkpoint=str(self.checkpoint.path), target=target or str(self.target), operation="op", epoch=1,
            resume="carry", batch=2, offsets={"orders": orders(2)}, target_offsets={"orders": orders(2, SHIFT)},
        )  # fmt: skip
        request = DrillRequest(prepare=prepare, cluster="west", records=1000, within_seconds=within)
        return Intent(
            id="op/drill", operation="op", name="drill", kind=IntentKind.DRILL, query="q", runner="a", epoch=epoch,
            request=request.as_json(), state=IntentState.PENDING, result=None, created_at=NOW, ended_at=None,
        )  # fmt: skip


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_one_batch_runs_from_a_copy_of_an_earlier_batch(stage: Stage) -> None:
    copied: set[str] = set()

    def check() -> None:
        copied.update(stage.files() - stage.before)

    report = stage.rehearse(check)
    names = {name.partition("/drill-op/")[2] for name in copied}
    assert {"offsets/1", "offsets/2", "commits/2", "metadata"} <= names
    assert "commits/3" not in names, "the query has committed it, and the drill begins before it"
    assert [each.name for each in report.steps] == ["copy", "build", "start", "batch", "stop", "clean"]
    (source,) = report.sources
    assert (source.source, source.start, source.end, source.rows, report.batch) == (
        "orders", orders(2, SHIFT), orders(3, SHIFT), 10, 3,
    )  # fmt: skip
    assert stage.writer.options == {"checkpointLocation": str(stage.target), "processingTime": "365000 days"}
    assert stage.run.stopped == 1
    assert stage.files() == stage.before


def test_nothing_is_said_of_the_query_itself(stage: Stage) -> None:
    stage.rehearse()
    assert stage.store.assignments() == [stage.row]
    assert (list(stage.store.query_facts()), list(stage.store.positions("q"))) == ([], [])
    assert {event.kind for event in stage.store.history()} == {"drill"}


def test_an_empty_batch_is_followed_by_another_run(stage: Stage) -> None:
    stage.run.rows = [0, 0, 10]
    report = stage.rehearse()
    assert (stage.run.started, stage.run.stopped, report.sources[0].rows) == (3, 3, 10)
    assert [each.name for each in report.steps] == ["copy", "build", "start", "batch", "stop", "clean"]


def test_a_topic_without_new_records_proves_nothing(stage: Stage) -> None:
    stage.run.rows = [0]
    with pytest.raises(DrillFailed, match="no record arrived on west within 0 s"):
        stage.rehearse(within=0.0)
    assert stage.files() == stage.before


def test_a_standby_that_answers_late_is_read_again(stage: Stage) -> None:
    stage.run.failure, stage.run.recovers_at = "TimeoutException: Timeout of 1500ms expired", 3
    stage.run.rows = [0, 0, 10]
    report = stage.rehearse()
    assert (stage.run.started, stage.run.stopped, report.sources[0].rows) == (3, 3, 10)


def test_a_query_that_fails_on_the_standby_leaves_nothing(stage: Stage) -> None:
    stage.run.failure = "no such topic"
    with pytest.raises(DrillFailed, match="the query fails on the standby: no such topic"):
        stage.rehearse()
    assert stage.run.stopped == 1
    assert stage.files() == stage.before


@pytest.mark.parametrize(
    "target", ["/elsewhere/cp/drill-op", "{cp}", "{cp}/epoch-2-op", "{cp}/drill-other", "{cp}/drill-op/x"]
)
def test_no_other_folder_is_ever_thrown_away(stage: Stage, target: str) -> None:
    with pytest.raises(DrillFailed, match="no folder for drill op"):
        stage.rehearse(target=target.format(cp=stage.checkpoint.path))
    assert stage.files() == stage.before
    assert not stage.run.started


def test_leftovers_of_a_dead_process_go_and_open_drills_stay(stage: Stage) -> None:
    for name, outcome in (("over", "failed"), ("open", None)):
        stage.checkpoint.write(f"drill-{name}/offsets/0", "x")
        record(stage, name, outcome)
    stage.checkpoint.write("drill-unknown/offsets/0", "x")
    stage.checkpoint.write("epoch-2-op/offsets/0", "x")
    assert sweep(stage.hosting, ["q"])
    left = {path.name for path in stage.checkpoint.path.iterdir()}
    assert {"drill-open", "epoch-2-op", "offsets", "commits"} <= left
    assert not {"drill-over", "drill-unknown"} & left
    record(stage, "open", "failed")
    assert not sweep(stage.hosting, ["q"])
    assert not (stage.checkpoint.path / "drill-open").exists()


def record(stage: Stage, name: str, outcome: str | None) -> None:
    lease = stage.store.lead(CONTROLLER, "one", timedelta(seconds=30))
    assert lease is not None
    stage.store.record(
        Operation(
            id=name, group=name, kind=OperationKind.DRILL, query="q" if outcome is None else "other", source="east",
            target="west", epoch=1, phase=Phase.ABORTED if outcome else Phase.STARTING, outcome=outcome, actor="ann",
            reason="", consents=(), plan=None, measured=NOTHING, sentence="", started_at=NOW,
            ended_at=NOW if outcome else None,
        ),
        term=lease.term,
    )  # fmt: skip


@pytest.fixture
def errands(stage: Stage) -> Iterator[IntentWorker]:
    worker = IntentWorker(stage.hosting, lambda _: [], cast(Any, None))
    yield worker
    worker.close()


def under_way(stage: Stage, errands: IntentWorker) -> Intent:
    stage.run.hangs = True
    drill = stage.intent()
    errands.obey([stage.row])
    errands.take([drill])
    assert stage.run.begun.wait(60.0)
    return drill


def test_a_drill_that_is_withdrawn_stops_and_cleans_up(stage: Stage, errands: IntentWorker) -> None:
    under_way(stage, errands)
    errands.take([])
    until(lambda: not stage.target.exists(), "the copy is gone")
    assert stage.files() == stage.before
    assert stage.run.stopped == 1


def test_a_hold_of_the_query_stops_its_drill(stage: Stage, errands: IntentWorker) -> None:
    drill = under_way(stage, errands)
    errands.obey([replace(stage.row, epoch=2, desired=Desired.HELD)])
    errands.take([drill])
    until(lambda: not stage.target.exists(), "the copy is gone")
    assert stage.files() == stage.before
    assert stage.run.stopped == 1


def test_a_fence_is_answered_while_a_drill_hangs_and_ends_it(
    stage: Stage, errands: IntentWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, answered = threading.Event(), threading.Event()
    monkeypatch.setattr(stage.run, "unrest", lambda: None if held.is_set() else "a task is active")
    monkeypatch.setattr(stage.store, "report", lambda intent, term=None: answered.set())
    drill = under_way(stage, errands)
    request = FenceRequest(checkpoint=str(stage.checkpoint.path), epoch=2, operation="move", hosting=None)
    fence = replace(drill, id="move/fence", kind=IntentKind.FENCE, epoch=2, request=request.as_json())
    errands.take([drill, fence])
    assert answered.wait(60.0), "though the rehearsed run does not stop yet"
    until(lambda: stage.run.stopped == 1, "the drill is told to stop")
    held.set()
    until(lambda: not stage.target.exists(), "the copy is gone")


def test_the_folder_of_a_drill_is_known_by_its_name() -> None:
    folder = drill_folder("/cp/q/", "op-1")
    assert (folder, read_drill_folder(folder)) == ("/cp/q/drill-op-1", "op-1")
    assert (read_folder(folder), read_drill_folder("/cp/q/epoch-2-op")) == (None, None)
    assert is_of_drill("file:///cp/q/drill-op-1", "/cp/q", "op-1")
    assert not is_of_drill("/cp/q/drill-op-1/../..", "/cp/q", "op-1")
