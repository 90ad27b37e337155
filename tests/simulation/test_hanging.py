"""A runner whose file system hangs: its heart beats, and what was requested of it neither returns nor fails."""

import pytest

from orchestrator.decide.operation.intents import ANSWER_WITHIN, COPY_WITHIN
from state.model.entities import Assignment, Desired, IntentKind, IntentState, Operation, Phase
from tests.simulation.control import InLineScheduler, scheduler, see_to
from tests.simulation.world import QUERY, World

WITHIN = ANSWER_WITHIN.total_seconds()
FENCE, INSPECT, PREPARE, RELEASE = IntentKind.FENCE, IntentKind.INSPECT, IntentKind.PREPARE, IntentKind.RELEASE


def seen_to(world: World, held: InLineScheduler, seconds: float) -> Operation:
    see_to(world, held, seconds)
    return world.store.operations()[-1]


def assigned(world: World) -> Assignment:
    row = world.store.assignment(QUERY)
    assert row is not None
    return row


def assert_runs_where_it_was(world: World) -> None:
    """On east, from its old checkpoint, in which no fence is left."""
    row = assigned(world)
    assert (row.cluster, row.desired, row.epoch) == ("east", Desired.RUNNING, 3)
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()
    assert [start.cluster for start in world.starts] == ["east"]


def test_a_fence_that_hangs_is_given_up_and_undone_once_it_returns() -> None:
    world = World()
    world.runner.hangs = {FENCE}
    world.request()
    held = scheduler(world)
    assert seen_to(world, held, WITHIN - 5).phase is Phase.FENCING
    operation = seen_to(world, held, 10)
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, None)
    assert operation.sentence == (
        "runner a was ordered to stop the query and has not answered for 90 s: its file system may hang; "
        "runner a may still write the fence that has to be removed; it continues when runner a answers: repair its "
        "file system, or end process 1 on h and start it again with tideover run --name a"
    )
    see_to(world, held, 900)
    assert "release" not in [intent.name for intent in world.store.intents(operation.id)], "the fence would come after"
    world.runner.hangs.clear()
    operation = seen_to(world, held, 20)
    assert operation.outcome == "failed"
    assert_runs_where_it_was(world)
    assert world.runner.handled == ["fence", "release"]


def test_a_fence_that_hangs_for_ever_ends_with_its_process() -> None:
    world = World()
    world.runner.hangs = {FENCE}
    world.request()
    held = scheduler(world)
    see_to(world, held, WITHIN + 5)
    world.runner.hangs, world.runner.instance, world.runner.stuck = set(), "two", []
    assert seen_to(world, held, 20).outcome == "failed"
    assert_runs_where_it_was(world)


def test_another_runner_fences_for_a_hung_one_and_the_late_fence_is_undone() -> None:
    """It proves nothing of a process that is alive: the operation waits, and is called off."""
    world = World()
    world.other.alive, world.other.proof = True, None
    world.runner.hangs = {FENCE}
    world.request()
    held = scheduler(world)
    operation = seen_to(world, held, WITHIN + 5)
    assert operation.phase in {Phase.BLOCKED, Phase.FENCING}
    assert "fence#2" in world.other.handled
    assert "end process 1 on h" in operation.sentence
    world.request(target="east")
    assert seen_to(world, held, WITHIN + 5).phase is Phase.ABORTED
    assert "release" not in world.other.handled
    world.runner.hangs.clear()
    assert seen_to(world, held, 20).outcome == "refused"
    assert_runs_where_it_was(world)


def test_a_late_fence_ends_the_wait_of_another_runner_for_proof() -> None:
    world = World()
    world.other.alive, world.other.proof = True, None
    world.runner.hangs = {FENCE}
    world.request()
    held = scheduler(world)
    see_to(world, held, WITHIN + 5)
    world.runner.hangs.clear()
    assert seen_to(world, held, 20).outcome == "done"
    assert assigned(world).cluster == "west"


def test_a_checkpoint_whose_making_hangs_is_made_by_another_runner() -> None:
    world = World()
    world.other.alive = True
    world.runner.hangs = {PREPARE}
    request, held = world.request(), scheduler(world)
    operation = seen_to(world, held, COPY_WITHIN.total_seconds() + 20)
    assert operation.outcome == "done"
    placed = assigned(world)
    assert placed.runner == "b"
    world.runner.hangs.clear()
    see_to(world, held, 5)
    assert "prepare" in world.runner.handled, "it returns at last"
    states = {intent.name: intent.state for intent in world.store.intents(request.id) if intent.kind is PREPARE}
    assert states == {"prepare": IntentState.FAILED, "prepare#2": IntentState.DONE}
    assert assigned(world) == placed
    assert [start.runner for start in world.starts] == ["b"]


def test_a_slow_checkpoint_may_be_called_off_and_is_given_up_in_the_end() -> None:
    world = World()
    world.runner.hangs = {PREPARE}
    world.request()
    held = scheduler(world)
    operation = seen_to(world, held, WITHIN + 5)
    assert operation.phase is Phase.PREPARING
    assert operation.sentence.endswith(f"tideover failover {QUERY} --to east")
    assert seen_to(world, held, COPY_WITHIN.total_seconds()).outcome == "failed"
    assert_runs_where_it_was(world)


def test_a_checkpoint_whose_making_takes_long_is_called_off() -> None:
    world = World()
    world.runner.hangs = {PREPARE}
    world.request()
    held = scheduler(world)
    see_to(world, held, WITHIN + 5)
    world.request(target="east")
    assert seen_to(world, held, 5).outcome == "refused"
    assert_runs_where_it_was(world)
    world.runner.hangs.clear()
    see_to(world, held, 5)
    assert world.runner.handled[-1] == "prepare", "it returns at last"
    assert_runs_where_it_was(world)


@pytest.mark.parametrize("other", [False, True])
def test_another_runner_removes_the_fence_where_one_hangs(other: bool) -> None:
    world = World()
    world.other.alive = other
    world.runner.hangs = {PREPARE, RELEASE}
    world.request()
    held = scheduler(world)
    see_to(world, held, WITHIN + 5)
    world.request(target="east")
    operation = seen_to(world, held, WITHIN + 10)
    if not other:
        assert operation.phase is Phase.ABORTED
        assert operation.sentence.startswith("cancelled by ann: revenue stays on east; runner a was ordered to remove")
        world.runner.hangs = {PREPARE}
        operation = seen_to(world, held, 20)
    assert operation.outcome == "refused"
    assert_runs_where_it_was(world)
    assert assigned(world).runner == ("b" if other else "a")


def test_behind_the_commit_a_hung_fence_goes_to_another_runner_or_waits() -> None:
    world = World()
    world.runner.commits = False
    world.request()
    held = scheduler(world)
    assert seen_to(world, held, 5).phase is Phase.VERIFYING
    world.runner.alive, world.other.alive, world.other.hangs = False, True, {FENCE}
    operation = seen_to(world, held, WITHIN + 15)
    assert operation.phase is Phase.STARTING
    assert operation.sentence.endswith("or end process 1 on h and start it again with tideover run --name b")
    world.runner.alive, world.runner.instance, world.runner.commits = True, "two", True
    assert seen_to(world, held, 20).outcome == "done"
    assert [start.runner for start in world.starts] == ["a", "a"]
