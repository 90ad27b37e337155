"""A standby that lagged at the move gets the rest afterwards: what was announced is counted as it is read again."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.facts.measure import keep_counts, with_later
from orchestrator.shapes import operation_shapes
from state.model.entities import Operation
from tests.contract.samples import plan_of
from tests.simulation.world import START_MS, World

LACKING = 7
END = 33 + 100 - LACKING


@pytest.fixture
def world() -> World:
    """The standby lacks the last seven records of each partition that the query has read."""
    world = World()
    world.clusters["west"].cut("orders", END)
    return world


def moved(world: World) -> Operation:
    operation = world.carry_out(world.request())
    assert operation is not None
    assert operation.outcome == "done", operation.sentence
    plan: Any = plan_of(operation)
    assert plan["totals"]["replay_later_records"] == 2 * LACKING
    assert plan_of(operation)["starting_offsets"] == {"orders": {"0": END, "1": END}}
    return operation


def come(world: World, partition: int, count: int) -> None:
    """The replicator continues where it was, behind what a producer has written since."""
    west, east = world.clusters["west"], world.clusters["east"]
    west.write("orders", partition, f"new-{partition}", START_MS)
    for record in east.between("orders", partition, 100 - LACKING, 100 - LACKING + count):
        west.append("orders", partition, record.timestamp_ms, record.digest)


def read_to_end(world: World) -> None:
    fact = next(iter(world.store.query_facts()))
    ends = {str(key.partition): end for key, end in world.clusters["west"].ends("orders").items()}
    runner = next(each for each in (world.runner, world.other) if each.name == fact.runner)
    runner.read(fact.query, {"orders": {"orders": ends}})


def counted(world: World, operation: Operation) -> object:
    looked_at = with_later(operation, world.store, world.clusters.__getitem__)
    return operation_shapes.measured_json(looked_at)["replay_later_records"]


def test_later_records_count_once_they_are_read(world: World) -> None:
    operation = moved(world)
    assert counted(world, operation) == 0
    come(world, 0, 7)
    come(world, 1, 3)
    assert counted(world, operation) == 0, "come, and not read yet"
    read_to_end(world)
    assert counted(world, operation) == 10


def test_a_standby_that_did_not_lag_has_nothing_to_count_and_is_not_read() -> None:
    world = World()
    operation = world.carry_out(world.request())
    assert operation is not None
    assert "awaited" not in plan_of(operation)
    world.clusters["west"].reachable = False
    assert counted(world, operation) == 0


def test_a_cluster_that_does_not_answer_leaves_the_number_unknown(world: World) -> None:
    operation = moved(world)
    world.clusters["west"].reachable = False
    come(world, 0, 1)
    read_to_end(world)
    assert counted(world, operation) is None


def test_a_query_that_has_moved_on_leaves_the_number_unknown(world: World) -> None:
    operation = moved(world)
    fact = next(iter(world.store.query_facts()))
    world.store.report_query(replace(fact, epoch=fact.epoch + 1))
    assert counted(world, operation) is None


def keep(world: World) -> int:
    lead = world.lead()
    assert lead.take()
    grew = keep_counts(
        world.settings.queries, world.store, world.clusters.__getitem__, term=lambda: lead.term, at=world.clock.now(),
        actor="ann",
    )  # fmt: skip
    lead.give_up()
    return grew


def texts(world: World) -> list[str]:
    return [event.text for event in world.store.history() if event.kind == "replayed"]


def test_a_controller_keeps_the_count_so_far_and_continues_from_there(world: World) -> None:
    operation = moved(world)
    assert keep(world) == 0
    come(world, 0, 3)
    read_to_end(world)
    assert keep(world) == 1
    world.clusters["west"].compact("orders", 0, range(END, END + 3))  # what was looked at may go
    come(world, 1, 7)
    read_to_end(world)
    assert keep(world) == 1
    assert keep(world) == 0
    assert texts(world) == [
        f"{count} of 14 announced records came to west and were read again by revenue" for count in (3, 10)
    ]
    kept = world.store.operation(operation.id)
    assert kept is not None
    world.clusters["west"].reachable = False
    assert counted(world, kept) == 10, "the number that was kept stands"


def test_a_number_that_is_full_is_not_looked_for_any_more(world: World) -> None:
    operation = moved(world)
    come(world, 0, 7)
    come(world, 1, 7)
    read_to_end(world)
    assert keep(world) == 1
    requests = world.clusters["west"].requested
    assert keep(world) == 0
    kept = world.store.operation(operation.id)
    assert kept is not None
    assert counted(world, kept) == 14
    assert world.clusters["west"].requested == requests


def test_a_day_after_the_move_the_count_ends(world: World) -> None:
    moved(world)
    come(world, 0, 7)
    read_to_end(world)
    world.clock.passed += 86_400 + 60
    assert keep(world) == 0
