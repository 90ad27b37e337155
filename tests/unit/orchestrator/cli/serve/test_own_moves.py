"""Which moves an attendant completes: those of its own queries, and only where no process leads."""

from datetime import timedelta

import pytest

from orchestrator.cli.serve.own_moves import OwnMoves
from orchestrator.facts.current import open_operations
from orchestrator.lease import NAME, is_led
from state.messages import Proof
from tests.simulation.world import QUERY, World


@pytest.fixture
def world() -> World:
    """The move of a query is open, and its process has gone away."""
    known = World()
    known.runner.proof = None
    known.carry_out(known.request(), seconds=1)
    return known


def moves(world: World, *queries: str) -> OwnMoves:
    return OwnMoves(
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, queries=frozenset(queries),
        clock=world.clock,
    )  # fmt: skip


def test_an_open_move_of_its_own_query_is_completed(world: World) -> None:
    (request,) = moves(world, QUERY).undriven()
    assert request.query == QUERY


def test_moves_of_others_are_left_to_others(world: World) -> None:
    assert moves(world, "other").undriven() == ()


def test_where_a_process_leads_nothing_is_done_here(world: World) -> None:
    assert world.store.lead(NAME, "controller", timedelta(seconds=10)) is not None
    assert moves(world, QUERY).undriven() == ()


def test_a_move_that_is_open_at_the_end_of_its_application_is_completed(world: World) -> None:
    (operation,) = open_operations(world.store)
    world.runner.proof = Proof.RUNNER
    known = moves(world, QUERY)
    known.close()
    known.keep()
    assert open_operations(world.store) == []
    assert world.store.evidence(operation.id) is not None
    assert not is_led(world.store)


def test_a_move_that_cannot_be_completed_delays_the_end_for_seconds(world: World) -> None:
    known = moves(world, QUERY)
    began = world.clock.monotonic()
    known.close()
    known.keep()
    assert world.clock.monotonic() - began <= 5.0
    assert [each.query for each in open_operations(world.store)] == [QUERY]
    assert not is_led(world.store)
