"""Several requests, several processes: one operation for each query, side by side, whoever leads."""

import threading
from dataclasses import replace

import pytest

from orchestrator.lease import Lead
from orchestrator.requests import Wish, ask, standing_of
from orchestrator.work import Work
from state.errors import StoreUnavailable
from state.model import OperationKind, Phase, Request
from state.ports import Store
from tests.simulation.world import World, settings


def work(world: World, *, holder: str = "one", store: Store | None = None) -> Work:
    store = store or world.store
    return Work(
        store=store,
        settings=world.settings,
        logs=world.clusters.__getitem__,
        clock=world.clock,
        lead=Lead(store, world.clock, holder),
        actor="ann",
    )


def wish(world: World, *queries: str) -> tuple[Request, ...]:
    targets = dict.fromkeys(queries, "west")
    asked = Wish(kind=OperationKind.FAILOVER, targets=targets, expect_active=None, actor="ann", reason="", consents=())
    return ask(world.store, asked, world.clock.now())


def outcomes(world: World) -> dict[str, str | None]:
    return {operation.query: operation.outcome for operation in world.store.operations()}


def test_all_queries_move_as_one_group() -> None:
    world = World(settings(queries=("one", "two", "three")))
    requests = wish(world, "one", "two", "three")
    work(world).see_through(requests, seconds=60)
    assert outcomes(world) == {"one": "done", "two": "done", "three": "done"}
    assert {operation.group for operation in world.store.operations()} == {requests[0].group}


def test_one_failing_query_does_not_stop_the_others() -> None:
    world = World(settings(queries=("one", "two")))
    del world.checkpoints["/cp/one"]
    original = world.runner._answer

    def answer(intent: object) -> None:
        if getattr(intent, "query", "") == "two":
            original(intent)  # type: ignore[arg-type] # an intent

    world.runner._answer = answer  # type: ignore[method-assign] # the fault
    work(world).see_through(wish(world, "one", "two"), seconds=30)
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
        thread.join(60)
    assert len(results) == 2
    (operation,) = world.store.operations()
    assert operation.outcome == "done"
    assert len(world.starts) == 1
    for (request,) in results:
        assert request.operation == operation.id or (request.refused or "").startswith("not-already-there")


def test_an_operation_left_open_by_a_dead_leader_is_finished_by_the_same_verb() -> None:
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
    other = Lead(world.store, world.clock, "other")
    assert other.take()
    world.clock.lives.append(other.keep)
    requests = wish(world, "revenue")
    (standing,) = work(world).see_through(requests, seconds=20)
    assert (standing.operation, standing.refused) == (None, None)
    assert outcomes(world) == {}


def test_when_the_leader_is_gone_the_follower_takes_over() -> None:
    world = World()
    assert Lead(world.store, world.clock, "dead/1:boot:1:x").take()
    (standing,) = work(world).see_through(wish(world, "revenue"), seconds=60)
    assert standing.operation is not None
    assert outcomes(world) == {"revenue": "done"}


class Away:
    """A store that answers nothing for a while."""

    def __init__(self, world: World, begin: float, end: float) -> None:
        self._world, self._begin, self._end = world, begin, end

    def __getattr__(self, name: str) -> object:
        if name != "now" and self._begin <= self._world.clock.passed < self._end:
            raise StoreUnavailable("the store is locked")
        return getattr(self._world.store, name)


@pytest.mark.parametrize("begin", [0.0, 0.05, 0.1, 0.2])
def test_a_store_that_is_away_for_a_while_delays_and_spoils_nothing(begin: float) -> None:
    world = World()
    requests = wish(world, "revenue")
    start = world.clock.passed
    away = Away(world, start + begin, start + begin + 2.0)
    worker = work(world, store=away)  # type: ignore[arg-type] # answers like the store
    try:
        worker.see_through(requests, seconds=120)
    finally:
        assert outcomes(world) == {"revenue": "done"}
    assert len(world.starts) == 1


def test_the_lease_is_given_up_in_the_end() -> None:
    world = World()
    work(world).see_through(wish(world, "revenue"), seconds=60)
    assert Lead(world.store, world.clock, "next").take()


def test_a_frozen_leader_that_wakes_up_writes_nothing() -> None:
    world = World()
    world.runner.answers = False
    (request,) = wish(world, "revenue")
    world.carry_out(request, seconds=0.2)
    frozen = work(world, holder="frozen")
    assert frozen.lead.take()
    world.clock.wait(11)
    world.runner.answers = True
    world.carry_out(request)
    before = world.store.history()
    frozen._drive(request.id, world.clock.passed + 10)
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
