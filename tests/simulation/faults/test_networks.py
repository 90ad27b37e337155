"""Faults of networks and of our own access: what one place does not see, and what we are refused."""

import pytest

from state.model.cluster_status import Verdict
from state.model.entities import Phase
from tests.contract.samples import EAST_ID, OTHER_ID
from tests.simulation.control import CREDENTIAL, NO_NETWORK, REFUSED, controller, pass_time
from tests.simulation.faults.scenes import (
    active,
    assert_left_alone,
    assert_moved,
    only_operation,
    runs_on,
    scene,
    verdict,
)
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld, live_settings

TWO_HOSTS = {"a": "host-one", "b": "host-two"}


@pytest.mark.parametrize(("phase", "delay"), [(0.0, 0.0), (0.1, 0.8), (0.3, 0.8), (0.4, 1.2)])
@fault(
    4,
    "the network between controller and primary is cut; queries and replicator see it",
    verdict=Verdict.UNREACHABLE_FROM_HERE,
    then="nothing moves, however long it lasts; the verdict names who saw the cluster live",
)
def test_a_cluster_that_only_the_controller_cannot_see_is_not_left(phase: float, delay: float) -> LiveWorld:
    world, site = scene(phase=phase)
    world.replicator.heartbeat_delay, world.drivers["a"].report_delay, world.drivers["b"].report_delay = (
        delay,
        delay,
        delay,
    )
    site.looks.blocked["east"] = REFUSED
    pass_time(world, 300, site)
    assert verdict(world) is Verdict.UNREACHABLE_FROM_HERE
    assert_left_alone(world)
    return world


@pytest.mark.parametrize(
    ("phase", "delay", "ahead"), [(0.0, 0.0, 0.0), (0.1, 0.2, 0.0), (0.3, 0.5, 0.0), (0.4, 0.2, -1.0), (0.2, 0.1, -2.0)]
)
@fault(
    37,
    "neither the controller nor any runner reaches the primary; the replicator does",
    verdict=Verdict.UNREACHABLE_FROM_HERE,
    then="nothing moves while heartbeats arrive, however late and by whatever clock; DOWN when they stop",
)
def test_heartbeats_alone_keep_a_cluster_from_being_left(phase: float, delay: float, ahead: float) -> LiveWorld:
    world, site = scene(phase=phase)
    world.replicator.heartbeat_delay, world.replicator.clock_ahead = delay, ahead
    pass_time(world, 10, site)
    for looks in (site.looks, world.drivers["a"].looks, world.drivers["b"].looks):
        looks.blocked["east"] = REFUSED
    pass_time(world, 60, site)
    assert verdict(world) is Verdict.UNREACHABLE_FROM_HERE
    assert list(world.store.operations()) == []
    world.replicator.alive = False
    pass_time(world, 30, site)
    assert_moved(world)
    return world


@fault(
    5,
    "the primary's whole site is cut off: cluster, runner and replicator run on alone",
    verdict=Verdict.DOWN,
    then="where policy is automatic the query is held, and BLOCKED: nothing proves that the old run has met "
    "the blocking entry. With the site back it stays where it is",
)
def test_a_site_that_is_cut_off_continues_and_nothing_starts_beside_it() -> LiveWorld:
    world, site = scene(LiveWorld(hosts=TWO_HOSTS))
    cut_off, here = world.drivers["a"], world.drivers["b"]
    site.looks.blocked["east"] = here.looks.blocked["east"] = REFUSED
    cut_off.looks.blocked["west"], cut_off.store.away, world.replicator.alive = REFUSED, True, False
    pass_time(world, 120, site)
    assert only_operation(world).phase is Phase.BLOCKED
    assert "is on another host, which " in only_operation(world).sentence
    assert [start.epoch for start in world.starts] == [1]
    assert runs_on(world) is None, "it met the planted entry, which nobody here can know"
    for looks in (site.looks, cut_off.looks, here.looks):
        looks.blocked.clear()
    cut_off.store.away, world.replicator.alive = False, True
    pass_time(world, 10, site)
    assert only_operation(world).sentence.startswith(
        "revenue stays on east: cluster-down: east is not known to be down: UP"
    )
    assert (active(world), runs_on(world)) == ("east", "east")
    return world


