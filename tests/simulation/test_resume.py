"""``resume: auto``: what the runners of a query have in their Spark decides how it continues."""

import pytest

from tests.contract.samples import plan_of
from tests.simulation.world import QUERY, World, settings


@pytest.mark.parametrize(
    ("companions", "requested", "resume"),
    [
        ((True, True), "auto", "switch"),
        ((True, False), "auto", "carry"),
        ((False, True), "auto", "carry"),
        ((False, False), "auto", "carry"),
        ((True, True), "carry", "carry"),
        ((False, False), "switch", "switch"),
    ],
)
def test_a_query_keeps_its_checkpoint_where_all_its_runners_can(
    companions: tuple[bool, bool], requested: str, resume: str
) -> None:
    world = World(settings(resume=requested))
    world.other.alive = True
    world.runner.companion, world.other.companion = companions
    world.clock.wait(2.0)
    operation = world.carry_out(world.request())
    row = world.store.assignment(QUERY)
    assert operation is not None
    assert operation.outcome == "done"
    assert plan_of(operation)["resume"] == resume
    assert row is not None
    assert (row.cluster, row.checkpoint == f"/cp/{QUERY}") == ("west", resume == "switch")
