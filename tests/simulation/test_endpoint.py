"""One endpoint that leads to one of two clusters: what its own failover means for the queries behind it."""

from typing import Any

import pytest

from orchestrator.cli.act.accept_cluster import successor_of
from orchestrator.errors import Refused
from state.model.automation import AUTOMATIC
from state.model.cluster_status import Verdict
from state.model.entities import Operation, OperationKind
from state.store.controller_store import ControllerStore
from tests.contract.samples import EAST_ID, OTHER_ID
from tests.simulation.control import Site, controller, pass_time
from tests.simulation.test_identity import WEST_ID, asked, place, verdicts
from tests.simulation.world import World, settings

ENDPOINT = {"dr": {"bootstrap": ["dr:1"], "ids": {"east": EAST_ID, "west": WEST_ID}}}


def lead_to(world: World, known: str) -> None:
    """From now on the endpoint leads there, under whichever name."""
    for each in world.clusters.values():
        each.cluster_id = known


def watched(**changes: Any) -> tuple[World, Site]:
    """A world whose controller has seen the endpoint lead to east."""
    world = World(settings(groups={"clusters": ENDPOINT}, **changes))
    lead_to(world, EAST_ID)
    site = controller(world)
    pass_time(world, 3, site)
    assert verdicts(world) == {"east": Verdict.UP, "west": Verdict.NOT_HERE}
    return world, site


def events(store: ControllerStore) -> list[tuple[str, object]]:
    """The verdicts on east, and which queries read it then."""
    found = [each for each in store.history() if each.kind == "verdict" and each.detail["cluster"] == "east"]
    return [(str(each.detail["verdict"]), each.detail["queries"]) for each in found]


def test_a_flip_is_a_verdict_with_its_time_and_moves_nothing_unrequested() -> None:
    world, site = watched()
    seen: set[Verdict] = set()
    turned = world.clock.store_now()
    lead_to(world, WEST_ID)
    pass_time(world, 30, site, until=lambda: bool(seen.add(verdicts(world)["east"])))
    assert seen == {Verdict.UP, Verdict.NOT_HERE}
    (status,) = [each for each in world.store.cluster_statuses() if each.cluster == "east"]
    assert 0 <= (status.since - turned).total_seconds() <= 1
    assert status.reasons[0] == f"endpoint dr leads to west now, cluster {WEST_ID}, and not to east"
    assert ("NOT_HERE", ["revenue"]) in events(world.store)
    assert verdicts(world)["west"] is Verdict.UP
    assert (place(world), world.store.operations()) == ("east", [])


def test_behind_a_flip_a_failover_goes_to_where_the_endpoint_leads() -> None:
    world, site = watched()
    lead_to(world, WEST_ID)
    pass_time(world, 3, site)
    operation = asked(world, site)
    assert isinstance(operation, Operation)
    assert (operation.kind, operation.outcome, place(world)) == (OperationKind.FAILOVER, "done", "west")
    assert operation.plan is not None
    (gate,) = [each for each in operation.plan.gates if each.name == "cluster-identity"]
    assert (gate.ok, gate.measured) == (True, f"east {WEST_ID}; west {WEST_ID}")


def test_no_failover_goes_to_a_cluster_that_is_not_behind_the_endpoint() -> None:
    world, site = watched()
    refused = asked(world, site)
    assert isinstance(refused, str)
    assert refused.startswith(f"cluster-identity: endpoint dr leads to east now, cluster {EAST_ID}, and not to west")
    assert place(world) == "east"


def test_a_turned_endpoint_gives_no_name_to_another_cluster() -> None:
    world, site = watched()
    lead_to(world, WEST_ID)
    pass_time(world, 3, site)
    with pytest.raises(Refused, match="endpoint dr leads to west now") as raised:
        successor_of(world.store, world.settings, site.looks.log("east"), "east")
    assert raised.value.hint == "there is nothing to accept; move the queries: tideover failover"
    lead_to(world, OTHER_ID)
    with pytest.raises(Refused, match=f"but clusters.dr.ids.east says {EAST_ID}"):
        successor_of(world.store, world.settings, site.looks.log("east"), "east")


def test_automatic_mode_follows_a_flip_once_and_leaves_the_next_to_a_person() -> None:
    world, site = watched(policy={"automatic": True})
    lead_to(world, WEST_ID)
    pass_time(world, 60, site, until=lambda: place(world) == "west")
    pass_time(world, 30, site)
    (operation,) = world.store.operations()
    assert (operation.actor, operation.outcome, place(world)) == (AUTOMATIC, "done", "west")
    lead_to(world, EAST_ID)
    pass_time(world, 60, site)
    assert verdicts(world) == {"east": Verdict.UP, "west": Verdict.NOT_HERE}
    assert (len(world.store.operations()), place(world)) == (1, "west")
    assert any("cooled-down" in each.text for each in world.store.history() if each.kind == "not-moved")


def test_a_third_cluster_behind_the_endpoint_is_still_a_mistake() -> None:
    world, site = watched(policy={"automatic": True})
    lead_to(world, OTHER_ID)
    pass_time(world, 10, site)
    assert verdicts(world) == {"east": Verdict.CONFIG_ERROR, "west": Verdict.CONFIG_ERROR}
    assert (place(world), world.store.operations()) == ("east", [])
