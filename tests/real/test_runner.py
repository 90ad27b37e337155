"""Real runners on two real clusters: they obey, they are fenced, they die, and every record is read once."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab import faults
from lab.world import CLUSTERS, World
from orchestrator.operation.reconcile import accept_files, contradicted_of
from state.messages import (
    FenceReport,
    FenceRequest,
    InspectRequest,
    Message,
    Offsets,
    PrepareReport,
    PrepareRequest,
    Process,
    Proof,
    UncommittedBatch,
)
from state.model.entities import (
    Assignment,
    Desired,
    Event,
    Intent,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    QueryFact,
    RunState,
    Step,
)
from state.model.measured import NOTHING
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.runner_process import RunnerProcess
from tests.streams import SHIFT, Cluster, forget_seen, has_rested, uncommit
from tests.waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.real, pytest.mark.shared]


@dataclass
class Stage:
    """One topic on both clusters, one query over it, and the store that runner and test share."""

    folder: Path
    topic: str
    east: Cluster
    west: Cluster
    store: ControllerStore
    settings: dict[str, Any]
    term: int = 0

    def extend(self, end: int, *clusters: Cluster) -> None:
        for each in clusters or (self.east, self.west):
            each.extend(self.topic, end)

    def runner(self) -> RunnerProcess:
        return RunnerProcess(self.settings, self.folder)

    def ids(self) -> list[int]:
        path = self.folder / "ids"
        return [int(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has_all(self, end: int) -> bool:
        return set(range(end)) <= set(self.ids())

    def fact(self, query: str = "ids") -> QueryFact | None:
        return next((fact for fact in self.store.query_facts() if fact.query == query), None)

    def state(self, query: str = "ids") -> RunState | None:
        fact = self.fact(query)
        return None if fact is None else fact.state

    def sees(self, cluster: str) -> int | None:
        """How many looks of the runner at a cluster failed in a row, as it reported lately."""
        seen = next((each for each in self.store.probe_reports(cluster) if each.viewpoint == "runner:a"), None)
        fresh = seen is not None and _now() - seen.seen_at < timedelta(seconds=15)
        return seen.failures_in_a_row if seen is not None and fresh else None

    @property
    def checkpoint(self) -> Path:
        """Of the query at home."""
        return self.folder / "checkpoints" / "ids"

    def has_rested(self) -> bool:
        return has_rested(self.checkpoint)

    def row(self) -> Assignment:
        row = self.store.assignment("ids")
        assert row is not None
        return row

    def hold(self) -> Operation:
        """Take the next epoch for the query, as a controller does."""
        row = self.row()
        operation = Operation(
            id=uuid.uuid4().hex,
            group="group",
            kind=OperationKind.FAILOVER,
            query="ids",
            source="east",
            target="west",
            epoch=row.epoch + 1,
            phase=Phase.FENCING,
            outcome=None,
            actor="test",
            reason="",
            consents=(),
            plan=None,
            measured=NOTHING,
            sentence="",
            started_at=_now(),
            ended_at=None,
        )
        step = Step(operation=operation.id, sequence=1, name="hold", started_at=_now())
        held = self.store.hold(operation, from_epoch=row.epoch, term=self.term, step=step, event=_event(operation))
        assert held is not None
        return operation

    def order(self, runner: RunnerProcess, operation: Operation, kind: IntentKind, request: Message) -> Intent:
        """Request something of the runner, and wait for its answer."""
        intent = Intent(
            id=uuid.uuid4().hex,
            operation=operation.id,
            name=kind.value,
            kind=kind,
            query="ids",
            runner="a",
            epoch=operation.epoch,
            request=request.as_json(),
            state=IntentState.PENDING,
            result=None,
            created_at=_now(),
            ended_at=None,
        )
        self.store.record(operation, term=self.term, intents=[intent])

        def answer() -> Intent:
            return next(each for each in self.store.intents(operation.id) if each.id == intent.id)

        runner.until(f"{kind} is answered", lambda: answer().state is not IntentState.PENDING)
        return answer()

    def fence(self, runner: RunnerProcess, operation: Operation, **changes: str) -> FenceReport:
        fact = self.fact()
        assert fact is not None
        request = FenceRequest(
            checkpoint=self.row().checkpoint,
            epoch=operation.epoch,
            operation=operation.id,
            hosting=Process.of_query(fact).model_copy(update=changes),
            wait_seconds=120.0,
        )
        intent = self.order(runner, operation, IntentKind.FENCE, request)
        assert intent.state is IntentState.DONE, intent.result
        return FenceReport.of(intent.result)

    def place(self, operation: Operation, checkpoint: str) -> None:
        row = replace(
            self.row(),
            placed_epoch=operation.epoch,
            desired=Desired.RUNNING,
            cluster="west",
            checkpoint=checkpoint,
            operation=operation.id,
        )
        event = _event(operation)
        steps: Sequence[Step] = ()
        assert self.store.place(
            row, operation=operation, from_epoch=row.epoch, term=self.term, steps=steps, event=event
        )


@pytest.fixture
def stage(pair: World, tmp_path: Path) -> Iterator[Stage]:
    east, west = (Cluster(pair.bootstrap(name)[0]) for name in CLUSTERS)
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    east.make(topic, foreign=False)
    west.make(topic, foreign=True)
    query = {
        "pipeline": "tests.real.pipelines:distinct_ids",
        "settings": {"sink": str(tmp_path / "ids")},
        "sources": {"orders": {"topics": [topic]}},
        "clusters": ["east", "west"],
        "runners": ["a"],
        "checkpoint": str(tmp_path / "checkpoints" / "ids"),
        "trigger": "200ms",
    }
    store_url = f"sqlite:///{tmp_path / 'tideover.db'}"
    settings: dict[str, Any] = {
        "store": store_url,
        "clusters": {"east": {"bootstrap": [east.bootstrap]}, "west": {"bootstrap": [west.bootstrap]}},
        "runners": {"a": {}},
        "spark": {"master": "local[8]", "conf": {"spark.sql.shuffle.partitions": 1}},
        "queries": {"ids": query},
    }
    store = open_store(store_url)
    lease = store.lead("controller", "test", timedelta(hours=1))
    assert lease is not None
    try:
        yield Stage(tmp_path, topic, east, west, store, settings, lease.term)
    finally:
        store.close()


def test_a_runner_adopts_its_queries_reports_and_obeys_a_hold(stage: Stage, pair: World) -> None:
    queries = stage.settings["queries"]
    assert isinstance(queries, dict)
    raising = {"pipeline": "tests.real.pipelines:raising", "checkpoint": "checkpoints/raising"}
    queries["raising"] = queries["ids"] | raising
    stage.extend(100)
    runner = stage.runner()
    try:
        runner.until("every record is read", lambda: stage.has_all(100))
        assert (stage.row().epoch, stage.row().cluster) == (1, "east")
        assert stage.row().checkpoint == str(stage.checkpoint)
        runner.until("the commit is reported", lambda: (fact := stage.fact()) and fact.first_commit_at)
        assert not list((stage.checkpoint / "commits").glob(".*.crc")), "Spark's own manager wrote"
        runner.until("the position is tracked", lambda: any(each.ring for each in stage.store.positions("ids")))
        runner.until("the ends are sampled", lambda: len(stage.store.ends("east")) == 2)
        runner.until("the mistake is reported", lambda: stage.state("raising") is RunState.FAILED)
        assert "raising raised ValueError: no such customer" in str(getattr(stage.fact("raising"), "error", None))

        runner.until("it sees both clusters", lambda: all(stage.sees(name) == 0 for name in CLUSTERS))
        faults.freeze(pair, "west", print)
        try:
            runner.until("it sees that one is gone", lambda: (stage.sees("west") or 0) >= 3)
            runner.until("and the other one still", lambda: stage.sees("east") == 0)
        finally:
            faults.thaw(pair, "west", print)
        runner.until("it sees both again", lambda: all(stage.sees(name) == 0 for name in CLUSTERS))

        second = stage.runner()
        assert second.wait(PROCESS_SECONDS) == 2
        assert f"already running as pid {runner.pid}" in second.log()

        operation = stage.hold()
        runner.until("the held query is stopped", lambda: stage.state() is RunState.STOPPED)
        stage.extend(120)
        assert runner.terminate() == 0
        assert sorted(stage.ids()) == list(range(100))
        assert stage.store.runners() == []

        runner = stage.runner()
        report = stage.fence(runner, operation, host="elsewhere")
        assert report.proof is Proof.RUNNER, report.detail
        assert "reported that it had stopped" in report.detail
    finally:
        runner.kill()


def test_a_query_fenced_on_a_frozen_cluster_continues_at_the_standby(stage: Stage, pair: World) -> None:
    stage.extend(200)
    runner = stage.runner()
    try:
        runner.until("every record is read", lambda: stage.has_all(200))
        stage.extend(400)
        faults.freeze(pair, "east", print)
        operation = stage.hold()
        report = stage.fence(runner, operation)
        assert report.proof is Proof.RUNNER, report.detail
        assert len(report.planted) == 2
        delivered = len(stage.ids())
        place = _prepared(stage, runner, operation, report)
        stage.place(operation, place.checkpoint)
        stage.extend(500, stage.west)
        runner.until("every record is read on the standby", lambda: stage.has_all(500))
        fact = stage.fact()
        assert fact is not None
        assert (fact.cluster, fact.epoch) == ("west", 2)

        faults.thaw(pair, "east", print)
        stage.extend(600)
        runner.until("the standby goes on", lambda: stage.has_all(600))
        repeated = len(stage.ids()) - 600
        assert repeated == 0 or (report.checkpoint.planned is not None and repeated <= delivered)
        runner.until("records of the standby are remembered", lambda: _ring_of(stage, 600))
        assert runner.terminate() == 0
        fact = stage.fact()
        assert fact is not None
        assert (fact.state, fact.pid, fact.spark_master) == (RunState.STOPPED, runner.pid, "local[8]")
        assert stage.store.runners() == []
    finally:
        faults.thaw(pair, "east", print)
        runner.kill()


def test_a_killed_runner_is_followed_by_one_that_serves_on_a_dead_cluster(stage: Stage, pair: World) -> None:
    stage.extend(200)
    runner = stage.runner()
    try:
        runner.until("every record is read", lambda: stage.has_all(200))
        runner.until("the commit is reported", lambda: (fact := stage.fact()) and fact.first_commit_at)
        runner.kill()
        stage.extend(300)
        runner = stage.runner()
        runner.until("the next runner carries on", lambda: stage.has_all(300))
        assert sorted(stage.ids()) == list(range(300))
        runner.until("the commit is reported", lambda: (fact := stage.fact()) and (fact.input_rows or 0) > 0)
        # It may have needed two batches: the killed one's JVM lives a moment longer, and may have planned the first.
        runner.until("every batch is committed", stage.has_rested)
        runner.kill()

        faults.freeze(pair, "east", print)
        runner = stage.runner()
        runner.until("the dead cluster is reported", lambda: stage.state() is RunState.FAILED)
        assert getattr(stage.fact(), "error", None)
        operation = stage.hold()
        inspect = InspectRequest(checkpoint=stage.row().checkpoint)
        assert stage.order(runner, operation, IntentKind.INSPECT, inspect).state is IntentState.DONE
        report = stage.fence(runner, operation)
        assert report.proof is Proof.RUNNER, report.detail
        stage.place(operation, _prepared(stage, runner, operation, report).checkpoint)
        stage.extend(400, stage.west)
        runner.until("the standby is read", lambda: stage.has_all(400))
        assert sorted(stage.ids()) == list(range(400))
    finally:
        faults.thaw(pair, "east", print)
        runner.kill()


def test_a_run_begun_in_an_unfinished_batch_waits_for_its_cluster(stage: Stage, pair: World) -> None:
    """Its log has what the cluster answered before, so this is no wrong address: no restart is lost on it."""
    stage.extend(200)
    runner = stage.runner()
    try:
        runner.until("every record is read", lambda: stage.has_all(200))
        runner.until("the watermark has its batch, too", lambda: (stage.checkpoint / "commits" / "1").exists())
        runner.kill()
        assert uncommit(stage.checkpoint) == 1
        (stage.checkpoint / "offsets" / "1").unlink()
        assert uncommit(stage.checkpoint) == 0
        forget_seen(stage.store, "ids")

        faults.freeze(pair, "east", print)
        runner = stage.runner()
        runner.until("it waits", lambda: (fact := stage.fact()) and fact.silent_since)
        waiting = stage.fact()
        assert waiting is not None
        assert (waiting.state, waiting.error) == (RunState.RUNNING, None)
        faults.thaw(pair, "east", print)
        runner.until("the batch is committed", stage.has_rested)
        assert sorted(stage.ids()) == sorted([*range(200), *range(200)]), "the sink gets the same batch again"
        runner.until("it is reported", lambda: (fact := stage.fact()) and fact.first_commit_at)
        fact = stage.fact()
        assert fact is not None
        assert fact.run_id == waiting.run_id, "the run did not go on"
    finally:
        faults.thaw(pair, "east", print)
        runner.kill()


def test_a_query_whose_commit_was_deleted_waits_for_a_consent(stage: Stage) -> None:
    """Spark would give the sink that batch again. The store knows that it was committed."""
    stage.extend(200)
    runner = stage.runner()
    try:
        runner.until("every record is read", lambda: stage.has_all(200))
        runner.until("the store knows both", lambda: (fact := stage.fact()) and fact.seen and fact.seen.committed == 1)
        runner.kill()
        assert uncommit(stage.checkpoint) == 1
        (stage.checkpoint / "offsets" / "1").unlink()
        assert uncommit(stage.checkpoint) == 0
        runner = stage.runner()
        runner.until("it is refused", lambda: (fact := stage.fact()) and fact.contradicted)
        found = contradicted_of(stage.store, "ids")
        assert found is not None
        assert found.why.endswith("its run of epoch 1 reported that batch 1 is committed, but no batch is committed")
        assert sorted(stage.ids()) == list(range(200))
        accept_files(stage.store, found, actor="test", reason="")
        runner.until("the batch runs again", lambda: len(stage.ids()) == 400 and stage.has_rested())
        runner.until("it says so", lambda: (fact := stage.fact()) and fact.epoch == 2 and fact.contradicted is None)
    finally:
        runner.kill()


def _prepared(stage: Stage, runner: RunnerProcess, operation: Operation, report: FenceReport) -> PrepareReport:
    request = PrepareRequest(
        checkpoint=report.checkpoint.checkpoint,
        target=f"{report.checkpoint.checkpoint}/epoch-{operation.epoch}-{operation.id}",
        operation=operation.id,
        epoch=operation.epoch,
        resume="carry",
        batch=report.checkpoint.batch,
        offsets=report.checkpoint.offsets,
        target_offsets=_shifted(report.checkpoint.offsets),
        treatment=UncommittedBatch.NONE if report.checkpoint.planned is None else UncommittedBatch.BRIDGE,
    )
    intent = stage.order(runner, operation, IntentKind.PREPARE, request)
    assert intent.state is IntentState.DONE, intent.result
    return PrepareReport.of(intent.result)


def _shifted(offsets: Offsets) -> Offsets:
    return {
        source: {
            topic: {key: offset + SHIFT[key] for key, offset in partitions.items()}
            for topic, partitions in topics.items()
        }
        for source, topics in offsets.items()
    }


def _ring_of(stage: Stage, records: int) -> bool:
    ends = {int(key): records // 2 + shift for key, shift in SHIFT.items()}
    return any(each.ring and each.ring[-1].offset == ends[each.partition] - 1 for each in stage.store.positions("ids"))


def _event(operation: Operation) -> Event:
    return Event(
        sequence=None,
        at=_now(),
        kind="test",
        query=operation.query,
        operation=operation.id,
        epoch=operation.epoch,
        actor="test",
        text="a step of a test",
    )


def _now() -> datetime:
    return datetime.now(UTC)
