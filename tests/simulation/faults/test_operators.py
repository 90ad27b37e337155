"""People at work: planned moves, pauses, two at once, and what is refused without a word of consent."""

from datetime import timedelta
from typing import Any

from orchestrator.operation.pauses import pause, resume
from state.messages import StateOperator
from state.model.automation import EVERY
from state.model.cluster_status import Verdict
from state.model.entities import OperationKind
from tests.contract.samples import plan_of
from tests.simulation.control import controller, pass_time
from tests.simulation.faults.scenes import (
    active,
    assert_left_alone,
    assert_moved,
    events_of,
    only_operation,
    operations,
    runs_on,
    scene,
    verdict,
)
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld


@fault(
    28,
    "a person moves a query under load, with both clusters well",
    verdict=Verdict.UP,
    then="it finishes its batch and stops, waits until the standby has all that it has read, and continues there. If "
    "that takes longer than policy.catch_up, it goes back. A failover moves it without waiting",
)
def test_a_query_that_is_moved_under_load_loses_and_repeats_nothing() -> LiveWorld:
    world, site = scene(LiveWorld(rate=20))
    world.replicator.behind_seconds = 8.0
    pass_time(world, 20.7, site)
    world.request(kind=OperationKind.SWITCHOVER)
    pass_time(world, 60, site)
    assert_moved(world)
    operation = only_operation(world)
    plan: Any = plan_of(operation)
    assert plan["uncommitted_batch"] == "none"
    assert {row["method"] for row in plan["partitions"]} == {"exact"}
    (resolved,) = [step for step in world.store.steps(operation.id) if step.name == "resolve"]
    assert resolved.ended_at is not None
    assert 5 <= (resolved.ended_at - resolved.started_at).total_seconds() <= 12, "it waited for the copies"
    return world


@fault(
    29,
    "the primary dies while automatic mode is paused",
    verdict=Verdict.DOWN,
    then="one line of history, and nothing moves. Resuming moves nothing. Only a cluster that goes down "
    "afterwards is left. A "
    "controller that freezes or is restarted in between is no reason either",
)
def test_resuming_after_a_pause_moves_nothing_that_was_down_before() -> LiveWorld:
    world, site = scene()
    pause(world.store, EVERY, until=None, actor="ann", reason="broker upgrade")
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert [event.detail["name"] for event in events_of(world, "not-moved")] == ["not-paused"]
    resume(world.store, EVERY, actor="ann", reason="done")
    pass_time(world, 60, site)
    site.frozen = True
    pass_time(world, 8)
    site.frozen = False
    pass_time(world, 60, site)
    site.frozen = True
    site = controller(world, "two")
    pass_time(world, 60, site)
    assert verdict(world) is Verdict.DOWN
    assert (active(world), list(operations(world))) == ("east", [])
    world.clusters["east"].reachable = True
    pass_time(world, 30, site)
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    assert_moved(world)
    return world


@fault(
    51,
    "the primary dies during a pause, another controller takes over in it, and the pause's own time runs out",
    verdict=Verdict.DOWN,
    then="one line of history, and nothing moves: the end of a pause moves no more than `resume` does; only a "
    "cluster that goes down "
    "afterwards is left",
)
def test_a_pause_whose_time_runs_out_moves_nothing_that_was_down_before() -> LiveWorld:
    world, first = scene()
    until = world.store.now() + timedelta(minutes=2)
    pause(world.store, EVERY, until=until, actor="ann", reason="broker upgrade")
    world.clusters["east"].reachable = False
    pass_time(world, 30, first)
    assert verdict(world) is Verdict.DOWN
    first.frozen = True
    second = controller(world, "two")
    pass_time(world, 60, second)
    assert world.store.now() < until
    pass_time(world, 300, second)
    refused = [event.detail["name"] for event in events_of(world, "not-moved")]
    assert (refused[0], refused[-1]) == ("not-paused", "fresh-verdict")
    assert (active(world), list(operations(world))) == ("east", [])
    world.clusters["east"].reachable = True
    pass_time(world, 30, second)
    world.clusters["east"].reachable = False
    pass_time(world, 30, second)
    assert_moved(world)
    return world


@fault(
    33,
    "two operators type the same move at once",
    verdict=Verdict.UP,
    then="one operation; both requests name it, and the query is started once",
)
def test_two_requests_at_once_are_one_operation() -> LiveWorld:
    world, site = scene()
    requested = [world.request(), world.request()]
    pass_time(world, 30, site)
    operation = assert_moved(world)
    answers = [world.store.request(request.id) for request in requested]
    assert [answer and answer.operation for answer in answers] == [operation.id, operation.id]
    assert [start.epoch for start in world.starts] == [1, 2]
    return world


@fault(
    34,
    "a stateful query is to resume with a new checkpoint",
    verdict=Verdict.UP,
    then="refused by `fresh-allowed`: its state would be lost silently; it continues where it was. A consent lets it, "
    "and nothing is lost but that state",
)
def test_a_stateful_query_is_started_afresh_only_with_consent() -> LiveWorld:
    world, site = scene(resume="fresh")
    world.checkpoints["/cp/revenue"].operators = (StateOperator(id=0, name="stateStoreSave", partitions=2),)
    world.request()
    pass_time(world, 30, site)
    assert only_operation(world).sentence.startswith("fresh-allowed: the query keeps state")
    assert (active(world), runs_on(world)) == ("east", "east")
    world.request(consents=("fresh",))
    pass_time(world, 30, site)
    assert operations(world)[0].outcome == "done"
    assert (active(world), runs_on(world), world.lag() <= 4) == ("west", "west", True)
    assert world.checkpoints[world.starts[-1].checkpoint].begun == world.starts[-1].checkpoint
    return world


@fault(
    47,
    "a move is requested that is not needed: the query is there already",
    verdict=Verdict.UP,
    then="refused in one sentence; nothing is stopped",
)
def test_a_query_that_is_there_already_is_not_stopped() -> LiveWorld:
    world, site = scene()
    request = world.request(target="east")
    pass_time(world, 10, site)
    answer = world.store.request(request.id)
    assert answer is not None
    assert answer.refused == "not-already-there: revenue is already on east"
    assert_left_alone(world)
    return world
