"""Faults of our own processes: controllers and runners that die, freeze, do not obey, or come back."""

from orchestrator.notify.teller import Teller
from orchestrator.operation.pauses import pause
from orchestrator.rounds import newest_line
from state.model.automation import EVERY
from state.model.cluster_status import Verdict
from state.model.entities import Phase
from tests.notified import Receiver, target
from tests.simulation.control import controller, pass_time
from tests.simulation.faults.scenes import (
    active,
    assert_left_alone,
    assert_moved,
    only_operation,
    operations,
    runs_on,
    scene,
)
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld


@fault(
    16,
    "the controller is killed in the middle of a move (each write of each operation: `test_crashes.py`)",
    verdict=Verdict.DOWN,
    then="the next one continues from the recorded step, with the offsets that were chosen, and one start",
)
def test_a_move_whose_controller_dies_is_finished_by_the_next() -> LiveWorld:
    world, first = scene()
    second = controller(world, "two")
    world.clusters["east"].reachable = False
    moving = lambda: bool(operations(world)) and only_operation(world).phase is Phase.PREPARING  # noqa: E731
    pass_time(world, 20, first, second, until=moving)
    chosen = [intent.request for intent in world.store.intents(only_operation(world).id) if intent.name == "prepare"]
    first.frozen = True
    pass_time(world, 30, second)
    made = world.store.intents(assert_moved(world).id)
    assert [intent.request for intent in made if intent.name.startswith("prepare")] == chosen
    assert [start.epoch for start in world.starts] == [1, 2]
    return world


@fault(
    17,
    "the leading controller is frozen past its lease and thaws, with another one there",
    verdict=Verdict.DOWN,
    then="the other leads under a new term and finishes; the thawed one finds its time over, and follows",
)
def test_a_leader_that_thaws_writes_nothing_and_follows() -> LiveWorld:
    world, first = scene()
    second = controller(world, "two")
    world.clusters["east"].reachable = False
    pass_time(world, 20, first, second, until=lambda: bool(operations(world)))
    first.frozen = True
    pass_time(world, 30, first, second)
    operation, leader = assert_moved(world), world.store.leader("controller")
    first.frozen = False
    pass_time(world, 60, first, second)
    after = world.store.leader("controller")
    assert leader is not None
    assert after is not None
    assert (after.term, after.holder) == (leader.term, leader.holder)
    assert operations(world) == [operation]
    return world


@fault(
    31,
    "the endpoint for notices is down",
    verdict=Verdict.DOWN,
    then="no move waits for it; each notice is tried again with growing pauses, and a receiver that works again gets "
    "the newest state of each incident",
)
def test_a_receiver_that_is_down_delays_nothing_and_gets_notices_later() -> LiveWorld:
    world, site = scene()
    lead, receiver = site.controller.lead, Receiver(error="nobody there")
    teller = Teller(world.store, target(severity="info"), receiver, lambda: lead.term, since=newest_line(world.store))
    due = [0.0]

    def report() -> None:
        if world.clock.passed >= due[0]:
            due[0] = world.clock.passed + teller.turn()

    world.clock.lives.append(report)
    pass_time(world, 5, site)
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert_moved(world)
    assert receiver.taken == []
    assert 2 <= receiver.tries <= 6
    receiver.error = ""
    pass_time(world, 60, site)
    assert receiver.titles == ["east is DOWN", "failover of revenue from east to west: done"]
    return world


@fault(
    49,
    "the leader dies right after it requested a move; the cluster returns, and a person pauses",
    verdict=Verdict.DOWN,
    then="the next leader turns the request down: what automatic failover requested is taken within 10 s and judged "
    "again, or not taken",
)
def test_a_dead_leaders_request_is_not_done_when_its_reason_is_gone() -> LiveWorld:
    world, first = scene()

    def die() -> None:
        first.frozen = bool(world.store.open_requests())

    first.scheduler.take = die  # type: ignore[method-assign] # right before it would take its own request
    world.clusters["east"].reachable = False
    pass_time(world, 20, first, until=lambda: first.frozen)
    (request,) = world.store.open_requests()
    world.clusters["east"].reachable = True
    pause(world.store, EVERY, until=None, actor="ann@desk", reason="looking into it")
    pass_time(world, 60, controller(world, "two"))
    answer = world.store.request(request.id)
    assert answer is not None
    assert answer.refused is not None
    assert_left_alone(world)
    return world


