"""A process that froze in the middle, and leads again after others have: what it had seen counts no more."""

from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from orchestrator.facts.gather import FactGatherer
from orchestrator.lease import Leadership
from orchestrator.operation.execute import Executor
from orchestrator.operation.requests import RequestHandler
from state.errors import StaleTerm
from state.model.entities import IntentState, Phase, Request
from state.store.controller_store import ControllerStore
from tests.simulation.stores import FrozenStore
from tests.simulation.world import QUERY, World, settings


def taker(world: World, lead: Leadership, store: ControllerStore) -> RequestHandler:
    gatherer = FactGatherer(store=store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock)
    return RequestHandler(store=store, queries=world.settings.queries, upstream={}, gatherer=gatherer, lead=lead)


def executor(world: World, lead: Leadership, store: ControllerStore) -> Executor:
    return Executor(
        store=store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock, lead=lead, actor="a"
    )


def freezes(
    world: World, lead: Leadership, name: str, others: Callable[[], object], *, after: int = 0
) -> ControllerStore:
    """The store of a process whose driver freezes, while its own loop leads again behind the others."""

    def in_between() -> None:
        world.clock.wait(12)
        others()
        assert lead.take()

    return cast(ControllerStore, FrozenStore(world.store, name, in_between, after=after))


def phase(world: World) -> Phase:
    return world.store.operations(query=QUERY)[0].phase


def until_placed(world: World) -> Callable[[], bool]:
    return lambda: phase(world) is not Phase.STARTING


def place(world: World, request: Request) -> None:
    """Another process leads until the query is placed."""
    lead = world.lead()
    assert lead.take()
    executor(world, lead, world.store).drive(request.id, going_on=until_placed(world))
    lead.give_up()


def test_a_decision_of_an_earlier_term_is_not_written_in_a_later_one() -> None:
    frozen = 0
    for after in range(12):
        world = World()
        request = world.request()

        lead = world.lead()
        assert lead.take()
        store = freezes(world, lead, "steps", partial(place, world, request), after=after)
        assert taker(world, lead, world.store).take(request) == request.id
        try:
            executor(world, lead, store).drive(request.id, going_on=until_placed(world))
        except StaleTerm:
            frozen += 1
        assert phase(world) is Phase.STARTING
        assert executor(world, lead, world.store).drive(request.id).outcome == "done"
        assert [start.epoch for start in world.starts] == [2]
        assert len({step.name for step in world.store.steps(request.id)}) == len(world.store.steps(request.id))
    assert frozen >= 8, "else it froze nowhere in the middle"


def test_an_order_to_a_silent_runner_is_taken_back_in_the_term_that_gave_it() -> None:
    world = World()
    world.runner.answers = False
    request, lead = world.request(), world.lead()
    assert lead.take()
    assert taker(world, lead, world.store).take(request) == request.id
    executor(world, lead, world.store).drive(request.id, going_on=lambda: not world.store.intents(request.id))
    world.runner.alive, world.other.alive = False, True
    world.clock.wait(6)

    def lead_in_between() -> None:
        other = world.lead()
        assert other.take()
        other.give_up()

    with pytest.raises(StaleTerm):
        executor(world, lead, freezes(world, lead, "report", lead_in_between)).drive(request.id)
    (intent,) = world.store.intents(request.id)
    assert (intent.runner, intent.state) == ("a", IntentState.PENDING)


@pytest.mark.parametrize("name", ["assignment", "hold"])
def test_a_request_is_taken_in_one_term_or_left(name: str) -> None:
    world = World(settings(policy={"max_exposure": "1s"}))
    request = world.request()
    lead = world.lead()
    assert lead.take()
    store = freezes(world, lead, name, lambda: world.carry_out(request))
    with pytest.raises(StaleTerm):
        taker(world, lead, store).take(request)
    assert [operation.outcome for operation in world.store.operations()] == ["refused"]


def test_a_request_answered_since_it_was_listed_moves_nothing_again() -> None:
    world = World()
    world.runner.answers = False
    first = world.request()
    world.carry_out(first, seconds=1)
    world.runner.answers = True
    listed = world.request()
    world.carry_out(listed)
    world.track(QUERY, 10, 133, cluster="west", epoch=2)
    back = world.carry_out(world.request(target="east", consents=("loss", "repeats")))
    assert back is not None
    assert back.outcome == "done"
    lead = world.lead()
    assert lead.take()
    assert taker(world, lead, world.store).take(listed) == first.id
    assert world.store.operations(only_open=True) == []


def test_places_that_were_found_in_an_earlier_term_are_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the meantime another leader may have driven the operation on, and the standby's log may be another one."""
    world = World()
    request, lead = world.request(), world.lead()
    assert lead.take()
    assert taker(world, lead, world.store).take(request) == request.id
    driver = executor(world, lead, world.store)
    driver.drive(request.id, going_on=lambda: phase(world) is not Phase.RESOLVING)
    lead.give_up()
    other = world.lead()
    assert other.take()
    other.give_up()
    assert lead.take()
    looked_up: list[int] = []
    find = FactGatherer.after
    monkeypatch.setattr(
        FactGatherer, "after", lambda *given, **more: looked_up.append(lead.term) or find(*given, **more)
    )
    operation = world.store.operation(request.id)
    assert operation is not None
    driver._tick(operation, term=lead.term)
    assert (phase(world), looked_up) == (Phase.RESOLVING, [lead.term])
