"""The queries of one application move together: all are committed, or all stay where they were."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest

from orchestrator.new_requests import RequestSpec, submit
from state.messages import Failure
from state.model.entities import Desired, IntentKind, Operation, OperationKind, Phase
from state.settings.keys import Policy, Source, Tideover
from state.store.controller_store import ControllerStore
from state.store.sql.schema import assignments
from tests.simulation.control import InLineScheduler, controller, pass_time, scheduler, see_to
from tests.simulation.faults.scenes import active
from tests.simulation.live import LiveWorld, live_settings
from tests.simulation.stores import Crash, CrashingStore, force
from tests.simulation.world import World, settings

TOTALS, COUNTS = "totals", "counts"
COMMANDS = {"start": ["app", "start", "{cluster}"], "stop": ["app", "stop"], "status": ["app", "status"]}
GROUPS: dict[str, Any] = {"applications": {"shop": COMMANDS}}


def of_application(**groups: Any) -> Tideover:
    return settings(
        queries=(TOTALS, COUNTS), groups={**GROUPS, **groups}, pipeline=None, application="shop", runners=["a"]
    )


def world_of(tideover: Tideover | None = None) -> World:
    """The application's queries on east; at no moment is one committed while the other could still stay."""
    world = World(tideover or of_application())
    world.clock.lives.append(lambda: check(world))
    return world


def check(world: World) -> None:
    clusters = {each.query: each.cluster for each in world.store.assignments()}
    if len(set(clusters.values())) == 1:
        return
    behind = [query for query, cluster in clusters.items() if cluster == "east"]
    for query in behind:
        (operation,) = world.store.operations(query=query, only_open=True)
        assert operation.phase is Phase.PREPARING, f"{clusters}, and {query} is {operation.phase}"


def moves(world: World) -> dict[str, Operation]:
    return {each.query: each for each in world.store.operations()}


def assert_on(world: World, cluster: str, *, starts: int) -> None:
    rows = world.store.assignments()
    assert {(row.query, row.cluster, row.desired) for row in rows} == {
        (TOTALS, cluster, Desired.RUNNING), (COUNTS, cluster, Desired.RUNNING),
    }  # fmt: skip
    assert [start.cluster for start in world.starts] == [cluster] * starts
    assert not any(checkpoint.planted for checkpoint in world.checkpoints.values())
    assert world.store.open_requests() == []


@pytest.mark.parametrize("at_once", [1, 128])
def test_one_request_moves_all_queries_of_its_application(at_once: int) -> None:
    """Also where no more than one query may move at once."""
    world = world_of()
    world.request(TOTALS)
    held = scheduler(world)
    held.width = at_once
    for _ in range(60):
        see_to(world, held, 1)
        held.resume()
    assert {query: each.outcome for query, each in moves(world).items()} == {TOTALS: "done", COUNTS: "done"}
    assert_on(world, "west", starts=2)
    assert len({each.group for each in moves(world).values()}) == 1


def test_a_move_waits_until_the_other_query_is_ready_too() -> None:
    world = world_of()
    world.request(COUNTS)
    held, answer = scheduler(world), world.runner._answer

    def only_counts(intent: Any) -> None:
        if intent.query == COUNTS:
            answer(intent)

    world.runner._answer = only_counts  # type: ignore[method-assign] # totals is slow
    see_to(world, held, 3)
    assert moves(world)[COUNTS].sentence == "ready to move, and waits for totals of the same application"
    world.runner._answer = answer  # type: ignore[method-assign] # and done with it
    see_to(world, held, 20)
    assert_on(world, "west", starts=2)


def test_a_query_that_cannot_move_keeps_its_application_from_being_stopped() -> None:
    made = of_application()
    counts = made.queries[COUNTS].model_copy(update={"sources": {"orders": Source(topics=("refunds",))}})
    world = world_of(made.model_copy(update={"queries": {**made.queries, COUNTS: counts}}))
    first = world.request(TOTALS)
    see_to(world, scheduler(world), 10)
    answered = world.store.request(first.id)
    assert answered is not None
    assert str(answered.refused).startswith(
        "moves-together: totals is not moved, because counts of the same application is not: topics-present: "
    )
    assert moves(world) == {}
    assert_on(world, "east", starts=0)


