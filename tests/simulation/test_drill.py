"""A drill shows what a failover would do, is in the way of nothing, and leaves everything as it was."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.decide.times import instant
from orchestrator.new_requests import RequestSpec, submit
from state.messages import Failure
from state.model.entities import (
    DRILLS,
    EVERY_KIND,
    Desired,
    IntentKind,
    IntentState,
    Operation,
    OperationKind,
    Phase,
    Request,
)
from state.store.controller_store import ControllerStore
from tests.contract.samples import plan_of
from tests.simulation.control import InLineScheduler, controller, pass_time, scheduler, see_to
from tests.simulation.live import LiveWorld, lose_site
from tests.simulation.test_switchover import replicated
from tests.simulation.world import QUERY, ROWS, START_MS, Crash, CrashingStore, World, settings

PLACE = 33 + 100


def requested(world: World, query: str = QUERY, target: str | None = "west", *, actor: str = "ann") -> Request:
    spec = RequestSpec(
        kind=OperationKind.DRILL, targets={query: target}, expect_active={}, actor=actor, reason="", consents=()
    )
    return submit(world.store, spec)[0]


def drill_of(world: World, request: Request) -> Operation:
    found = world.store.operation(request.id)
    assert found is not None, world.store.request(request.id)
    return found


def rehearsed(world: World, *, seconds: float = 10.0, held: InLineScheduler | None = None) -> Operation:
    request = requested(world)
    see_to(world, held or scheduler(world), seconds)
    return drill_of(world, request)


def production(world: World) -> list[object]:
    """All that a drill could have changed of a query: its row, what is tracked and reported of it, its checkpoints."""
    store = world.store
    facts = [replace(fact, reported_at=world.clock.now(), started_at=None, progressed_at=None, first_commit_at=None)
             for fact in store.query_facts()]  # fmt: skip
    facts = [replace(fact, reported_at=facts[0].reported_at) for fact in facts]
    seen = [(fact.epoch, fact.cluster, fact.checkpoint, fact.batch, fact.offsets) for fact in facts]
    return [
        store.assignments(), store.positions(QUERY), store.formers(), seen, store.operations(),
        {path: (each.batch, each.planted) for path, each in world.checkpoints.items()}, len(world.starts),
    ]  # fmt: skip


def test_a_drill_ends_as_proven_and_leaves_everything_as_it_was() -> None:
    world = World()
    before = production(world)
    drill = rehearsed(world)
    assert (drill.outcome, drill.phase, drill.epoch) == ("done", Phase.SETTLED, 1)
    assert production(world) == before
    plan: Any = plan_of(drill)
    assert (plan["kind"], plan["starting_offsets"]) == ("drill", {"orders": {"0": PLACE, "1": PLACE}})
    assert {"caught-up", "active-reachable"} & {gate["name"] for gate in plan["gates"]} == set()
    measured = drill.measured.drill
    assert measured is not None
    assert (measured.rows, measured.rows_expected, measured.batch) == (2 * ROWS, 2 * ROWS, 8)
    assert list(measured.seconds) == ["resolve", "copy", "build", "start", "batch", "stop", "clean"]
    steps = world.store.steps(drill.id)
    assert [(each.name, each.outcome) for each in steps] == [(name, "done") for name in measured.seconds]
    assert any(sentence.startswith("The sink:") for sentence in measured.not_proven)


def test_a_drill_sends_no_request_to_the_cluster_in_use() -> None:
    world = World()
    world.clusters["east"].reachable = False
    assert rehearsed(world).outcome == "done"


def test_a_standby_that_is_down_refuses_the_drill() -> None:
    world = World()
    world.clusters["west"].reachable = False
    request = requested(world)
    see_to(world, scheduler(world), 5.0)
    refused = world.store.request(request.id)
    assert refused is not None
    assert (refused.refused or "").startswith("standby-reachable: ")
    assert world.store.operations(kinds=EVERY_KIND) == []


def test_no_living_runner_refuses_the_drill() -> None:
    world = World()
    world.runner.alive = False
    world.clock.wait(10.0)
    request = requested(world)
    see_to(world, scheduler(world), 2.0)
    refused = world.store.request(request.id)
    assert refused is not None
    assert (refused.refused or "").startswith("runner-alive: ")


def took(world: World, request: Request) -> float:
    operation = world.store.operation(request.id)
    assert operation is not None
    assert operation.ended_at is not None, operation.sentence
    assert operation.outcome == "done"
    return (operation.ended_at - request.created_at).total_seconds()


def test_a_failover_ends_a_drill_and_takes_no_longer_for_it() -> None:
    seconds = []
    for drills in (False, True):
        world = World()
        held = scheduler(world)
        world.runner.hangs = {IntentKind.DRILL}
        drill = requested(world) if drills else None
        see_to(world, held, 2.0)
        request = world.request()
        see_to(world, held, 10.0)
        seconds.append(took(world, request))
        if drill is not None:
            ended = drill_of(world, drill)
            assert (ended.outcome, ended.phase) == ("refused", Phase.ABORTED)
            assert ended.sentence.startswith("stopped: ")
            assert ended.ended_at is not None
            assert ended.ended_at - request.created_at < timedelta(seconds=0.5)
            (intent,) = world.store.intents(drill.id)
            assert intent.state is IntentState.WITHDRAWN
            world.runner.hangs.clear()  # it answers, too late
            see_to(world, held, 2.0)
            assert drill_of(world, drill) == ended
    assert seconds[0] == seconds[1]


@pytest.mark.parametrize("kind", [OperationKind.SWITCHOVER, OperationKind.REWIND])
def test_every_kind_of_move_ends_a_drill(kind: OperationKind) -> None:
    world = replicated()
    world.runner.hangs = {IntentKind.DRILL}
    held = scheduler(world)
    drill = requested(world)
    see_to(world, held, 1.0)
    assert drill_of(world, drill).is_open
    target = "east" if kind is OperationKind.REWIND else "west"
    world.request(kind=kind, target=target, parameters={"to_time": instant(START_MS - 60_000)})
    see_to(world, held, 1.0)
    ended = drill_of(world, drill)
    assert (ended.outcome, ended.sentence.startswith("stopped: ")) == ("refused", True), ended.sentence


def test_a_drill_is_refused_while_its_query_moves() -> None:
    world = World()
    world.runner.proof = None
    held = scheduler(world)
    moving = world.request()
    see_to(world, held, 2.0)
    request = requested(world)
    see_to(world, held, 2.0)
    refused = world.store.request(request.id)
    assert refused is not None
    assert refused.refused == f"operation {moving.id}, a failover of {QUERY} to west, is open"


def test_a_cancelled_drill_ends_at_once() -> None:
    world = World()
    world.runner.hangs = {IntentKind.DRILL}
    held, before = scheduler(world), production(world)
    drill = requested(world)
    see_to(world, held, 2.0)
    assert drill_of(world, drill).is_open
    back = requested(world, target="east", actor="bob")
    see_to(world, held, 1.0)
    ended = drill_of(world, drill)
    assert (ended.outcome, ended.sentence) == ("refused", "cancelled by bob")
    answered = world.store.request(back.id)
    assert answered is not None
    assert answered.refused == f"not-already-there: {QUERY} is on east"
    assert production(world) == before


def test_a_runner_that_dies_fails_its_drill_and_nothing_else() -> None:
    world = World()
    world.runner.hangs = {IntentKind.DRILL}
    held = scheduler(world)
    drill = requested(world)
    see_to(world, held, 2.0)
    world.runner.alive = False
    see_to(world, held, 8.0)
    ended = drill_of(world, drill)
    assert (ended.outcome, ended.sentence) == ("failed", "runner a died or fell silent during the drill")
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.epoch, row.desired, row.cluster) == (1, Desired.RUNNING, "east")


def test_a_leader_that_dies_leaves_the_drill_to_the_next() -> None:
    world = World()
    world.runner.hangs = {IntentKind.DRILL}
    held = scheduler(world)
    drill = requested(world)
    see_to(world, held, 2.0)
    held.close()
    held.lead.give_up()
    following = scheduler(world)
    following.resume()
    world.runner.hangs.clear()
    see_to(world, following, 2.0)
    assert drill_of(world, drill).outcome == "done"


def test_a_drill_that_does_not_finish_in_time_fails() -> None:
    world = World()
    world.runner.hangs = {IntentKind.DRILL}
    held = scheduler(world)
    drill = requested(world)
    see_to(world, held, 2.0)
    world.clock.wait(700.0)
    following = scheduler(world)
    following.resume()
    see_to(world, following, 1.0)
    ended = drill_of(world, drill)
    assert (ended.outcome, ended.sentence) == ("failed", "not finished within 10 min")


def test_a_drill_ends_however_often_its_leader_dies() -> None:
    for writes in range(1, 12):
        world = World()
        before = production(world)
        store = CrashingStore(world.store, writes)
        drill = requested(world)
        crashed = False
        try:
            see_to_with(world, store)
        except Crash:
            crashed = True
        lead = world.lead()
        while not lead.take():
            world.clock.wait(1.0)
        following = scheduler(world, lead)
        following.resume()
        see_to(world, following, 20.0)
        assert drill_of(world, drill).outcome == "done", writes
        assert production(world) == before
        if not crashed:
            return
    pytest.fail("a drill has fewer writes than this")


def see_to_with(world: World, store: ControllerStore) -> None:
    """A process whose store lets it die at a write; its drill is driven in line."""
    lead = world.lead(store)
    assert lead.take()
    held = InLineScheduler(
        store=store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock, lead=lead, actor="ann"
    )
    until = world.clock.passed + 5.0
    while world.clock.passed < until:
        held.take()
        held.turn()
        world.clock.wait(0.1)
    lead.give_up()


def test_a_failure_of_the_runner_fails_the_drill() -> None:
    world = World()
    world.runner.failures[IntentKind.DRILL] = [Failure(kind="drill", text="the query fails on the standby: boom")]
    drill = rehearsed(world)
    assert (drill.outcome, drill.sentence) == ("failed", "runner a: the query fails on the standby: boom")
    assert [each.outcome for each in world.store.steps(drill.id)] == ["done", "failed"]


def test_drills_of_several_queries_run_one_after_the_other() -> None:
    world = World(settings(queries=("revenue", "clicks")))
    held = scheduler(world)
    world.runner.hangs = {IntentKind.DRILL}
    requests = [requested(world, "revenue"), requested(world, "clicks")]
    see_to(world, held, 2.0)
    assert len(world.store.operations(kinds=DRILLS)) == 1
    world.runner.hangs.clear()
    see_to(world, held, 5.0)
    assert [drill_of(world, each).outcome for each in requests] == ["done", "done"]


def test_a_second_request_joins_the_open_drill() -> None:
    world = World()
    held = scheduler(world)
    world.runner.hangs = {IntentKind.DRILL}
    first = requested(world)
    see_to(world, held, 1.0)
    second = requested(world, target=None)
    see_to(world, held, 1.0)
    answered = world.store.request(second.id)
    assert answered is not None
    assert answered.operation == first.id


def test_drills_do_not_count_among_the_moves_of_a_query() -> None:
    world = World()
    held = scheduler(world)
    rehearsed(world, held=held)
    assert world.store.operations(query=QUERY) == []
    assert [each.kind for each in world.store.operations(query=QUERY, kinds=EVERY_KIND)] == [OperationKind.DRILL]
    moved = world.request()
    see_to(world, held, 10.0)
    took(world, moved)
    assert [each.id for each in world.store.operations(query=QUERY)] == [moved.id]


def test_a_live_world_loses_and_repeats_nothing_by_drills() -> None:
    world = LiveWorld()
    site = controller(world)
    pass_time(world, 20.0, site)
    requests = []
    for _ in range(3):
        requests.append(requested(world))
        pass_time(world, 10.0, site)
    assert [drill_of(world, each).outcome for each in requests] == ["done"] * 3
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.epoch, row.cluster) == (1, "east")
    assert (world.account(), world.broken) == ((0, 0), [])


def test_automatic_failover_acts_while_a_drill_is_open() -> None:
    world = LiveWorld()
    site = controller(world)
    pass_time(world, 30.0, site)
    drill = requested(world)
    pass_time(world, 1.0, site)
    lose_site(world, cluster="east", runner="a")
    pass_time(world, 60.0, site)
    row = world.store.assignment(QUERY)
    assert row is not None
    assert row.cluster == "west"
    assert drill_of(world, drill).outcome in {"refused", "failed"}
    assert (world.account().lost, world.broken) == (0, [])


def test_a_query_that_is_not_declared_any_more_ends_its_drill() -> None:
    world = World()
    world.runner.hangs = {IntentKind.DRILL}
    held = scheduler(world)
    drill = requested(world)
    see_to(world, held, 2.0)
    held.settings = settings(queries=("clicks",))
    held.close()
    held.resume()
    see_to(world, held, 1.0)
    ended = drill_of(world, drill)
    assert (ended.outcome, "is not declared any more" in ended.sentence) == ("failed", True)
