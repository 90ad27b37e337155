"""What was resolved ahead of a fence is used only while it is fresh."""

from state.model.entities import Phase
from tests.contract.samples import plan_of
from tests.simulation.world import World

PLACE, LACKING = 33 + 100, 5
CHANGES, ANSWERS = 20.0, 26.0


def test_a_standby_that_changes_during_the_fence_is_looked_up_again() -> None:
    """A runner takes its time, and the standby loses its newest records in the meantime: only a second answer knows."""
    world = World()
    world.runner.answers = False
    begun = world.clock.passed

    def change() -> None:
        passed = world.clock.passed - begun
        if passed >= CHANGES:
            world.clusters["west"].cut("orders", PLACE - LACKING)
        world.runner.answers = passed >= ANSWERS

    world.clock.lives.insert(0, change)
    operation = world.carry_out(world.request(), seconds=ANSWERS + 30)
    assert operation is not None
    assert operation.phase is Phase.SETTLED
    assert {row["target_offset"] for row in plan_of(operation)["partitions"]} == {PLACE - LACKING}
