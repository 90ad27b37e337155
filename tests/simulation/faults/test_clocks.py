"""Faults of time: clocks that are set, hosts that stand still, ticks that come late."""

import pytest

from state.model.cluster_status import Verdict
from tests.simulation.control import REFUSED, controller, pass_time
from tests.simulation.faults.scenes import assert_left_alone, assert_moved, operations, scene, verdict
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld


@fault(
    21,
    "the host's clock is set by an hour, or the host is paused for two minutes, during a short outage",
    verdict=Verdict.UNKNOWN,
    then="probe history is discarded; the lease goes by the store's clock and the monotonic one",
)
def test_a_clock_that_was_set_and_a_frozen_host_accuse_no_cluster() -> LiveWorld:
    world, site = scene()
    for jump in (3600.0, -3600.0):
        world.clusters["east"].reachable = False
        pass_time(world, 0.9, site)
        world.clock.set_ahead += jump
        pass_time(world, 0.9, site)
        assert verdict(world) is Verdict.UNKNOWN
        world.clusters["east"].reachable = True
        pass_time(world, 10, site)
    site.frozen, world.clusters["east"].reachable = True, False
    pass_time(world, 120, site)
    site.frozen = False
    pass_time(world, 0.9, site)
    assert list(operations(world)) == []
    world.clusters["east"].reachable = True
    pass_time(world, 10, site)
    assert_left_alone(world)
    return world


@fault(
    44,
    "the store's clock is set by an hour, forwards or back",
    verdict=Verdict.UP,
    then="the lease changes hands at worst, under a new term; nothing moves, and a real failure later is seen",
)
def test_a_store_whose_clock_was_set_moves_nothing_and_hides_no_failure() -> LiveWorld:
    world, first = scene()
    second = controller(world, "two")
    for jump in (3600.0, -3600.0):
        world.clock.store_set_ahead += jump
        pass_time(world, 60, first, second)
        assert verdict(world) is Verdict.UP
        assert_left_alone(world)
    world.clusters["east"].reachable = False
    pass_time(world, 60, first, second)
    assert_moved(world)
    return world


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 2.0])
def test_a_set_store_clock_moves_nothing_while_only_controllers_are_blind(
    jump: float,
) -> None:
    """What others saw is on the clock of before, and may seem to be older than every look that failed."""
    world, first = scene()
    second = controller(world, "two")
    for site in (first, second):
        site.looks.blocked["east"] = REFUSED
    pass_time(world, 20, first, second)
    assert verdict(world) is Verdict.UNREACHABLE_FROM_HERE
    for offset in range(7):
        world.clock.store_set_ahead += jump
        pass_time(world, 20 + offset * 0.1, first, second)
    assert verdict(world) is Verdict.UNREACHABLE_FROM_HERE
    assert_left_alone(world)
    world.clusters["east"].reachable = False
    pass_time(world, 60, first, second)
    assert_moved(world)


@pytest.mark.parametrize("tenths", range(6))
def test_a_follower_that_leads_by_a_set_store_clock_has_noticed_it_too(tenths: int) -> None:
    world, first = scene()
    second = controller(world, "two")
    for site in (first, second):
        site.looks.blocked["east"] = REFUSED
    pass_time(world, 20 + tenths / 10, first, second)
    first.frozen = True
    world.clock.store_set_ahead += 3600.0
    pass_time(world, 1, first, second)
    assert second.controller.lead.holds()
    pass_time(world, 20, first, second)
    assert verdict(world) is Verdict.UNREACHABLE_FROM_HERE
    assert_left_alone(world)


@fault(
    45,
    "the controller's loop is starved: each round begins seconds late",
    verdict=Verdict.UP,
    then="its probes do not count while that lasts, so a short outage is not taken for a long one; it never acts on "
    "them",
)
def test_late_rounds_void_what_was_seen() -> LiveWorld:
    world, site = scene()
    for _ in range(20):
        world.clusters["east"].reachable = False
        site.frozen = True
        pass_time(world, 2.5, site)
        site.frozen = False
        pass_time(world, 0.1, site)
        world.clusters["east"].reachable = True
        pass_time(world, 0.1, site)
    pass_time(world, 10, site)
    assert_left_alone(world)
    return world


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_that_is_set_in_the_middle_of_a_move_changes_nothing_of_it(jump: float) -> None:
    world, site = scene()
    world.clusters["east"].reachable = False
    pass_time(world, 20, site, until=lambda: bool(operations(world)))
    world.clock.set_ahead += jump
    pass_time(world, 60, site)
    assert_moved(world)
    assert (world.broken, world.account()) == ([], (0, 0))
