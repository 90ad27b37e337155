"""An operation that a person calls off before its commit: the query stays where it is, unfenced."""

import pytest

from state.model.entities import Desired, IntentKind, Operation, Phase
from tests.simulation.control import InLineScheduler, scheduler, see_to
from tests.simulation.world import QUERY, World


def seen_to(world: World, held: InLineScheduler, seconds: float) -> Operation:
    see_to(world, held, seconds)
    (operation,) = world.store.operations()
    return operation


def assert_called_off(world: World, operation: Operation) -> None:
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, "refused")
    assert operation.sentence == f"cancelled by ann: {QUERY} stays on east"
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    assert (assignment.cluster, assignment.epoch, assignment.desired) == ("east", 3, Desired.RUNNING)
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()
    assert [start.cluster for start in world.starts] == ["east"]
    assert world.store.open_requests() == []


def test_failover_to_where_the_query_is_calls_off_a_blocked_operation() -> None:
    world = World()
    world.runner.proof = None
    world.request()
    held = scheduler(world)
    assert seen_to(world, held, 10).phase in {Phase.BLOCKED, Phase.FENCING}
    request = world.request(target="east")
    assert_called_off(world, seen_to(world, held, 20))
    answered = world.store.request(request.id)
    assert answered is not None
    assert answered.refused == f"not-already-there: {QUERY} is already on east"


def test_an_operation_without_a_runner_is_called_off_and_undone_later() -> None:
    world = World()
    world.request()
    held = scheduler(world)
    world.clock.wait(0.1)
    world.runner.alive = False
    assert seen_to(world, held, 10).phase is Phase.BLOCKED
    world.request(target="east")
    see_to(world, held, 10)
    world.runner.alive = True
    assert_called_off(world, seen_to(world, held, 20))


@pytest.mark.parametrize("kind", [IntentKind.FENCE, IntentKind.PREPARE])
def test_a_step_that_a_runner_is_at_work_on_ends_before_it_is_undone(kind: IntentKind) -> None:
    world = World()
    first = world.request()
    held = scheduler(world)

    def stall() -> None:
        pending = {intent.kind for intent in world.store.intents(first.id) if intent.ended_at is None}
        world.runner.answers = kind not in pending

    world.clock.lives.insert(0, stall)
    before = seen_to(world, held, 5)
    world.request(target="east")
    assert seen_to(world, held, 5) == before, "it waits for the runner"
    del world.clock.lives[0]
    world.runner.answers = True
    assert_called_off(world, seen_to(world, held, 20))
    assert world.runner.handled[-1] == "release"


def test_a_committed_operation_cannot_be_called_off() -> None:
    world = World()
    world.runner.commits = False
    world.request()
    held = scheduler(world)
    assert seen_to(world, held, 5).phase is Phase.VERIFYING
    request = world.request(target="east")
    assert seen_to(world, held, 5).is_open
    answered = world.store.request(request.id)
    assert answered is not None
    assert "is open (VERIFYING)" in str(answered.refused)
