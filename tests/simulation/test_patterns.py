"""Sources that subscribe by a pattern: topics that are on one side only, and those made during the outage."""

from typing import Any

import pytest

from orchestrator.facts.source_cluster import new_topic_wants
from state.messages import Planned, SinkState
from state.model.entities import Operation, Phase
from tests.contract.samples import plan_of
from tests.simulation.world import QUERY, START_MS, World, settings

PLACE = 33 + 100
PATTERN = {"orders": {"pattern": "ord.*"}}


def moved(world: World, *consents: str) -> Operation:
    operation = world.carry_out(world.request(consents=consents))
    assert operation is not None
    return operation


def with_topic(world: World, topic: str, *, begin: int = 0, records: int = 5) -> None:
    """A topic of one partition on the standby alone, whose first records retention has deleted."""
    cluster = world.clusters["west"]
    cluster.create(topic, 1)
    for index in range(records):
        cluster.write(topic, 0, f"{topic}-{index}", START_MS - 600_000 + index)
    cluster.retain(topic, 0, begin)


@pytest.mark.parametrize("resume", ["carry", "switch", "fresh"])
def test_a_topic_that_only_the_standby_has_is_read_from_its_begin_there(resume: str) -> None:
    world = World(settings(sources=PATTERN, resume=resume))
    with_topic(world, "orders-new", begin=3)
    with_topic(world, "payments")
    operation = moved(world)
    assert (operation.phase, operation.outcome) == (Phase.SETTLED, "done")
    plan: Any = plan_of(operation)
    assert plan is not None
    assert plan["starting_offsets"] == {"orders": {"0": PLACE, "1": PLACE}, "orders-new": {"0": 3}}
    (added,) = [each for each in plan["partitions"] if each["target_topic"] == "orders-new"]
    assert (added["method"], added["replay_records"], added["exposure_records"]) == ("exact", 0, 0)
    assert plan["totals"]["exposure_records"] == 20


def test_a_planned_batch_is_planned_again_beside_a_topic_it_did_not_name() -> None:
    world = World(settings(sources=PATTERN))
    with_topic(world, "orders-new")
    checkpoint = world.checkpoints[f"/cp/{QUERY}"]
    world.track(QUERY, 8, 105)
    checkpoint.planned = Planned(batch=8, offsets={"orders": {"orders": {"0": 105, "1": 105}}}, sink=SinkState.UNKNOWN)
    operation = moved(world)
    assert plan_of(operation)["uncommitted_batch"] == "replan"


def test_a_topic_that_only_the_old_cluster_has_refuses_by_name() -> None:
    world = World(settings(sources=PATTERN))
    del world.clusters["west"].topics["orders"]
    request = world.request()
    assert world.carry_out(request) is None, "its run is not stopped for that"
    answered = world.store.request(request.id)
    assert answered is not None
    assert answered.refused == "topics-present: west has no topic orders"


def test_partitions_added_during_the_outage_are_read_from_their_begin() -> None:
    world = World(settings(sources=PATTERN))
    world.clusters["west"].add_partition("orders")
    operation = moved(world)
    assert plan_of(operation)["starting_offsets"] == {"orders": {"0": PLACE, "1": PLACE, "2": 0}}


@pytest.mark.parametrize(
    ("topics", "there", "here"),
    [
        ({"prefix": "east."}, "east.orders-new", "orders-new"),
        ({"orders": "o", "orders-new": "n"}, "n", "orders-new"),
        ("identity", "orders-new", "orders-new"),
    ],
)
def test_a_topic_that_appears_is_named_as_on_the_old_cluster(topics: object, there: str, here: str) -> None:
    routes = {"routes": [{"from": "east", "to": "west", "topics": topics}]}
    world = World(settings(sources=PATTERN, groups=routes))
    with_topic(world, there)
    with_topic(world, "stranger")
    query = world.settings.queries[QUERY]
    found = new_topic_wants(world.clusters["west"], world.settings, query, source="east", target="west", wants=())
    named = {(each.source, each.topic, each.target_topic) for each in found}
    assert ("orders", here, there) in named
    assert not any("stranger" in each for each in named)


def test_only_sources_new_to_a_topic_read_all_its_partitions() -> None:
    sources = {"orders": {"pattern": "orders(-new)?"}, "all": {"pattern": "orders.*"}}
    world = World(settings(sources=sources))
    world.clusters["west"].create("orders-new", 3)
    with_topic(world, "orders-newer")
    query, west = world.settings.queries[QUERY], world.clusters["west"]
    found = new_topic_wants(west, world.settings, query, source="east", target="west", wants=())
    named = [(each.source, each.target_topic, each.partition) for each in found if each.target_topic != "orders"]
    assert sorted(named) == [
        *(("all", "orders-new", number) for number in range(3)),
        ("all", "orders-newer", 0),
        *(("orders", "orders-new", number) for number in range(3)),
    ], "a pattern names whole topics"
    known = [each for each in found if each.source == "all"]
    again = new_topic_wants(west, world.settings, query, source="east", target="west", wants=known)
    assert {each.source for each in again} == {"orders"}
