"""What nobody can tell is taken upon himself by the person who asked; automatic mode has nobody for that."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.decide.move_facts import MoveFacts
from orchestrator.facts.gather import FactGatherer
from state.model.automation import AUTOMATIC
from state.model.entities import Operation
from tests.simulation.control import controller, pass_time
from tests.simulation.world import QUERY, World, settings


def moved_by_itself(world: World) -> Operation:
    """By a controller, because east is dead."""
    site = controller(world)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site, until=lambda: any(not each.is_open for each in world.store.operations()))
    (operation,) = world.store.operations()
    assert operation.actor == AUTOMATIC
    return operation


def moved_by_a_person(world: World) -> Operation:
    operation = world.carry_out(world.request())
    assert operation is not None
    return operation


def unattended() -> World:
    return World(settings(policy={"automatic": True}))


def empty_the_standby(world: World) -> None:
    world.clusters["west"].create("orders", 2)


def forget_the_newest_times(world: World) -> None:
    world.store.save_ends(replace(sample, newest_timestamp_ms=None) for sample in world.store.ends("east").values())
    for partition in (0, 1):  # behind the query: how many records it lacks cannot be counted either
        world.clusters["west"].truncate("orders", partition, 120)


@pytest.mark.parametrize("hide", [empty_the_standby, forget_the_newest_times])
def test_an_unknown_loss_is_a_persons_to_accept(hide: Callable[[World], None]) -> None:
    world = unattended()
    hide(world)
    alone = moved_by_itself(world)
    assert alone.outcome == "refused"
    assert alone.sentence.startswith("exposure: it is unknown what the standby lacks of orders-0, orders-1")
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    assert assignment.cluster == "east"
    assert moved_by_a_person(world).outcome == "done"


def test_a_known_loss_within_the_limit_is_nobodys_question() -> None:
    assert moved_by_itself(unattended()).outcome == "done"


def test_many_queries_are_judged_against_one_verdict_that_stays_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes the loop a third of a second, as on a busy host; a verdict counts for ten seconds."""
    names = tuple(f"q{number:02}" for number in range(60))
    world = World(settings(queries=names, policy={"automatic": True}), partitions=1)
    site, before = controller(world), FactGatherer.before

    def slowly(self: FactGatherer, *about: Any, look: bool = True, **more: Any) -> MoveFacts:
        if look:
            world.clock.wait(0.3)
        return before(self, *about, look=look, **more)

    monkeypatch.setattr(FactGatherer, "before", slowly)
    pass_time(world, 3, site)
    world.clusters["east"].reachable = False
    pass_time(world, 120, site, until=lambda: {row.cluster for row in world.store.assignments()} == {"west"})
    assert {row.cluster for row in world.store.assignments()} == {"west"}
    events = world.store.history(limit=10_000)
    assert [event.text for event in events if event.kind in {"refused", "not-moved"}] == []
    assert len({operation.group for operation in world.store.operations(limit=100)}) == 1