@fault(
    38,
    "the primary's whole site is lost: cluster, runner, replicator, and the leading controller",
    verdict=Verdict.DOWN,
    then="the other controller leads when the lease has run out, and holds the query; BLOCKED until a person confirms "
    "that the host is lost, then moved",
)
def test_a_lost_site_is_left_once_a_person_answers_for_its_host() -> LiveWorld:
    world, first = scene(LiveWorld(hosts=TWO_HOSTS))
    second = controller(world, "two")
    pass_time(world, 5, first, second)
    world.clusters["east"].reachable, world.replicator.alive, first.frozen = False, False, True
    world.drivers["a"].kill()
    pass_time(world, 60, first, second)
    assert only_operation(world).phase is Phase.BLOCKED
    world.request(consents=("unfenced",))
    pass_time(world, 30, first, second)
    assert assert_moved(world).consents[1].startswith("unfenced (runner a on ")
    return world


@fault(
    7,
    "our certificate has expired, or our permission was revoked",
    verdict=Verdict.CONFIG_ERROR,
    then="nothing moves: we have to correct it, and it says nothing of the cluster's health",
)
def test_a_cluster_that_refuses_us_is_not_left() -> LiveWorld:
    world, site = scene()
    site.looks.blocked["east"] = CREDENTIAL
    pass_time(world, 120, site)
    assert verdict(world) is Verdict.CONFIG_ERROR
    assert_left_alone(world)
    return world


@fault(
    39,
    "the controller's host has no network of its own",
    verdict=Verdict.UNREACHABLE_FROM_HERE,
    then="nothing moves: the fault is on this host",
)
def test_a_controller_without_a_network_accuses_no_cluster() -> LiveWorld:
    world, site = scene()
    world.drivers["b"].kill()
    for cluster in ("east", "west"):
        site.looks.blocked[cluster] = NO_NETWORK
    pass_time(world, 120, site)
    assert verdict(world) is verdict(world, "west") is Verdict.UNREACHABLE_FROM_HERE
    assert_left_alone(world)
    return world


@fault(
    40,
    "the primary is dead, and the standby can be reached by the runners and not by the controller",
    verdict=Verdict.DOWN,
    then="refused by `standby-up`: the resume offset cannot be looked up; moved when the controller reaches it again",
)
def test_a_standby_that_the_controller_cannot_reach_is_no_target() -> LiveWorld:
    world, site = scene()
    site.looks.blocked["west"] = REFUSED
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    assert (active(world), list(world.store.operations())) == ("east", [])
    assert verdict(world, "west") is Verdict.UNREACHABLE_FROM_HERE
    site.looks.blocked.clear()
    pass_time(world, 30, site)
    assert_moved(world)
    return world


@fault(
    52,
    "the primary's name leads to another cluster: a gateway was switched, or it was rebuilt",
    verdict=Verdict.CONFIG_ERROR,
    then="nothing moves, typed or not (`cluster-identity`), until it leads back or `accept-cluster` gives the name "
    "to the new one",
)
def test_a_cluster_that_took_anothers_name_is_neither_dead_nor_left() -> LiveWorld:
    world = LiveWorld(live_settings())
    world.clusters["east"].cluster_id = EAST_ID
    world, site = scene(world)
    world.clusters["east"].cluster_id = OTHER_ID
    pass_time(world, 60, site)
    assert verdict(world) is Verdict.CONFIG_ERROR
    assert_left_alone(world)
    request = world.request()
    pass_time(world, 5, site)
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.refused or "").startswith(f"cluster-identity: east leads to cluster {OTHER_ID}")
    world.clusters["east"].cluster_id = EAST_ID
    pass_time(world, 5, site)
    assert verdict(world) is Verdict.UP
    assert_left_alone(world)
    return world


@fault(
    53,
    "the endpoint of both clusters turns from the primary to the standby; later it turns back",
    verdict=Verdict.NOT_HERE,
    then="the query is moved to where the endpoint leads; within the cool-down a turn back is left to a person",
)
def test_a_query_follows_the_endpoint_that_turns_once() -> LiveWorld:
    west_id = "wqdOq6wzRZ-2n0jlXKGl6g"
    endpoint = {"dr": {"bootstrap": ["dr:1"], "ids": {"east": EAST_ID, "west": west_id}}}
    world = LiveWorld(live_settings(groups={"clusters": endpoint}))

    def lead_to(known: str) -> None:
        for each in world.clusters.values():
            each.cluster_id = known

    lead_to(EAST_ID)
    _, site = scene(world)
    lead_to(west_id)
    pass_time(world, 30, site)
    assert verdict(world) is Verdict.NOT_HERE
    assert_moved(world)
    lead_to(EAST_ID)
    pass_time(world, 30, site)
    assert (verdict(world), verdict(world, "west")) == (Verdict.UP, Verdict.NOT_HERE)
    lead_to(west_id)
    pass_time(world, 10, site)
    assert_moved(world)
    return world
