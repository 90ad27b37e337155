"""Automatic mode judges what it has begun until the old run is proven stopped, but not what a person wants."""

import pytest

from orchestrator.operation.pauses import pause
from state.model.automation import AUTOMATIC, EVERY
from state.model.entities import Desired, Operation, Phase
from state.settings.keys import Policy
from tests.simulation.control import REFUSED, Site, controller, pass_time
from tests.simulation.world import QUERY, World, settings


def blocked() -> tuple[World, Site]:
    """East is down, and so is the only runner: automatic mode has begun a move, and nothing is stopped."""
    world = World(settings(policy={"automatic": True}))
    site = controller(world)
    pass_time(world, 5, site)
    world.clusters["east"].reachable = world.runner.alive = False
    pass_time(world, 30, site)
    assert (moved(world).actor, moved(world).phase) == (AUTOMATIC, Phase.BLOCKED)
    return world, site


def moved(world: World) -> Operation:
    return world.store.operations()[-1]


def assert_stays(world: World, why: str) -> None:
    operation, row = moved(world), world.store.assignment(QUERY)
    assert operation.outcome == "refused"
    assert operation.sentence.startswith(f"revenue stays on east: {why}")
    assert row is not None
    assert (row.cluster, row.desired, row.epoch) == ("east", Desired.RUNNING, 3)
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()
    assert [start.cluster for start in world.starts] in ([], ["east"])


def test_a_site_that_was_away_and_is_back_keeps_its_query() -> None:
    world, site = blocked()
    world.clusters["east"].reachable = True
    pass_time(world, 1, site)
    world.runner.alive = True
    pass_time(world, 20, site)
    assert_stays(world, "cluster-down: east is not known to be down: UP")


def test_a_cluster_that_answers_before_a_runner_is_there_keeps_its_query() -> None:
    world, site = blocked()
    world.clusters["east"].reachable = True
    pass_time(world, 20, site)
    assert (moved(world).phase, moved(world).outcome) == (Phase.ABORTED, None), "the fence is undone by a runner"
    world.clusters["east"].reachable = False
    world.runner.alive = True
    pass_time(world, 5, site)
    assert_stays(world, "cluster-down: east is not known to be down: UP")


def test_a_pause_calls_off_what_has_stopped_nothing_yet() -> None:
    world, site = blocked()
    pause(world.store, EVERY, until=None, actor="ann", reason="upgrade")
    pass_time(world, 5, site)
    assert (moved(world).phase, moved(world).outcome) == (Phase.ABORTED, None), "the fence is undone by a runner"
    world.runner.alive = True
    pass_time(world, 60, site)
    assert_stays(world, "not-paused: ann paused automatic failover of all queries until tideover resume --all: upgrade")


def test_a_policy_that_lets_it_move_no_more_calls_it_off() -> None:
    world, first = blocked()
    first.frozen = True
    world.settings = world.settings.model_copy(update={"policy": Policy(automatic=False), "queries": {
        QUERY: world.settings.queries[QUERY].model_copy(update={"policy": None})}})  # fmt: skip
    second = controller(world, "two")
    pass_time(world, 60, second)
    world.runner.alive = True
    pass_time(world, 5, second)
    assert_stays(world, "automatic-on: policy.automatic is off")


def test_a_runner_that_is_back_while_the_cluster_is_down_moves_its_query() -> None:
    world, site = blocked()
    world.runner.alive = True
    pass_time(world, 20, site)
    assert moved(world).outcome == "done"


@pytest.mark.parametrize("typed", ["a pause", "the cluster is back"])
def test_an_operation_that_a_person_wanted_too_is_not_called_off(typed: str) -> None:
    world, site = blocked()
    world.request()
    pass_time(world, 2, site)
    assert moved(world).consents == ("move",)
    if typed == "a pause":
        pause(world.store, EVERY, until=None, actor="ann", reason="")
    else:
        world.clusters["east"].reachable = True
    pass_time(world, 20, site)
    assert moved(world).phase is Phase.BLOCKED
    world.runner.alive = True
    pass_time(world, 20, site)
    assert moved(world).outcome == "done"


def test_a_query_that_is_proven_stopped_moves_in_spite_of_a_pause() -> None:
    world, site = blocked()
    world.clusters["west"].reachable = False
    world.runner.alive = True
    pass_time(world, 10, site, until=lambda: moved(world).phase is Phase.RESOLVING)
    pause(world.store, EVERY, until=None, actor="ann", reason="")
    pass_time(world, 10, site)
    world.clusters["west"].reachable = True
    pass_time(world, 20, site)
    assert moved(world).outcome == "done"


def test_a_fence_proven_while_the_cluster_is_in_doubt_waits_for_a_verdict() -> None:
    world, site = blocked()
    world.clusters["east"].reachable = True
    pass_time(world, 2, site, until=lambda: site.controller._believed["east"].verdict.value == "SUSPECT")
    world.runner.alive = True
    site.looks.blocked["east"] = REFUSED  # it answered once
    world.runner.live()
    pass_time(world, 0.4, site)
    assert moved(world).phase in {Phase.FENCING, Phase.BLOCKED}
    pass_time(world, 20, site)
    assert moved(world).outcome == "done", "DOWN again"
