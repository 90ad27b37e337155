"""Queries whose plan uses columns of their cluster, moved by automatic mode and by a person."""

import pytest

from state.model.column_uses import Column, ColumnUse, ColumnUses
from tests.contract.samples import plan_of
from tests.simulation.control import Site, pass_time
from tests.simulation.faults.scenes import assert_left_alone, assert_moved, operations, runs_on, scene
from tests.simulation.live import LiveWorld
from tests.simulation.test_housekeeping import keeper

LATE = ColumnUse("orders", Column.TIMESTAMP, "withWatermark", is_logic=True, delay_ms=600_000)
OFFSET = ColumnUse("orders", Column.OFFSET, "dropDuplicates", is_logic=True)
REACHES = ColumnUse("orders", Column.OFFSET, "foreachBatch", is_logic=False)


def using(*columns: ColumnUse) -> tuple[LiveWorld, Site]:
    """All is well for some seconds, and the runner has read the plan."""
    world = LiveWorld()
    use(world, columns)
    return scene(world)


def use(world: LiveWorld, columns: ColumnUses) -> None:
    for checkpoint in world.checkpoints.values():
        checkpoint.columns = columns


def strike(world: LiveWorld, site: Site, seconds: float = 30) -> None:
    world.clusters["east"].reachable = False
    pass_time(world, seconds, site)


def sample(world: LiveWorld, site: Site) -> None:
    """What the leading controller does once a minute."""
    assert keeper(world, lambda: site.controller.lead.term).sample() == 1


def test_an_event_time_that_was_compared_before_an_outage_lets_a_move_pass() -> None:
    world, site = using(LATE)
    sample(world, site)
    strike(world, site)
    gates = {gate["name"]: gate for gate in plan_of(assert_moved(world))["gates"]}
    assert (gates["event-time"]["ok"], gates["event-time"]["measured"]) == (True, "the same (withWatermark: timestamp)")


def test_an_event_time_that_was_never_compared_is_left_to_a_person() -> None:
    world, site = using(LATE)
    strike(world, site)
    assert_left_alone(world)
    world.request()
    pass_time(world, 30, site)
    assert_moved(world)


@pytest.mark.parametrize("columns", [(OFFSET,), (REACHES,)])
def test_automatic_mode_moves_no_query_that_may_depend_on_offsets(columns: ColumnUses) -> None:
    world, site = using(*columns)
    strike(world, site)
    assert_left_alone(world)


def test_a_person_is_refused_before_the_query_is_stopped() -> None:
    world, site = using(OFFSET)
    strike(world, site)
    request = world.request()
    pass_time(world, 10, site)
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.refused or "").startswith("offset-in-logic: dropDuplicates uses offset")
    assert list(operations(world)) == []
    world.request(consents=("columns",))
    pass_time(world, 30, site)
    assert runs_on(world) == "west"
