"""Runs that end in one planned batch are counted in the store, and the batch is cut where no sink has it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from state.errors import StoreUnavailable
from state.messages import CheckpointReport, SinkMemory, SinkState
from state.model.entities import Assignment, Desired, Event, RunnerFact, SeenCheckpoint
from state.settings.keys import Tideover
from state.store.sql.schema import assignments
from streaming.process import Identity
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.read import newest_commit
from streaming.spark.errors import AssignmentMoved
from streaming.spark.hosting import Hosting, NoListener
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.query_report import QueryReport
from streaming.spark.query.sink_memory import UNKNOWN_SINK, Tables, WrittenTo
from streaming.spark.runner.unfinished import UnfinishedBatches, ended_in
from tests.checkpoints import CheckpointFolder, orders
from tests.memory_store import MemoryStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DELTA = WrittenTo("delta", "/table", SinkMemory.QUERY_AND_BATCH)
OWN = WrittenTo("foreachbatch", None, SinkMemory.OWN_CODE)


class FakeTables:
    """A sink of which one thing is known."""

    def __init__(self, state: SinkState) -> None:
        self.state = state

    def with_sink(self, report: CheckpointReport, sink: WrittenTo) -> CheckpointReport:
        known = report.model_copy(update={"sink_format": sink.format, "sink_memory": sink.memory})
        assert known.planned is not None
        return known.model_copy(update={"planned": known.planned.model_copy(update={"sink": self.state})})


class World:
    """One runner whose processes come and go, a store, and a checkpoint with batch 1 planned: 120 records."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore(lambda: NOW)
        self.checkpoint = CheckpointFolder(folder)
        self.checkpoint.commit(0)
        self.checkpoint.plan(1, {"orders": {"0": 100, "1": 50}})
        self.row = Assignment(
            query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a",
            checkpoint=str(folder), starting_offsets=None, operation=None, changed_at=NOW,
        )  # fmt: skip
        self.store.adopt(self.row)
        self.policy: dict[str, object] = {"catch_up_batch": 40}
        self.sink = "append"
        self.lost = False
        self.processes = 0

    def hosting(self, instance: str) -> Hosting:
        settings = Tideover.model_validate(
            {
                "store": "sqlite://",
                "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"]}},
                "runners": {"a": {}},
                "policy": self.policy,
                "queries": {
                    "q": {
                        "pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"],
                        "runners": ["a"], "checkpoint": "c", "sink": self.sink,
                    }
                },
            }
        )  # fmt: skip
        return Hosting(
            settings=settings, runner="a", instance=instance, spark_master="local[4]", application_id="app",
            base=Path("/"), here=Identity(host="h", boot_id="b", pid=7, pid_started=9), session=cast(Any, None),
            files=LocalFiles(), store=self.store, listener=NoListener(), now=lambda: NOW,
        )  # fmt: skip

    def start(
        self,
        sink: WrittenTo = DELTA,
        state: SinkState = SinkState.HAS_NOT,
        callbacks: CallbackGate | None = None,
        entry: str = "offsets/1",
    ) -> str:
        """A new process starts the query, and dies; the entry of batch 1 as it read it."""
        self.processes += 1
        instance = f"process {self.processes}"
        for fact in self.store.runners():
            self.store.unregister(fact.runner, fact.instance)
        self.store.register(
            RunnerFact(
                runner="a", instance=instance, site="", host="h", boot_id="b", pid=7, pid_started=9,
                spark_master="local[4]", application_id="app", warm=False, started_at=NOW, seen_at=NOW,
            )
        )  # fmt: skip
        hosting = self.hosting(instance)
        report = QueryReport(hosting, self.row)
        report.announce()

        def still() -> None:
            if self.lost:
                raise AssignmentMoved("q")

        tables = cast(Tables, FakeTables(state))
        newest = newest_commit(hosting.files, self.row.checkpoint)
        UnfinishedBatches(hosting, self.row, report, tables).before_start(newest, sink, callbacks, still)
        return self.checkpoint.text(entry)

    @property
    def said(self) -> list[str]:
        return [event.text for event in self.events]

    @property
    def events(self) -> list[Event]:
        return [event for event in self.store.history(limit=50) if event.kind in {"batch-cut", "batch-not-cut"}]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


CUT = "3 runs of q ended in batch 1; it is cut from 120 to 40 records"


def test_the_third_run_that_ended_in_a_batch_gets_it_cut(world: World) -> None:
    before = world.checkpoint.text("offsets/1")
    assert [world.start(), world.start()] == [before, before]
    after = world.start()
    assert '{"orders":{"0":40,"1":30}}' in after
    assert world.said == [CUT]
    (event,) = world.events
    assert (event.query, event.actor, event.detail["former"]) == ("q", "runner a", before)
    assert world.start() == after, "it is small enough now"
    assert world.said == [CUT]


def test_the_count_is_of_one_batch_and_outlives_the_process(world: World) -> None:
    world.start()
    world.start()
    (fact,) = world.store.query_facts()
    assert fact.seen is not None
    assert (fact.seen.planned, fact.seen.committed, fact.seen.ended_in_batch) == (1, 0, 2)
    world.checkpoint.commit(1, {"orders": {"0": 100, "1": 50}})
    world.checkpoint.plan(2, {"orders": {"0": 1000, "1": 500}})
    world.start()
    (fact,) = world.store.query_facts()
    assert fact.seen is not None
    assert (fact.seen.planned, fact.seen.ended_in_batch) == (2, 1)
    assert world.said == []


