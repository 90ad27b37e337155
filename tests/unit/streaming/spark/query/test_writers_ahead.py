"""A writer is built while its checkpoint is made, and taken by the row that the commit writes, and by no other."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from state.model.entities import Assignment, Desired
from state.settings.keys import Resume
from streaming.spark.errors import PipelineRaised
from streaming.spark.query import writers_ahead as module
from streaming.spark.query.writers_ahead import WritersAhead

AT = datetime(2026, 3, 1, tzinfo=UTC)
PLACES = {"0": {"orders": {"0": 7}}}


class Writer(dict[str, str]):
    """Its options, and which one it is."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def option(self, key: str, value: str) -> None:
        self[key] = value


class Spark:
    """Builds writers whose number shows which one it was."""

    def __init__(self) -> None:
        self.built: list[tuple[Assignment, bool]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.error: Exception | None = None
        self.switched_on_disk = False

    def prepare(self, _: object, row: Assignment, gate: object, *, switched: bool) -> tuple[str, "Writer"]:
        assert self.go_on.wait(20)
        if self.error is not None:
            raise self.error
        self.built.append((row, switched))
        return "session", Writer(len(self.built))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    spark = Spark()
    monkeypatch.setattr(module, "prepare_writer", spark.prepare)
    monkeypatch.setattr(module, "is_switched", lambda *_: spark.switched_on_disk)
    return spark


@pytest.fixture
def ahead() -> WritersAhead:
    return ahead_of(Resume.CARRY)


def ahead_of(resume: Resume) -> WritersAhead:
    """Of a process whose queries continue so."""
    return WritersAhead(cast(Any, SimpleNamespace(runner="a", now=lambda: AT, resume=lambda _: resume)))


def move(ahead: WritersAhead, **changes: Any) -> None:
    values: dict[str, Any] = {"epoch": 4, "cluster": "west", "resume": "carry", "starting": None}
    ahead.begin("q", "op", **(values | changes))


def row(**changes: Any) -> Assignment:
    """As ``Executor`` commits it."""
    placed = Assignment(
        query="q", epoch=4, placed_epoch=4, desired=Desired.RUNNING, cluster="west", runner="a", checkpoint="/new",
        starting_offsets=None, operation="op", changed_at=AT.replace(hour=5),
    )  # fmt: skip
    return replace(placed, **changes)


def test_the_committed_row_takes_what_was_built_for_it_once(ahead: WritersAhead, spark: Spark) -> None:
    move(ahead)
    ready = ahead.take(row())
    assert ready is not None
    assert (ready.session, ready.writer) == ("session", {"checkpointLocation": "/new"})
    assert ahead.take(row()) is None


def test_a_writer_that_the_fence_began_is_not_begun_again(ahead: WritersAhead, spark: Spark) -> None:
    move(ahead)
    move(ahead)
    assert ahead.take(row()) is not None
    assert len(spark.built) == 1


def test_a_start_waits_for_a_writer_that_is_being_built(ahead: WritersAhead, spark: Spark) -> None:
    spark.go_on.clear()
    move(ahead)
    threading.Timer(0.05, spark.go_on.set).start()
    assert ahead.take(row()) is not None
    assert len(spark.built) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": "east"}, {"epoch": 5}, {"placed_epoch": 1}, {"operation": "another"},
        {"starting_offsets": PLACES}, {"runner": "b"},
    ],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_changed_row_builds_the_writer_again(ahead: WritersAhead, spark: Spark, changes: dict[str, Any]) -> None:
    move(ahead)
    assert ahead.take(row(**changes)) is None


def test_a_fresh_start_is_built_with_where_it_begins(ahead: WritersAhead, spark: Spark) -> None:
    move(ahead, resume="fresh", starting=PLACES)
    assert ahead.take(row(starting_offsets=PLACES)) is not None


@pytest.mark.parametrize(("on_disk", "taken"), [(True, True), (False, False)])
def test_a_switch_is_built_on_the_companion_source(
    ahead: WritersAhead, spark: Spark, on_disk: bool, taken: bool
) -> None:
    """Its mapping is written in the meantime; where none is there in the end, Spark's own source reads."""
    move(ahead, resume="switch")
    spark.switched_on_disk = on_disk
    assert (ahead.take(row(checkpoint="/c", mapping="4-op.2")) is not None) is taken
    assert spark.built[0][1]


def test_a_copy_is_built_on_the_source_that_its_runner_would_give_it(spark: Spark) -> None:
    """A plan makes a copy for the sake of another runner; this one has the companion, and starts from it with that."""
    ahead = ahead_of(Resume.SWITCH)
    move(ahead, resume="carry")
    spark.switched_on_disk = True
    assert ahead.take(row(checkpoint="/c")) is not None
    assert spark.built[0][1]


@pytest.mark.parametrize("spoil", ["forget", "fail", "newer"])
def test_a_start_builds_what_was_not_built_for_its_move(ahead: WritersAhead, spark: Spark, spoil: str) -> None:
    ways: dict[str, Callable[[], None]] = {
        "forget": lambda: ahead.forget("q"),
        "fail": lambda: None,
        "newer": lambda: move(ahead, epoch=9),
    }
    spark.error = PipelineRaised("no") if spoil == "fail" else None
    move(ahead)
    ways[spoil]()
    assert ahead.take(row()) is None
