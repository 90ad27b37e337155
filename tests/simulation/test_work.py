"""Several requests, several processes: one operation for each query, side by side, whichever controller leads."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.facts.current import open_operations
from orchestrator.lease import Leadership
from orchestrator.new_requests import RequestSpec, standing_of, submit
from orchestrator.operation.scheduler import Scheduler
from orchestrator.operation.wait import RequestWait
from state.errors import StoreUnavailable
from state.messages import Proof
from state.model.automation import AUTOMATIC
from state.model.entities import Intent, OperationKind, Phase, Request
from state.settings.keys import Tideover
from state.store.controller_store import ControllerStore
from tests.simulation.world import World, settings
from tests.waiting import until

WAIT = 120.0


def work(
    world: World,
    *,
    holder: str = "one",
    store: ControllerStore | None = None,
    settings: Tideover | None = None,
    watch: Callable[[], object] = lambda: None,
) -> RequestWait:
    store = store or world.store
    return RequestWait(
        store=store,
        settings=settings or world.settings,
        logs=world.clusters.__getitem__,
        clock=world.clock,
        lead=Leadership(store, world.clock, holder),
        actor="ann",
        watch=watch,  # type: ignore[arg-type] # what it returns is let go
    )


def scheduler(world: World, *, holder: str = "one", width: int = 8, store: ControllerStore | None = None) -> Scheduler:
    store = store or world.store
    return Scheduler(
        store=store,
        settings=world.settings,
        logs=world.clusters.__getitem__,
        clock=world.clock,
        lead=Leadership(store, world.clock, holder),
        actor="controller",
        width=width,
        retry_seconds=30.0,
    )


def wish(world: World, *queries: str) -> tuple[Request, ...]:
    targets = dict.fromkeys(queries, "west")
    requested = RequestSpec(
        kind=OperationKind.FAILOVER, targets=targets, expect_active={}, actor="ann", reason="", consents=()
    )
    return submit(world.store, requested)


def outcomes(world: World) -> dict[str, str | None]:
    return {operation.query: operation.outcome for operation in world.store.operations()}


def test_all_queries_move_as_one_group() -> None:
    world = World(settings(queries=("one", "two", "three")))
    requests = wish(world, "one", "two", "three")
    work(world).see_through(requests, seconds=60)
    assert outcomes(world) == {"one": "done", "two": "done", "three": "done"}
    assert {operation.group for operation in world.store.operations()} == {requests[0].group}


def test_a_verb_that_leads_drives_no_more_at_once_than_configured() -> None:
    world = World(settings(queries=NAMES, groups={"operations": {"at_once": 2}}))
    most = 0

    def count() -> None:
        nonlocal most
        most = max(most, drivers())
        world.runner.answers = world.clock.passed > 2

    world.clock.lives.insert(0, count)
    work(world).see_through(wish(world, *NAMES), seconds=600)
    assert outcomes(world) == dict.fromkeys(NAMES, "done")
    assert most == 2


def test_one_failing_query_does_not_stop_the_others() -> None:
    world = World(settings(queries=("one", "two")))
    del world.checkpoints["/cp/one"]
    original = world.runner._answer

    def answer(intent: Intent) -> None:
        if intent.query == "two":
            original(intent)

    world.runner._answer = answer  # type: ignore[method-assign] # the fault
    work(world).see_through(wish(world, "one", "two"), seconds=120)
    assert outcomes(world) == {"one": None, "two": "done"}


def test_two_processes_at_once_make_one_operation_and_one_start() -> None:
    world = World()
    first, second = wish(world, "revenue"), wish(world, "revenue")
    results: list[tuple[Request, ...]] = []
    threads = [
        threading.Thread(
            target=lambda holder=holder, requests=requests: results.append(
                work(world, holder=holder).see_through(requests, seconds=600)
            )
        )
        for holder, requests in (("one", first), ("two", second))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert len(results) == 2
    (operation,) = world.store.operations()
    assert operation.outcome == "done"
    assert len(world.starts) == 1
    for (request,) in results:
        assert request.operation == operation.id or (request.refused or "").startswith("not-already-there")


def test_an_operation_of_a_dead_leader_is_finished_by_the_same_verb() -> None:
    world = World()
    world.runner.answers = False
    (request,) = wish(world, "revenue")
    world.carry_out(request, seconds=1)
    world.runner.answers = True
    (again,) = work(world, holder="two").see_through(wish(world, "revenue"), seconds=60)
    assert again.operation == request.id
    assert outcomes(world) == {"revenue": "done"}


def test_while_another_leads_nothing_is_done_here() -> None:
    world = World()
    other = Leadership(world.store, world.clock, "other")
    assert other.take()
    world.clock.lives.append(other.keep)
    requests = wish(world, "revenue")
    (standing,) = work(world).see_through(requests, seconds=20)
    assert (standing.operation, standing.refused) == (None, None)
    assert outcomes(world) == {}


def test_when_the_leader_is_gone_the_follower_takes_over() -> None:
    world = World()
    assert Leadership(world.store, world.clock, "dead/1:boot:1:x").take()
    (standing,) = work(world).see_through(wish(world, "revenue"), seconds=60)
    assert standing.operation is not None
    assert outcomes(world) == {"revenue": "done"}


class Away:
    """A store that answers nothing for a while."""

    def __init__(self, world: World, begin: float, end: float) -> None:
        self._world, self._begin, self._end = world, begin, end

    def __getattr__(self, name: str) -> Any:
        if name != "now" and self._begin <= self._world.clock.passed < self._end:
            raise StoreUnavailable("the store is locked")
        return getattr(self._world.store, name)


@pytest.mark.parametrize("begin", [0.0, 0.05, 0.1, 0.2])
def test_a_store_that_is_away_for_a_while_delays_and_spoils_nothing(begin: float) -> None:
    world = World()
    requests = wish(world, "revenue")
    start = world.clock.passed
    away = Away(world, start + begin, start + begin + 2.0)
    worker = work(world, store=away)
    try:
        worker.see_through(requests, seconds=120)
    finally:
        assert outcomes(world) == {"revenue": "done"}
    assert len(world.starts) == 1


def test_the_lease_is_given_up_in_the_end() -> None:
    world = World()
    work(world).see_through(wish(world, "revenue"), seconds=60)
    assert Leadership(world.store, world.clock, "next").take()


def test_a_frozen_leader_that_wakes_up_writes_nothing() -> None:
    world = World()
    world.runner.answers = False
    (request,) = wish(world, "revenue")
    world.carry_out(request, seconds=0.2)
    frozen = scheduler(world, holder="frozen")
    assert frozen.lead.take()
    world.clock.wait(11)
    world.runner.answers = True
    world.carry_out(request)
    before = world.store.history()
    frozen.drive([request.id])
    frozen.close()
    assert world.store.history() == before
    assert frozen.failures == {}


def test_requests_stand_as_the_store_has_them() -> None:
    world = World()
    (request,) = wish(world, "revenue")
    gone = replace(request, id="nowhere")
    assert standing_of(world.store, [request, gone]) == (request, gone)
    work(world).see_through([request], seconds=60)
    (standing,) = standing_of(world.store, [request])
    assert standing.operation is not None
    settled = world.store.operation(standing.operation)
    assert settled is not None
    assert settled.phase is Phase.SETTLED


# -- a scheduler that is kept for long -------------------------------------------------------------------------------
NAMES = ("one", "two", "three", "four", "five")


def keep(world: World, held: Scheduler, over: Callable[[], bool] | None = None) -> None:
    """What a controller does, until nothing is requested and nothing is open, or until it is over."""

    def is_idle() -> bool:
        return not world.store.open_requests() and not world.store.operations(only_open=True)

    def turn() -> bool:
        if held.lead.holds():
            held.resume()
            held.take()
        world.clock.wait(0.25)  # else simulated time flies, and what is requested runs out before it is looked at
        return (over or is_idle)()

    until(turn)
    held.close()


def drivers() -> int:
    return sum(thread.name.startswith("drive ") for thread in threading.enumerate())


def test_a_desk_drives_no_more_than_its_width_and_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(settings(queries=NAMES))
    requests = wish(world, *NAMES)
    order: list[str] = []
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        order.append(thread.name.removeprefix("drive "))
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    world.runner.answers = False
    held = scheduler(world, width=2)
    most = 0

    def turn() -> int:
        nonlocal most
        assert held.lead.holds()
        held.resume()
        held.take()
        most = max(most, drivers())
        world.clock.wait(0.25)
        return most

    until(lambda: turn() >= 2)
    assert {turn() for _ in range(50)} == {2}
    begun = [operation.id for operation in open_operations(world.store)]
    waiting = [request.id for request in world.store.open_requests()]
    assert begun + waiting == [request.id for request in requests]
    assert list(dict.fromkeys(order)) == [request.id for request in requests][: len(set(order))]
    world.runner.answers = True
    keep(world, held)
    assert outcomes(world) == dict.fromkeys(NAMES, "done")
    assert drivers() == 0


def test_operations_that_wait_for_a_person_leave_their_threads_to_the_others() -> None:
    world = World(settings(queries=NAMES))
    original = world.runner._answer

    def answer(intent: Intent) -> None:
        world.runner.proof = None if intent.query in {"one", "two"} else Proof.RUNNER
        original(intent)

    world.runner._answer = answer  # type: ignore[method-assign] # no one can prove these two stopped
    wish(world, *NAMES)
    held = scheduler(world, width=1)
    keep(world, held, lambda: sorted(map(str, outcomes(world).values())) == ["None", "None", "done", "done", "done"])
    assert outcomes(world) == {"one": None, "two": None, "three": "done", "four": "done", "five": "done"}
    assert world.store.operations(query="one")[0].phase in {Phase.BLOCKED, Phase.FENCING}, "it waits, or looks again"


def test_a_desk_finishes_what_former_leaders_left_open() -> None:
    world = World()
    world.runner.answers = False
    (request,) = wish(world, "revenue")
    world.carry_out(request, seconds=1)
    world.runner.answers = True
    keep(world, scheduler(world, holder="two"))
    assert outcomes(world) == {"revenue": "done"}


def test_an_operation_that_could_not_be_driven_is_retried_after_a_pause() -> None:
    world = World(settings(queries=("one",)))
    (request,) = wish(world, "one")
    world.runner.answers = False
    world.carry_out(request, seconds=1)
    world.runner.answers = True
    held = scheduler(world)
    declared = held.settings
    held.settings = declared.model_copy(update={"queries": {}})
    assert held.lead.take()
    held.resume()
    held._drivers[request.id].join()
    assert "is not declared here" in str(held.failures[request.id])
    held.settings = declared
    held.resume()
    assert request.id in held.failures, "not at once"
    for _ in range(35):
        world.clock.wait(1.0)
        assert held.lead.holds()
    keep(world, held)
    assert outcomes(world) == {"one": "done"}
    assert held.failures == {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_stops_one_driver_and_says_so() -> None:
    world = World()
    (request,) = wish(world, "revenue")
    held = scheduler(world)
    held.logs = {}.__getitem__  # type: ignore[assignment] # no log is known
    world.runner.answers = False
    world.carry_out(request, seconds=0.2)
    world.runner.answers = True
    assert held.lead.take()
    held.resume()
    held._drivers[request.id].join()
    assert str(held.failures[request.id]) == "a bug in Tideover: KeyError: 'west'"
    assert outcomes(world) == {"revenue": None}


# -- requests of others ----------------------------------------------------------------------------------------------
def knowing(world: World, *queries: str) -> Tideover:
    """Our configuration, in which only these queries are declared."""
    return world.settings.model_copy(update={"queries": {name: world.settings.queries[name] for name in queries}})


def automatic(world: World, query: str) -> Request:
    requested = RequestSpec(
        kind=OperationKind.FAILOVER, targets={query: "west"}, expect_active={}, actor=AUTOMATIC, reason="", consents=()
    )
    return submit(world.store, requested)[0]


@pytest.mark.parametrize("of", ["a person", "automatic mode"])
@pytest.mark.parametrize("declared", [("one",), ("one", "two")])
def test_a_verb_that_leads_leaves_the_requests_of_others_alone(of: str, declared: tuple[str, ...]) -> None:
    """It may have another configuration, and no way to their clusters; the controller of the request may be gone."""
    world = World(settings(queries=("one", "two")))
    theirs = wish(world, "two")[0] if of == "a person" else automatic(world, "two")
    ours = wish(world, "one")
    work(world, settings=knowing(world, *declared)).see_through(ours, seconds=60)
    assert outcomes(world) == {"one": "done"}
    assert world.store.request(theirs.id) == theirs


def test_a_consent_that_others_type_joins_an_operation_of_ours() -> None:
    world = World(settings(queries=("one",)))
    world.runner.proof = None
    ours = wish(world, "one")
    worker = work(world, watch=lambda: blocked(world) and not world.store.open_requests() and consent(world))
    worker.see_through(ours, seconds=60)
    assert outcomes(world) == {"one": "done"}


def blocked(world: World) -> bool:
    return any(each.phase is Phase.BLOCKED for each in world.store.operations())


def consent(world: World) -> None:
    if len(world.store.operations()[0].consents) == 0:
        world.request("one", consents=("unfenced",))


def test_a_verb_gives_the_lead_up_for_a_moment_where_others_wait() -> None:
    """They have configurations of their own, and judge and drive their moves by those."""
    world = World(settings(queries=("one", "two")))
    worker = work(world)
    worker._own = frozenset(request.id for request in wish(world, "one"))

    def leads(seconds: int) -> list[bool]:
        led = []
        for _ in range(seconds):
            led.append(worker._leads())
            world.clock.wait(1)
        return led

    assert leads(30) == [True] * 30, "nobody else waits"
    theirs = wish(world, "two")
    assert leads(24) == [*[False] * 2, *[True] * 10] * 2
    assert leads(1) == [False]
    assert Leadership(world.store, world.clock, "two").take()
    assert leads(5) == [False] * 5, "they lead"
    assert world.store.request(theirs[0].id) == theirs[0]