def test_a_commit_of_the_batch_ends_the_count() -> None:
    seen = SeenCheckpoint("/c", 1, 4, 3, None, None, 2)
    assert seen.with_batch(3, committed=True).ended_in_batch == 2
    assert seen.with_batch(4, committed=False).ended_in_batch == 2
    assert seen.with_batch(4, committed=True).ended_in_batch == 0
    assert seen.with_batch(5, committed=False).ended_in_batch == 0


def test_runs_from_another_checkpoint_do_not_count() -> None:
    seen = SeenCheckpoint("/c", 1, 4, 3, None, None, 2)
    assert ended_in(seen, "file:///c", 4) == 3
    assert ended_in(seen, "/d", 4) == ended_in(seen, "/c", 5) == ended_in(None, "/c", 4) == 1


REFUSED = {
    "has": (DELTA, SinkState.HAS, "delta has that batch already"),
    "forgot": (DELTA, SinkState.FORGOT, "delta no longer remembers the batches of that time"),
    "unread": (DELTA, SinkState.UNKNOWN, "it is unknown whether delta has any of that batch"),
    "own code": (OWN, SinkState.UNKNOWN, "it is unknown whether foreachbatch has any of that batch"),
    "unknown": (UNKNOWN_SINK, SinkState.UNKNOWN, "it is unknown whether its sink has any of that batch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_batch_that_a_sink_may_have_keeps_its_ends(world: World, case: str) -> None:
    sink, state, why = REFUSED[case]
    before = world.checkpoint.text("offsets/1")
    for _ in range(5):
        assert world.start(sink, state) == before
    assert world.said == [f"3 runs of q ended in batch 1; it is not cut: {why}"], "said once"


def test_a_sink_that_overwrites_by_key_takes_the_smaller_batch(world: World) -> None:
    world.sink = "keyed"
    for _ in range(3):
        world.start(OWN, SinkState.UNKNOWN)
    assert world.said == [CUT]


def test_a_callback_that_was_never_entered_left_nothing_in_its_sink(world: World) -> None:
    """The run of before, in this process, handed batch 0 over and died while it read batch 1."""
    gate = CallbackGate()
    gate.watch(lambda *_: None)(cast(Any, None), 0)
    world.start(OWN, SinkState.UNKNOWN)
    world.start(OWN, SinkState.UNKNOWN)
    world.start(OWN, SinkState.UNKNOWN, gate)
    assert world.said == [CUT]


WITHIN = "no Kafka source has more records in it than policy.catch_up_batch, which is 120"
LIMITS: list[tuple[dict[str, object], list[str]]] = [
    ({}, []),
    ({"catch_up_batch": 120}, [f"3 runs of q ended in batch 1; it is not cut: {WITHIN}"]),
]


@pytest.mark.parametrize(("policy", "said"), LIMITS)
def test_a_batch_that_the_policy_allows_is_not_cut(world: World, policy: dict[str, object], said: list[str]) -> None:
    world.policy = policy
    before = world.checkpoint.text("offsets/1")
    assert [world.start() for _ in range(4)] == [before] * 4
    assert world.said == said


def test_a_batch_whose_begin_is_unknown_is_not_called_small(world: World) -> None:
    """Its first run was killed before Spark's source wrote down where the batch begins."""
    (world.checkpoint.path / "commits" / "0").unlink()
    (world.checkpoint.path / "offsets" / "1").rename(world.checkpoint.path / "offsets" / "0")
    for _ in range(3):
        world.start(entry="offsets/0")
    assert world.said == [
        "3 runs of q ended in batch 0; it is not cut: it is unknown where each of its partitions begins"
    ]


def test_a_smaller_limit_cuts_the_batch_again(world: World) -> None:
    for _ in range(4):
        world.start()
    world.policy = {"catch_up_batch": 8, "recut_after": 4}
    assert '{"orders":{"0":16,"1":22}}' in world.start()
    assert world.said == [CUT, "5 runs of q ended in batch 1; it is cut from 40 to 8 records"]


def test_a_process_that_lost_its_row_cuts_nothing(world: World) -> None:
    before = world.checkpoint.text("offsets/1")
    world.start()
    world.start()
    world.lost = True
    with pytest.raises(AssignmentMoved):
        world.start()
    assert world.checkpoint.text("offsets/1") == before
    assert world.said == []


def test_a_cut_that_the_history_cannot_take_is_not_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is recorded before it is done."""
    before = world.checkpoint.text("offsets/1")
    world.start()
    world.start()

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(world.store, "note", away)
    with pytest.raises(StoreUnavailable):
        world.start()
    assert world.checkpoint.text("offsets/1") == before


def test_files_that_a_person_accepted_are_not_counted_before_a_run(world: World) -> None:
    world.row = replace(world.row, epoch=2)
    world.store.force(assignments, world.row)
    world.start()
    (fact,) = world.store.query_facts()
    assert fact.seen is None


def test_an_empty_or_committed_checkpoint_counts_nothing(world: World) -> None:
    world.checkpoint.commit(1, orders(1))
    (world.checkpoint.path / "offsets" / "1").write_text(world.checkpoint.text("offsets/1"))
    world.start()
    (fact,) = world.store.query_facts()
    assert fact.seen is None
