"""After a move its forecast is laid beside what came of it, partition by partition, and kept."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.cli import shapes
from orchestrator.decide.outcome import outcome_rows
from orchestrator.later import keep_counts
from orchestrator.outcome import with_outcome
from state.model import Operation
from tests.simulation.test_cli import run, run_json
from tests.simulation.test_later import read_to_end
from tests.simulation.world import START_MS, World, settings

BACK = 10
"""Records of one second each, by which a query that goes by time is set back."""


def by_time() -> World:
    return World(settings(methods=["timestamp"], buffer=f"{BACK}s"))


def moved(world: World) -> Operation:
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done", operation.sentence
    return operation


def measured(world: World, operation: Operation) -> list[tuple[object, ...]]:
    """Replay and exposure, each as forecast and as measured."""
    looked_at = with_outcome(operation, world.store, world.clusters.__getitem__)
    return [tuple(row.values())[2:] for row in outcome_rows(looked_at)]


def test_replay_and_exposure_come_true_as_they_were_forecast() -> None:
    for world, replay in ((World(), 0), (by_time(), BACK + 1)):
        operation = moved(world)
        world.clusters["east"].reachable = False
        assert measured(world, operation) == [(replay, None, 10, None)] * 2, "nothing was read, and nobody asked"
        world.clusters["east"].reachable = True
        read_to_end(world)
        assert measured(world, operation) == [(replay, replay, 10, 10)] * 2


def test_a_forecast_that_does_not_come_true_shows() -> None:
    world = World()
    operation = moved(world)
    west, east = world.clusters["west"], world.clusters["east"]
    for record in east.between("orders", 0, 95, 100):  # the replicator sends again what was read already
        west.append("orders", 0, record.timestamp_ms, record.digest)
    for index in range(3):  # written after the last sample of the ends, before the cluster died
        east.write("orders", 1, f"unsampled-{index}", START_MS)
    read_to_end(world)
    assert measured(world, operation) == [(0, 15, 10, 10), (0, 0, 10, 13)]


def test_what_producers_wrote_to_the_old_cluster_after_the_move_is_no_exposure() -> None:
    world = World()
    operation = moved(world)
    for index in range(9):
        world.clusters["east"].write("orders", 0, f"after-{index}", START_MS + 60_000)
    assert measured(world, operation)[0] == (0, None, 10, 10)


def test_records_that_all_look_the_same_tell_nothing() -> None:
    world = World()
    for cluster in world.clusters.values():
        for log in cluster.topics["orders"].partitions.values():
            log.records = [each._replace(digest=b"same" * 4, timestamp_ms=START_MS) for each in log.records]
        cluster._rings.clear()
    world.track("revenue", 8, 100)
    operation = moved(world)
    read_to_end(world)
    assert [row[1] for row in measured(world, operation)] == [None, None]


def test_a_controller_keeps_what_was_measured_and_asks_the_old_cluster_once() -> None:
    world = by_time()
    operation = moved(world)
    read_to_end(world)
    lead = world.lead()
    assert lead.take()

    def keep() -> tuple[int, list[tuple[object, ...]]]:
        asked = world.clusters["east"].asked
        keep_counts(
            world.settings.queries, world.store, world.clusters.__getitem__, term=lambda: lead.term,
            at=world.clock.now(), actor="ann",
        )  # fmt: skip
        kept: Any = world.store.operation(operation.id)
        return world.clusters["east"].asked - asked, [tuple(row.values())[2:] for row in outcome_rows(kept)]

    asked, rows = keep()
    assert asked > 0
    assert rows == [(BACK + 1, BACK + 1, 10, 10)] * 2
    assert keep() == (0, rows)


def test_a_dead_old_cluster_is_asked_one_question_for_all_queries() -> None:
    world = World(settings(queries=["revenue", "other"]))
    operations = [moved(world), world.carry_out(world.request("other"))]
    world.clusters["east"].reachable = False
    silent: set[str] = set()
    before = world.clusters["east"].asked
    for operation in operations:
        assert operation is not None
        with_outcome(operation, world.store, world.clusters.__getitem__, silent)
    assert (world.clusters["east"].asked - before, silent) == (1, {"east"})


def test_a_query_that_has_moved_on_keeps_what_was_measured() -> None:
    world = World()
    operation = moved(world)
    read_to_end(world)
    fact = next(iter(world.store.query_facts()))
    world.store.report_query(replace(fact, epoch=fact.epoch + 1))
    assert [row[1] for row in measured(world, operation)] == [None, None]


def test_show_op_prints_both_numbers(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "failover", "revenue", "--to", "west", "--yes")
    read_to_end(world)
    (operation,) = world.store.operations()
    code, shown = run_json(capsys, "show-op", operation.id)
    assert code == 0
    assert isinstance(shown, dict)
    assert shown["measured"]["partitions"][0] == {
        "topic": "orders", "partition": 0, "forecast_replay_records": 0, "replay_records": 0,
        "forecast_exposure_records": 10, "exposure_records": 10,
    }  # fmt: skip
    assert "followed" not in shown["plan"]
    assert "forecast replay records" in run(capsys, "show-op", operation.id)[1]


def test_a_plan_alone_and_a_move_that_was_refused_measure_nothing() -> None:
    world = World()
    world.clusters["west"].topics.clear()
    operation = world.carry_out(world.request())
    assert operation is None or outcome_rows(operation) == []
    assert operation is None or shapes.operation_json(operation, [])["measured"]["partitions"] == []  # type: ignore[index]
