"""Requests that cannot be taken do not keep the others waiting."""

import pytest

from orchestrator.desk import Desk
from state.errors import Conflict
from state.model import Phase
from tests.simulation.control import InLineDesk
from tests.simulation.world import World, settings


@pytest.fixture
def world() -> World:
    return World(settings(queries=("first", "second")))


def desk(world: World) -> Desk:
    lead = world.lead()
    assert lead.take()
    return InLineDesk(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock, lead=lead,
        actor="controller",
    )  # fmt: skip


def opened(world: World) -> list[str]:
    return [operation.query for operation in world.store.operations(only_open=True)]


def test_a_query_that_is_declared_no_more_is_refused_also_behind_its_commit(world: World) -> None:
    world.runner.commits = False
    placed = world.carry_out(world.request("first"), seconds=1)
    assert placed is not None
    assert placed.phase is Phase.VERIFYING
    asked = [world.request("first", target="east"), world.request("second")]
    world.settings = world.settings.model_copy(update={"queries": {"second": world.settings.queries["second"]}})
    desk(world).take()
    answers = [world.store.request(request.id) for request in asked]
    assert [answer and answer.refused for answer in answers] == ["query 'first' is not declared", None]
    assert opened(world) == ["second", "first"]


def test_a_request_that_contradicts_the_store_is_left_and_the_next_one_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = world.request("first"), world.request("second")
    hold = world.store.hold

    def contradict(operation, **rest):  # type: ignore[no-untyped-def]  # passes on
        if operation.query == "first":
            raise Conflict
        return hold(operation, **rest)

    monkeypatch.setattr(world.store, "hold", contradict)
    held = desk(world)
    held.take()
    assert opened(world) == ["second"]
    assert [request.id for request in world.store.open_requests()] == [first.id]
    monkeypatch.undo()
    held.take()
    assert sorted(opened(world)) == ["first", "second"]