def test_a_plan_that_fails_for_one_query_gives_all_back() -> None:
    made = of_application()
    strict = made.queries[COUNTS].model_copy(update={"policy": Policy(max_exposure=timedelta(seconds=5))})
    world = world_of(made.model_copy(update={"queries": {**made.queries, COUNTS: strict}}))
    world.request(TOTALS)
    see_to(world, scheduler(world), 30)
    found = moves(world)
    assert found[COUNTS].sentence.startswith("exposure: ")
    assert found[TOTALS].sentence.startswith("moves-together: totals is not moved, because counts of the same ")
    assert {each.phase for each in found.values()} == {Phase.ABORTED}
    assert_on(world, "east", starts=2)


def test_a_checkpoint_that_cannot_be_made_ready_gives_all_back() -> None:
    world = world_of()
    world.runner.failures = {IntentKind.PREPARE: [Failure(kind="no-space", text="no space left on device")]}
    world.request(TOTALS)
    see_to(world, scheduler(world), 40)
    assert {each.phase for each in moves(world).values()} == {Phase.ABORTED}
    assert_on(world, "east", starts=2)


def test_a_move_that_is_called_off_for_one_query_is_off_for_all() -> None:
    world = world_of()
    world.runner.proof = None
    world.request(TOTALS)
    held = scheduler(world)
    see_to(world, held, 10)
    world.request(COUNTS, target="east")
    see_to(world, held, 30)
    assert moves(world)[COUNTS].sentence == "cancelled by ann: counts stays on east"
    assert_on(world, "east", starts=2)


def test_waves_do_not_part_the_queries_of_one_application() -> None:
    world = world_of()
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets={TOTALS: "west", COUNTS: "west"}, expect_active={}, actor="ann",
        reason="", consents=(), waves=(1,),
    )  # fmt: skip
    submit(world.store, wish)
    see_to(world, scheduler(world), 20)
    assert_on(world, "west", starts=2)


def test_automatic_mode_moves_all_queries_of_an_application_or_none() -> None:
    for automatic in (True, False):
        policies = {TOTALS: Policy(automatic=True), COUNTS: Policy(automatic=automatic)}
        made = live_settings(
            queries=(TOTALS, COUNTS), groups=GROUPS, pipeline=None, application="shop", runners=["a"]
        )  # fmt: skip
        queries = {name: query.model_copy(update={"policy": policies[name]}) for name, query in made.queries.items()}
        world = LiveWorld(made.model_copy(update={"queries": queries}))
        site = controller(world)
        pass_time(world, 10, site)
        world.clusters["east"].reachable = False
        pass_time(world, 60, site)
        there = {row.query: active(world, row.query) for row in world.store.assignments()}
        assert there == dict.fromkeys((TOTALS, COUNTS), "west" if automatic else "east")


def test_a_move_of_an_application_is_completed_after_a_crash_at_any_write() -> None:
    for writes in range(1, 100):
        world = world_of()
        world.request(TOTALS)
        store = CrashingStore(world.store, writes)
        try:
            see_to(world, scheduler_on(world, cast("ControllerStore", store)), 30)
        except Crash:
            held = scheduler_on(world, world.store)
            held.resume()
            see_to(world, held, 30)
        assert_on(world, "west", starts=2)
        if len(store.writes) < writes:
            break
    assert writes > 20


def scheduler_on(world: World, store: ControllerStore) -> InLineScheduler:
    lead = world.lead(store)
    while not lead.take():
        world.clock.wait(1.0)
    return InLineScheduler(
        store=store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock, lead=lead,
        actor="controller",
    )  # fmt: skip


def test_a_query_left_behind_by_its_application_follows_alone() -> None:
    """The way back where a move of one query failed between the commits of both: counts is on west already."""
    world = World(of_application())
    row = world.store.assignment(COUNTS)
    assert row is not None
    force(world.store, assignments, replace(row, cluster="west"))
    world.request(TOTALS, target="west")
    see_to(world, scheduler(world), 30)
    assert {query: (each.outcome, each.target) for query, each in moves(world).items()} == {TOTALS: ("done", "west")}
    assert {row.query: row.cluster for row in world.store.assignments()} == {TOTALS: "west", COUNTS: "west"}
    assert world.store.open_requests() == []
