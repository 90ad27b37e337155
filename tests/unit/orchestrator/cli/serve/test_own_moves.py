"""Which moves an attendant completes: those of its own queries, and only where no process leads."""

from datetime import timedelta

import pytest

from orchestrator.cli.serve.own_moves import OwnMoves
from orchestrator.lease import NAME
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
        store=world.store, settings=world.settings, logs=world.clusters.__getitem__, queries=frozenset(queries)
    )


def test_an_open_move_of_its_own_query_is_completed(world: World) -> None:
    (request,) = moves(world, QUERY).undriven()
    assert request.query == QUERY


def test_moves_of_others_are_left_to_others(world: World) -> None:
    assert moves(world, "other").undriven() == ()


def test_where_a_process_leads_nothing_is_done_here(world: World) -> None:
    assert world.store.lead(NAME, "controller", timedelta(seconds=10)) is not None
    assert moves(world, QUERY).undriven() == ()
