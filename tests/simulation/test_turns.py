"""More moves are requested than are made side by side: who waits runs on until its turn comes."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from orchestrator.decide.gates.automatic import VERDICT_VALID
from orchestrator.new_requests import TAKEN_WITHIN, RequestSpec, submit
from state.model.entities import Desired, Intent, OperationKind, Phase, Request
from tests.simulation.control import InLineScheduler, Site, controller, pass_time, scheduler, see_to
from tests.simulation.faults.scenes import active, assert_moved, events_of, operations, runs_on, scene
from tests.simulation.live import LiveWorld
from tests.simulation.world import World, settings

NAMES = ("first", "second", "third")
ONE = {"operations": {"at_once": 1}}


def request_all(
    world: World, queries: Sequence[str] = NAMES, *, within: timedelta = TAKEN_WITHIN
) -> tuple[Request, ...]:
    """``failover QUERY... --to west``."""
    targets = dict.fromkeys(queries, "west")
    wish = RequestSpec(
        kind=OperationKind.FAILOVER, targets=targets, expect_active={}, actor="ann", reason="", consents=(),
        within=within,
    )  # fmt: skip
    return submit(world.store, wish)


def crowd(at_once: int = 1) -> tuple[LiveWorld, Site]:
    return scene(queries=NAMES, groups={"operations": {"at_once": at_once}})


def held(world: World) -> list[str]:
    return [row.query for row in world.store.assignments() if row.desired is Desired.HELD]


def look_on(world: World) -> set[int]:
    """How many queries are held, at any moment from now on."""
    seen: set[int] = set()
    world.clock.lives.append(lambda: seen.add(len(held(world))))
    return seen


def answer(world: World, request: Request) -> Request:
    holds = world.store.request(request.id)
    assert holds is not None
    return holds


def narrow(world: World) -> InLineScheduler:
    """A scheduler that drives one operation at a time."""
    made = scheduler(world)
    made.width = 1
    return made


def go_on(world: World, held: InLineScheduler, seconds: int) -> None:
    """As a controller does, which looks every second for what is open."""
    for _ in range(seconds):
        assert held.lead.holds()
        held.resume()
        see_to(world, held, 1.0)


def test_a_query_runs_on_until_its_turn_comes() -> None:
    world, site = crowd()
    seen = look_on(world)
    request_all(world)
    pass_time(world, 20, site, until=lambda: bool(operations(world)))
    (operation,) = operations(world)
    assert (operation.query, operation.phase) == ("first", Phase.FENCING)
    assert [runs_on(world, query) for query in NAMES] == [None, "east", "east"]
    pass_time(world, 60, site)
    begun = [assert_moved(world, query) for query in NAMES]
    assert [operation.id for operation in reversed(operations(world))] == [operation.id for operation in begun]
    assert seen == {0, 1}
    assert {operation.group for operation in begun} == {begun[0].group}
    for operation in begun[1:]:
        assert operation.started_at == world.store.steps(operation.id)[0].started_at, "who waited was not away"
    assert world.broken == []


def test_as_many_as_are_driven_at_once_are_begun_at_once() -> None:
    world, site = crowd(at_once=2)
    request_all(world)
    pass_time(world, 5, site, until=lambda: bool(operations(world)))
    assert held(world) == ["first", "second"]


@pytest.mark.parametrize("more", [0.0, 0.2, 1.0])
def test_who_waits_is_moved_by_the_next_leader(more: float) -> None:
    world, site = crowd()
    seen, requested = look_on(world), request_all(world)
    pass_time(world, 5, site, until=lambda: bool(operations(world)))
    pass_time(world, more, site)
    site.frozen = True
    after = controller(world, "two")
    pass_time(world, 5, after)
    assert [answer(world, request).operation for request in requested[1:]] == [None, None], "the lease has not run out"
    assert [runs_on(world, query) for query in NAMES[1:]] == ["east", "east"]
    pass_time(world, 60, after)
    for query in NAMES:
        assert_moved(world, query)
    assert max(seen) == 1
    assert world.broken == []


def test_all_leave_a_dead_cluster_in_turn_however_long_that_takes() -> None:
    world, site = crowd()
    world.clusters["east"].reachable = False
    pass_time(world, 20, site, until=lambda: bool(operations(world)))
    assert [request.query for request in world.store.open_requests()] == ["second", "third"]
    site.scheduler.width = 0  # as long as each move takes long
    pass_time(world, VERDICT_VALID.total_seconds() + 5, site)
    assert [request.query for request in world.store.open_requests()] == ["second", "third"], "they are not asked anew"
    site.scheduler.width = 1
    pass_time(world, 90, site)
    moved = [assert_moved(world, query) for query in NAMES]
    assert {operation.group for operation in moved} == {moved[0].group}
    assert events_of(world, "refused") == []
    assert world.broken == []


def test_a_query_whose_turn_does_not_come_in_time_stays_with_a_reason() -> None:
    world = World(settings(queries=NAMES, groups=ONE))
    world.runner.answers = False
    requested = request_all(world, within=timedelta(seconds=5))
    see_to(world, narrow(world), 6)
    assert held(world) == ["first"]
    why = (
        "it expired at 2026-01-31T12:00:05.000Z before its turn came: more moves were requested than run at once "
        "(operations.at_once); run the command again with a longer --timeout"
    )
    assert [answer(world, request).refused for request in requested] == [None, why, why]


def test_a_request_that_waits_its_turn_is_called_off_without_a_stop() -> None:
    world = World(settings(queries=NAMES, groups=ONE))
    world.runner.answers = False
    requested = request_all(world)
    scheduler = narrow(world)
    see_to(world, scheduler, 1)
    stay = world.request("second", target="east")
    see_to(world, scheduler, 1)
    assert answer(world, requested[1]).refused == "cancelled by ann: second stays on east"
    assert answer(world, stay).refused == "not-already-there: second is already on east"
    world.runner.answers = True
    see_to(world, scheduler, 30)
    assert [active(world, query) for query in NAMES] == ["west", "east", "west"]  # type: ignore[arg-type] # a world
    assert world.store.assignment("second").epoch == 1  # type: ignore[union-attr] # it is there
    assert world.store.open_requests() == []


def test_a_request_from_before_a_clock_set_back_is_called_off_too() -> None:
    world = World(settings(queries=NAMES, groups=ONE))
    world.runner.answers = False
    requested = request_all(world)
    scheduler = narrow(world)
    see_to(world, scheduler, 1)
    world.clock.store_set_ahead = -600.0
    world.request("second", target="east")
    see_to(world, scheduler, 1)
    assert answer(world, requested[1]).refused == "cancelled by ann: second stays on east"


def test_a_second_request_waits_in_its_place_and_joins() -> None:
    world = World(settings(queries=NAMES, groups=ONE))
    world.runner.answers = False
    requested, scheduler = request_all(world), narrow(world)
    see_to(world, scheduler, 1)
    again = world.request("third")
    see_to(world, scheduler, 1)
    assert held(world) == ["first"]
    world.runner.answers = True
    see_to(world, scheduler, 30)
    assert answer(world, again).operation == requested[2].id
    assert [operation.query for operation in reversed(world.store.operations())] == list(NAMES)


def test_a_move_that_waits_for_something_keeps_the_others_for_a_while_only() -> None:
    world = World(settings(queries=NAMES, groups=ONE))
    answers = world.runner._answer

    def stubborn(intent: Intent) -> None:
        if intent.query == "third":
            answers(intent)

    world.runner._answer = stubborn  # type: ignore[method-assign] # no one confirms the first two
    request_all(world, NAMES[:2])
    scheduler, passed_over = narrow(world), list[str]()
    begin = scheduler._begin

    def watch(operation: str) -> None:
        if scheduler._begun[operation] < world.clock.passed:
            passed_over.extend(name for name in scheduler._queue if name not in scheduler._begun)
        begin(operation)

    scheduler._begin = watch  # type: ignore[method-assign] # looks on
    go_on(world, scheduler, 9)
    assert held(world) == ["first"]
    go_on(world, scheduler, 5)
    assert held(world) == ["first", "second"]
    go_on(world, scheduler, 12)
    world.request("third")
    go_on(world, scheduler, 3)
    assert active(world, "third") == "west"  # type: ignore[arg-type] # a world
    third = next(operation for operation in world.store.operations() if operation.query == "third")
    hold, fence = world.store.steps(third.id)[:2]
    assert (fence.started_at - hold.started_at).total_seconds() < 1.0, "who is stopped does not queue behind the slow"
    assert passed_over == []
