"""What nobody can tell is taken upon himself by the person who asked; automatic mode has nobody for that."""

from collections.abc import Callable
from dataclasses import replace

import pytest

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
