"""A check of queries: what it compares beside the gates of a move."""

import pytest

from orchestrator.facts.preflight import check_queries
from tests.simulation.world import QUERY, World, settings

CLUSTERS = {
    "clusters": {"east": {"bootstrap": ["e:1"]}, "west": {"bootstrap": ["w:1"], "connections_per_second": 2}},
}


def test_a_check_of_one_query_counts_the_connections_of_all() -> None:
    world = World(settings(queries=(QUERY, "other"), groups=CLUSTERS))
    world.sample("east")
    (found,) = check_queries(
        [QUERY], store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    gate = next(each for each in found.gates if each.name == "connections")
    assert (gate.ok, gate.measured) == (True, "6.0 s")
    assert gate.text.startswith("a move of 2 queries opens about 12 connections to west, which takes 2 in a second")


@pytest.mark.parametrize("groups", [None, CLUSTERS])
def test_connections_are_no_number_where_nothing_is_declared_or_known(groups: dict[str, object] | None) -> None:
    world = World(settings(groups=groups, sources={"orders": {"topics": ["orders"]}, "new": {"topics": ["new"]}}))
    (found,) = check_queries(
        [QUERY], store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    gates = {each.name: each for each in found.gates}
    assert ("connections" in gates) == (groups is not None)
    if groups is not None:
        assert gates["connections"].measured == "unknown"