@fault(
    22,
    "the old run ignores the stop",
    verdict=Verdict.DOWN,
    then="BLOCKED at the fence until it is quiet, or until a person has ended its process and consents to go unfenced",
)
def test_a_run_that_will_not_stop_is_not_followed_until_it_is_quiet() -> LiveWorld:
    world, site = scene()
    world.drivers["a"].is_stubborn = True
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert only_operation(world).phase is Phase.BLOCKED
    assert "a task of it is running" in only_operation(world).sentence
    assert [start.epoch for start in world.starts] == [1]
    world.drivers["a"].is_stubborn = False
    pass_time(world, 10, site)
    assert_moved(world)
    assert (world.broken, world.account()) == ([], (0, 0))
    world, site = scene(LiveWorld(hosts={"a": "host-one", "b": "host-two"}))
    world.drivers["a"].is_stubborn = True
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    world.drivers["a"].kill()
    pass_time(world, 60, site)
    assert only_operation(world).phase is Phase.BLOCKED, "nobody can look at that host"
    assert [start.epoch for start in world.starts] == [1]
    world.request(consents=("unfenced",))
    pass_time(world, 10, site)
    assert assert_moved(world).consents[1].startswith("unfenced (runner a on ")
    assert world.starts[-1].runner == "b"
    return world


@fault(
    23,
    "a supervisor starts the old driver again, with what it knew of before the move",
    verdict=Verdict.DOWN,
    then="it reads the store before it builds anything: its epoch is over, and the old checkpoint is fenced",
)
def test_an_old_driver_that_is_started_again_starts_nothing() -> LiveWorld:
    world, site = scene()
    old = world.store.assignment("revenue")
    assert old is not None
    world.clusters["east"].reachable = False
    world.drivers["a"].kill()
    pass_time(world, 30, site)
    assert_moved(world)
    world.clusters["east"].reachable = True
    again = world.start("a")
    pass_time(world, 1, site)
    again._start(old)
    assert again._why_not(old) == "the checkpoint /cp/revenue is fenced"
    pass_time(world, 30, site)
    assert again.runs == {}
    return world


@fault(
    24,
    "one of several queries cannot be started on the standby: a bad credential, a missing jar, a sink that is down",
    verdict=Verdict.DOWN,
    then="its operation ends as failed after 90 s and it stays assigned there and is tried again and again; the "
    "others run",
)
def test_a_query_that_cannot_be_started_fails_alone_and_does_not_bounce_back() -> LiveWorld:
    world, site = scene(queries=("good", "bad"))
    for driver in world.drivers.values():
        driver.start_errors["bad"] = "no such class: Sink"
    world.clusters["east"].reachable = False
    pass_time(world, 120, site)
    assert_moved(world, "good")
    failed = next(operation for operation in operations(world) if operation.query == "bad")
    assert (failed.phase, failed.outcome, active(world, "bad")) == (Phase.SETTLED, "failed", "west")
    assert "no such class: Sink" in failed.sentence
    for driver in world.drivers.values():
        driver.start_errors.clear()
    pass_time(world, 30, site)
    assert runs_on(world, "bad") == "west"
    return world


@fault(
    41,
    "the primary and the runner on it die together; a warm runner is on the same host",
    verdict=Verdict.DOWN,
    then="the other runner sees that the process is gone, which is proof, and takes over",
)
def test_a_runner_dead_with_its_cluster_is_proven_gone_by_its_successor() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].reachable = False
    world.drivers["a"].kill()
    pass_time(world, 30, site)
    assert assert_moved(world).plan is not None
    assert world.starts[-1].runner == "b"
    return world


@fault(
    42,
    "no process reaches the runner's host, and its cluster is dead",
    verdict=Verdict.DOWN,
    then="BLOCKED: silence is no proof. The host comes back, and its runner proves its own run stopped",
)
def test_a_runner_on_an_unreachable_host_is_not_followed_until_it_is_back() -> LiveWorld:
    world, site = scene(LiveWorld(hosts={"a": "host-one", "b": "host-two"}))
    world.clusters["east"].reachable = False
    world.drivers["a"].frozen = True
    pass_time(world, 120, site)
    assert only_operation(world).phase is Phase.BLOCKED
    world.drivers["a"].frozen = False
    pass_time(world, 20, site)
    assert_moved(world)
    return world


@fault(
    43,
    "the runner dies right after the commit",
    verdict=Verdict.DOWN,
    then="the query is held again under the next epoch, the lost run proven gone, and another runner takes over",
)
def test_a_runner_that_dies_behind_the_commit_is_followed_by_another() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].reachable = False
    pass_time(world, 20, site, until=lambda: active(world) == "west")
    world.drivers["a"].kill()
    pass_time(world, 60, site)
    operation = assert_moved(world)
    assert operation.epoch == 3
    assert world.starts[-1].runner == "b"
    return world
