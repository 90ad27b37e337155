"""Behind the commit: runners and standbys that die before the first batch, and the verbs that come in the meantime."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.new_requests import RequestSpec, submit
from orchestrator.operation.wait import RequestWait
from state.messages import Failure, Proof
from state.model.entities import Assignment, Desired, Intent, IntentKind, Operation, OperationKind, Phase, Request
from state.store.sql.schema import requests
from tests.contract.samples import plan_of
from tests.simulation.stores import force
from tests.simulation.world import QUERY, World, settings


def assigned(world: World) -> Assignment:
    assignment = world.store.assignment(QUERY)
    assert assignment is not None
    return assignment


def carried_out(world: World, request: Request, *, seconds: float = 60.0) -> Operation:
    operation = world.carry_out(request, seconds=seconds)
    assert operation is not None
    return operation


def loses_its_runner(*, started: bool = False) -> World:
    """Runner a dies when it is ordered to start on west, or right after it did; b is alive and can prove it."""
    world = World()
    world.other.alive, world.other.proof = True, Proof.PROCESS
    world.runner.commits = False
    obey = world.runner._obey

    def die(assignment: Assignment) -> None:
        if assignment.cluster != "west" or started:
            obey(assignment)
        world.runner.alive = assignment.cluster != "west"

    world.runner._obey = die  # type: ignore[method-assign] # the fault
    return world


def loses_its_standby(world: World | None = None) -> tuple[World, Request]:
    """West dies between the commit and the first batch: the query is started there and commits nothing."""
    world = world or World()
    world.runner.commits = False
    request = world.request()
    assert carried_out(world, request, seconds=1).phase is Phase.VERIFYING
    world.clusters["west"].reachable = False
    return world, request


# -- the runner dies -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("started", [False, True])
def test_a_runner_that_dies_after_the_commit_is_followed_once_proven_gone(started: bool) -> None:
    world = loses_its_runner(started=started)
    operation = carried_out(world, world.request())
    assert (operation.phase, operation.outcome, operation.epoch) == (Phase.SETTLED, "done", 3)
    assignment = assigned(world)
    assert (assignment.cluster, assignment.runner, assignment.epoch) == ("west", "b", 3)
    assert [(start.runner, start.epoch) for start in world.starts][-1] == ("b", 3)
    assert [start.runner for start in world.starts].count("b") == 1
    assert world.checkpoints[assignment.checkpoint].planted == set()
    assert world.other.handled == ["fence#2", "release"]
    (fence,) = [intent for intent in world.store.intents(operation.id) if intent.name == "fence#2"]
    assert fence.request["checkpoint"] == assignment.checkpoint
    assert fence.request["hosting"]["instance"] == "one"  # type: ignore[index] # plain JSON
    steps = world.store.steps(operation.id)
    waiting = ["start", "verify"] if started else ["start"]
    names = ["hold", "fence", "resolve", "prepare", "commit", *waiting, "hold", "takeover", "start", "verify"]
    assert [step.name for step in steps] == names
    assert [step.outcome for step in steps].count("failed") == 1
    assert steps[names.index("takeover")].detail["proof"] == "process"


def test_the_process_to_be_proven_gone_is_the_last_that_got_the_query() -> None:
    world = World()
    world.runner.alive, world.other.alive = False, True
    world.other._obey = lambda assignment: setattr(world.other, "alive", False)  # type: ignore[method-assign] # the fault
    world.clock.wait(6)
    request = world.request()
    assert carried_out(world, request, seconds=30).phase is Phase.STARTING
    assert assigned(world).runner == "b"
    world.runner.alive, world.runner.instance = True, "two"
    operation = carried_out(world, request)
    assert operation.outcome == "done"
    fences = [intent for intent in world.store.intents(operation.id) if intent.kind is IntentKind.FENCE]
    assert [fence.request["hosting"]["runner"] for fence in fences] == ["a", "b"]  # type: ignore[index] # plain JSON


def test_a_lost_run_without_proof_is_not_followed_without_consent() -> None:
    world = loses_its_runner()
    world.other.proof = None
    request = world.request()
    operation = carried_out(world, request, seconds=200)
    assert (operation.phase, operation.outcome) == (Phase.STARTING, None)
    assert operation.sentence.startswith("nothing proves that the run of runner a has stopped")
    assert (assigned(world).desired, assigned(world).epoch) == (Desired.HELD, 3)
    assert world.starts == []
    again = carried_out(world, world.request(consents=("unfenced",)))
    assert (again.id, again.outcome) == (operation.id, "done")
    assert [start.runner for start in world.starts] == ["b"]


def test_a_consent_for_the_run_of_a_dead_host_answers_for_no_later_run() -> None:
    """A person has looked at the host of ``a``; of ``b``, silent behind the commit, no one has said a word."""
    world = World()
    world.runner.proof = world.other.proof = None
    world.other.commits = False
    world.clock.wait(1)
    world.runner.alive, world.other.alive = False, True
    world.clock.wait(6)
    request = world.request(consents=("unfenced",))
    assert carried_out(world, request, seconds=20).phase is Phase.VERIFYING
    world.other.alive = False
    world.runner.alive, world.runner.instance = True, "two"
    operation = carried_out(world, request, seconds=200)
    assert (operation.phase, assigned(world).desired) == (Phase.STARTING, Desired.HELD)
    assert operation.sentence.startswith("nothing proves that the run of runner b has stopped")
    assert operation.sentence.endswith(
        "The consent unfenced was given for another run. If you know that this one has ended: "
        "tideover failover revenue --to west --consent unfenced"
    )
    assert [start.runner for start in world.starts] == ["b"]
    again = carried_out(world, world.request(consents=("unfenced",)))
    assert (again.id, again.outcome) == (operation.id, "done")
    assert [start.runner for start in world.starts] == ["b", "a"]
    assert len(again.consents) == 2


def test_a_lost_runner_that_comes_back_proves_its_own_run_gone() -> None:
    world = loses_its_runner()
    world.other.proof = None
    request = world.request()
    carried_out(world, request, seconds=20)
    del world.runner._obey
    world.runner.alive = world.runner.commits = True
    world.runner.instance = "two"
    operation = carried_out(world, request)
    assert operation.outcome == "done"
    assert [(start.runner, start.epoch) for start in world.starts] == [("a", 3)]


def test_without_another_runner_the_lost_one_is_waited_for() -> None:
    world = loses_its_runner()
    world.other.alive = False
    request = world.request()
    operation = carried_out(world, request, seconds=200)
    assert (operation.phase, operation.epoch) == (Phase.STARTING, 2)
    assert "tideover run --name a" in operation.sentence
    del world.runner._obey
    world.runner.alive = world.runner.commits = True
    assert carried_out(world, request).outcome == "done"
    assert [(start.runner, start.epoch) for start in world.starts] == [("a", 2)]


def test_a_takeover_whose_runner_dies_is_done_by_the_next() -> None:
    world = loses_its_runner()
    answer = world.other._answer

    def die(intent: Intent) -> None:
        world.other.alive = intent.kind is not IntentKind.RELEASE
        if world.other.alive:
            answer(intent)

    world.other._answer = die  # type: ignore[method-assign] # the fault
    request = world.request()
    assert carried_out(world, request, seconds=30).phase is Phase.STARTING
    assert assigned(world).desired is Desired.HELD
    del world.runner._obey
    world.runner.alive = world.runner.commits = True
    operation = carried_out(world, request)
    assert (operation.outcome, operation.epoch) == ("done", 3)
    assert [start.runner for start in world.starts] == ["a"]
    assert world.checkpoints[assigned(world).checkpoint].planted == set()


@pytest.mark.parametrize("kind", ["file-system", "unreadable"])
def test_a_takeover_takes_its_fence_away_however_often_that_fails(kind: str) -> None:
    world = loses_its_runner()
    world.other.failures = {IntentKind.RELEASE: [Failure(kind=kind, text="the disk is gone")] * 10}
    request = world.request()
    operation = carried_out(world, request, seconds=20)
    assert (operation.phase, operation.outcome) == (Phase.STARTING, None)
    assert "the disk is gone" in operation.sentence
    operation = carried_out(world, request)
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "done")
    assert world.checkpoints[assigned(world).checkpoint].planted == set()


def test_a_takeover_that_cannot_fence_is_undone_and_leaves_the_query() -> None:
    world = loses_its_runner()
    answer = world.other._do

    def plant_and_fail(intent: Intent) -> object:
        done = answer(intent)
        return Failure(kind="unreadable", text="commits/8 is cut short") if intent.kind is IntentKind.FENCE else done

    world.other._do = plant_and_fail  # type: ignore[method-assign, assignment] # the fault
    operation = carried_out(world, world.request())
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "failed")
    assert "commits/8 is cut short" in operation.sentence
    assignment = assigned(world)
    assert (assignment.desired, assignment.runner) == (Desired.RUNNING, "a")
    assert world.checkpoints[assignment.checkpoint].planted == set()


# -- the standby dies ------------------------------------------------------------------------------------------------
def test_a_standby_that_stays_away_ends_the_operation_with_the_query_there() -> None:
    world, request = loses_its_standby()
    operation = carried_out(world, request, seconds=60)
    assert operation.is_open
    assert operation.sentence == "west does not answer: no bootstrap server answered"
    operation = carried_out(world, request, seconds=60)
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "failed")
    assert operation.sentence.endswith("revenue stays assigned to west; to move it: tideover failover revenue")
    assert operation.measured.switch_seconds is None
    assignment = assigned(world)
    assert (assignment.cluster, assignment.epoch, assignment.desired) == ("west", 2, Desired.RUNNING)
    assert world.store.history(operation=operation.id)[-1].kind == "unverified"
    assert world.store.steps(operation.id)[-1].outcome == "failed"


def test_a_standby_that_stays_away_is_given_up_under_a_clock_set_back() -> None:
    world, request = loses_its_standby()
    assert carried_out(world, request, seconds=30).is_open
    world.clock.store_set_ahead = -3600.0
    assert carried_out(world, request, seconds=200).outcome == "failed"


def test_a_standby_that_comes_back_in_time_after_the_commit_is_used() -> None:
    world, request = loses_its_standby()
    carried_out(world, request, seconds=60)
    world.clusters["west"].reachable = world.runner.commits = True
    assert carried_out(world, request).outcome == "done"


def test_a_query_that_keeps_failing_on_the_standby_ends_the_operation_too() -> None:
    world = World()
    world.runner.start_error = "ModuleNotFoundError: no module named sink"
    operation = carried_out(world, world.request(), seconds=200)
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "failed")
    assert "no module named sink" in operation.sentence


def test_a_query_that_is_merely_slow_is_waited_for() -> None:
    world = World()
    world.runner.commits = False
    operation = carried_out(world, world.request(), seconds=200)
    assert operation.is_open
    assert "waiting for its first batch" in operation.sentence


def test_after_a_stranded_end_the_query_moves_on_under_a_new_fence() -> None:
    world, request = loses_its_standby()
    placed = assigned(world).checkpoint
    carried_out(world, request, seconds=120)
    world.runner.commits = True
    operation = carried_out(world, world.request(target="east"))
    assert (operation.outcome, operation.source, operation.epoch) == ("done", "west", 3)
    assert world.checkpoints[placed].planted == {8, 9}
    assert assigned(world).checkpoint == f"/cp/{QUERY}/epoch-3-{operation.id}"
    where_it_was = {"orders": {"orders": {"0": 100, "1": 100}}}
    assert world.checkpoints[assigned(world).checkpoint].offsets == where_it_was, "nothing was read on west"
    plan: Any = plan_of(operation)
    assert plan["totals"]["replay_records"] == 0
    assert [(start.cluster, start.epoch) for start in world.starts] == [("west", 2), ("east", 3)]


def test_a_fresh_start_that_read_nothing_is_moved_on_as_well() -> None:
    world, request = loses_its_standby(World(settings(resume="fresh", sink="keyed")))
    carried_out(world, request, seconds=120)
    world.runner.commits = True
    operation = carried_out(world, world.request(target="east"))
    assert (operation.outcome, operation.source) == ("done", "west"), operation.sentence
    assert world.starts[-1].starting_offsets == {"orders": {"orders": {"0": 100, "1": 100}}}


# -- verbs that come in the meantime ---------------------------------------------------------------------------------
def refusal(world: World, request: Request) -> str:
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    assert answered.refused is not None
    return answered.refused


def test_another_target_is_refused_while_an_operation_is_open() -> None:
    world = World()
    world.runner.answers = False
    operation = carried_out(world, world.request(), seconds=1)
    assert refusal(world, world.request(target="north")) == (
        f"operation {operation.id}, a failover to west, is open (FENCING): "
        f"wait for its end (tideover show-op {operation.id}), or run its own verb with its target to join it"
    )


def test_another_verb_is_refused_while_an_operation_is_open() -> None:
    world = World()
    world.runner.answers = False
    carried_out(world, world.request(), seconds=1)
    wish = RequestSpec(
        kind=OperationKind.SWITCHOVER, targets={QUERY: "west"}, expect_active={}, actor="ann", reason="", consents=()
    )
    (request,) = submit(world.store, wish)
    assert "a failover to west, is open (FENCING)" in refusal(world, request)


def test_a_request_that_leaves_the_target_open_joins() -> None:
    world = World()
    world.runner.answers = False
    operation = carried_out(world, world.request(), seconds=1)
    world.runner.answers = True
    request = world.request()
    force(world.store, requests, replace(request, target=None))
    assert carried_out(world, replace(request, target=None)).id == operation.id


def test_another_target_is_refused_while_a_placed_query_may_still_start() -> None:
    world = World()
    world.runner.commits = False
    carried_out(world, world.request(), seconds=1)
    assert "is open (VERIFYING)" in refusal(world, world.request(target="east"))


def test_another_target_is_refused_while_a_takeover_lacks_its_proof() -> None:
    world = loses_its_runner()
    world.other.proof = None
    carried_out(world, world.request(), seconds=20)
    world.clusters["west"].reachable = False
    assert "is open (STARTING)" in refusal(world, world.request(target="east"))


@pytest.mark.parametrize("reason", ["unreachable", "failing"])
def test_a_stranded_operation_makes_way_for_a_request_to_go_elsewhere(reason: str) -> None:
    world = World()
    if reason == "failing":
        world.runner.start_error = "TopicAuthorizationException"
        stuck = carried_out(world, world.request(), seconds=5)
        world.runner.start_error = None
    else:
        world, request = loses_its_standby(world)
        stuck = carried_out(world, request, seconds=5)
    assert stuck.is_open
    began = world.clock.passed
    work = RequestWait(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock,
        lead=world.lead(), actor="ann",
    )  # fmt: skip
    if reason == "failing":
        world.runner.start_error = "TopicAuthorizationException"
    world.clock.lives.append(lambda: fail_on_west(world, reason))
    (answered,) = work.see_through([world.request(target="east")], seconds=600)
    assert answered.operation not in {None, stuck.id}
    outcomes = {operation.id: operation.outcome for operation in world.store.operations()}
    assert outcomes == {stuck.id: "failed", answered.operation: "done"}
    assert assigned(world).cluster == "east"
    assert world.clock.passed - began < 60


def fail_on_west(world: World, reason: str) -> None:
    """And nowhere else."""
    is_west = assigned(world).cluster == "west"
    world.runner.start_error = "TopicAuthorizationException" if is_west and reason == "failing" else None
    world.runner.commits = not (is_west and reason == "unreachable")
