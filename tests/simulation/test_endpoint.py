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
from tests.simulation.control import Looks, Site, controller, pass_time
from tests.simulation.looks import REFUSED
from tests.simulation.test_identity import WEST_ID, place, requested, verdicts
from tests.simulation.world import World, settings

ENDPOINT = {"dr": {"bootstrap": ["dr:1"], "ids": {"east": EAST_ID, "west": WEST_ID}}}


def lead_to(world: World, known: str) -> None:
    """From now on the endpoint leads there, under whichever name."""
    for each in world.clusters.values():
        each.cluster_id = known


def watched(**changes: Any) -> tuple[World, Site, Looks]:
    """A world whose controller, and the looks of the runner of the query, have seen the endpoint lead to east."""
    world = World(settings(groups={"clusters": ENDPOINT}, **changes))
    lead_to(world, EAST_ID)
    site = controller(world)
    runner = Looks(world=world, viewpoint=f"runner:{world.runner.name}", instance=world.runner.instance)

    def report() -> None:
        if runner.live():
            world.store.save_probe_reports(runner.probe_reports(world.store))

    world.clock.lives.append(report)
    pass_time(world, 3, site)
    assert verdicts(world) == {"east": Verdict.UP, "west": Verdict.NOT_HERE}
    return world, site, runner


def events(store: ControllerStore) -> list[tuple[str, object]]:
    """The verdicts on east, and which queries read it then."""
    found = [each for each in store.history() if each.kind == "verdict" and each.detail["cluster"] == "east"]
    return [(str(each.detail["verdict"]), each.detail["queries"]) for each in found]


def test_a_flip_is_a_verdict_with_its_time_and_moves_nothing_unrequested() -> None:
    world, site, _ = watched()
    seen: set[Verdict] = set()
    turned = world.clock.store_now()
    lead_to(world, WEST_ID)
    pass_time(world, 30, site, until=lambda: bool(seen.add(verdicts(world)["east"])))
    assert seen == {Verdict.UP, Verdict.SUSPECT, Verdict.NOT_HERE}
    (status,) = [each for each in world.store.cluster_statuses() if each.cluster == "east"]
    assert 1 <= (status.since - turned).total_seconds() <= 3
    assert status.reasons[0] == f"endpoint dr leads to west now, cluster {WEST_ID}, and not to east"
    assert ("NOT_HERE", ["revenue"]) in events(world.store)
    assert verdicts(world)["west"] is Verdict.UP
    assert (place(world), world.store.operations()) == ("east", [])


def test_behind_a_flip_a_failover_goes_to_where_the_endpoint_leads() -> None:
    world, site, _ = watched()
    lead_to(world, WEST_ID)
    pass_time(world, 3, site)
    operation = requested(world, site)
    assert isinstance(operation, Operation)
    assert (operation.kind, operation.outcome, place(world)) == (OperationKind.FAILOVER, "done", "west")
    assert operation.plan is not None
    (gate,) = [each for each in operation.plan.gates if each.name == "cluster-identity"]
    assert (gate.ok, gate.measured) == (True, f"east {WEST_ID}; west {WEST_ID}")


def test_no_failover_goes_to_a_cluster_that_is_not_behind_the_endpoint() -> None:
    world, site, _ = watched()
    refused = requested(world, site)
    assert isinstance(refused, str)
    assert refused.startswith(f"cluster-identity: endpoint dr leads to east now, cluster {EAST_ID}, and not to west")
    assert place(world) == "east"


def test_a_turned_endpoint_gives_no_name_to_another_cluster() -> None:
    world, site, _ = watched()
    lead_to(world, WEST_ID)
    pass_time(world, 3, site)
    with pytest.raises(Refused, match="endpoint dr leads to west now") as raised:
        successor_of(world.store, world.settings, site.looks.log("east"), "east")
    assert raised.value.hint == "there is nothing to accept; move the queries: tideover failover"
    lead_to(world, OTHER_ID)
    with pytest.raises(Refused, match=f"but clusters.dr.ids.east says {EAST_ID}"):
        successor_of(world.store, world.settings, site.looks.log("east"), "east")


def test_automatic_mode_follows_a_flip_once_and_leaves_the_next_to_a_person() -> None:
    world, site, _ = watched(policy={"automatic": True})
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


def test_one_turned_look_moves_nothing_automatically() -> None:
    world, site, _ = watched(policy={"automatic": True})
    for _ in range(10):
        lead_to(world, WEST_ID)
        pass_time(world, 0.8, site)
        lead_to(world, EAST_ID)
        pass_time(world, 0.8, site)
    assert "NOT_HERE" not in [verdict for verdict, _ in events(world.store)]
    pass_time(world, 5, site)
    assert verdicts(world)["east"] is Verdict.UP
    assert (place(world), world.store.operations()) == ("east", [])


def test_a_query_stays_while_its_runner_still_reaches_its_cluster() -> None:
    world, site, runner = watched(policy={"automatic": True})
    runner.answering = dict.fromkeys(("east", "west"), EAST_ID)
    lead_to(world, WEST_ID)
    pass_time(world, 60, site)
    assert verdicts(world) == {"east": Verdict.UNREACHABLE_FROM_HERE, "west": Verdict.UP}
    assert (place(world), world.store.operations()) == ("east", [])
    runner.answering.clear()
    pass_time(world, 60, site, until=lambda: place(world) == "west")
    assert place(world) == "west"


def test_automatic_mode_waits_until_the_runner_sees_the_other_cluster() -> None:
    world, site, runner = watched(policy={"automatic": True})
    runner.blocked = {"west": REFUSED}
    lead_to(world, WEST_ID)
    pass_time(world, 60, site)
    assert verdicts(world) == {"east": Verdict.NOT_HERE, "west": Verdict.UP}
    assert (place(world), world.store.operations()) == ("east", [])
    (said,) = [each.text for each in world.store.history() if each.kind == "not-moved"]
    assert said == (
        "revenue is not moved: cluster-identity: endpoint dr leads to west here, but runner a has not seen it there: "
        "revenue would wait until it does; tideover failover revenue moves it all the same"
    )
    operation = requested(world, site)
    assert isinstance(operation, Operation)
    assert operation.plan is not None
    (gate,) = [each for each in operation.plan.gates if each.name == "cluster-identity"]
    assert (operation.outcome, gate.ok, gate.measured) == ("done", True, "unknown")


def test_a_third_cluster_behind_the_endpoint_is_still_a_mistake() -> None:
    world, site, _ = watched(policy={"automatic": True})
    lead_to(world, OTHER_ID)
    pass_time(world, 10, site)
    assert verdicts(world) == {"east": Verdict.CONFIG_ERROR, "west": Verdict.CONFIG_ERROR}
    assert (place(world), world.store.operations()) == ("east", [])
