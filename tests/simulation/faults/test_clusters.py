"""Faults of whole clusters: killed, frozen, half dead, flapping, both, and coming back."""

from dataclasses import replace
from typing import cast

from state.model.cluster_status import Verdict
from state.model.entities import Phase
from tests.simulation.clusters import WHOLE
from tests.simulation.control import pass_time
from tests.simulation.faults.scenes import (
    active,
    assert_left_alone,
    assert_moved,
    events_of,
    only_operation,
    operations,
    runs_on,
    scene,
    verdict,
)
from tests.simulation.faults.table import fault
from tests.simulation.live import LiveWorld


@fault(
    1,
    "one of three brokers is killed",
    verdict=Verdict.DEGRADED,
    then="nothing moves; history has both moments: degraded, and well again",
)
def test_the_loss_of_one_broker_of_three_is_reported_and_moves_nothing() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].health = replace(WHOLE, brokers_silent=1, under_replicated=2)
    pass_time(world, 120, site)
    assert verdict(world) is Verdict.DEGRADED
    world.clusters["east"].health = WHOLE
    pass_time(world, 5, site)
    assert [event.detail["verdict"] for event in events_of(world, "verdict")][-2:] == ["DEGRADED", "UP"]
    assert_left_alone(world)
    return world


@fault(
    2,
    "all brokers of the primary are killed",
    verdict=Verdict.DOWN,
    then="every query is moved, within 2 s of detection and 1 s of action in the simulation (real parts take longer: "
    "[the report](reports/automatic.md)); nothing is lost, nothing repeated",
)
def test_a_killed_primary_is_left_within_three_seconds_and_nothing_is_lost() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].reachable = False
    killed = world.clock.passed
    pass_time(world, 3, site, until=lambda: bool(operations(world)) and not only_operation(world).is_open)
    operation = assert_moved(world)
    assert world.clock.passed - killed < 3
    assert cast(float, operation.measured.detect_seconds) <= 2
    pass_time(world, 60, site)
    assert world.lag() == 0
    return world


@fault(
    3,
    "all brokers of the primary are frozen: they accept, and never answer",
    verdict=Verdict.DOWN,
    then="as if killed, one timeout later; at most three probes run at a time, and the loop continues",
)
def test_a_frozen_primary_is_left_and_looks_never_pile_up() -> LiveWorld:
    world, site = scene(groups={"detection": {"interval": "500ms", "timeout": "2s", "failures": 3}})
    world.clusters["east"].silent = True
    limit = world.settings.detection.after_freeze.total_seconds()
    pass_time(world, limit + 0.5, site, until=lambda: verdict(world) is Verdict.DOWN)
    assert verdict(world) is Verdict.DOWN
    pass_time(world, 30, site)
    assert_moved(world)
    assert site.looks.under_way_at_most == world.settings.detection.failures
    return world


@fault(
    6,
    "the cluster in use goes down and comes back every 20 s, ten times",
    verdict=Verdict.DOWN,
    then="one failover; then the cool-down refuses, with one line of history",
)
def test_a_cluster_that_flaps_is_left_once_and_the_rest_is_refused() -> LiveWorld:
    world, site = scene()
    for _ in range(10):
        here = world.clusters[active(world)]
        here.reachable = False
        pass_time(world, 20, site)
        here.reachable = True
        pass_time(world, 20, site)
    assert_moved(world)
    assert {event.detail["name"] for event in events_of(world, "not-moved")} == {"cooled-down"}
    assert len(events_of(world, "not-moved")) <= 9
    return world


@fault(
    8,
    "the primary can be read and not written: too few replicas in sync",
    verdict=Verdict.DEGRADED,
    then="nothing moves: the query can read; a person decides what to do",
)
def test_a_primary_that_takes_no_writes_is_reported_and_not_left() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].health = replace(WHOLE, under_min_isr=2)
    pass_time(world, 120, site)
    assert verdict(world) is Verdict.DEGRADED
    assert "fewer replicas in sync than a write needs" in events_of(world, "verdict")[-1].text
    assert_left_alone(world)
    return world


@fault(
    9,
    "the standby is down, too",
    verdict=Verdict.DOWN,
    then="refused by `standby-up`, with one line of history; both are probed further, and the move follows when the "
    "standby is back",
)
def test_with_both_clusters_down_the_move_waits_for_the_standby() -> LiveWorld:
    world, site = scene()
    for cluster in world.clusters.values():
        cluster.reachable = False
    pass_time(world, 120, site)
    assert list(operations(world)) == []
    assert [event.detail["name"] for event in events_of(world, "not-moved")] == ["standby-up"]
    world.clusters["west"].reachable = True
    pass_time(world, 30, site)
    assert_moved(world)
    return world


@fault(
    25,
    "the standby dies when half of the queries have moved",
    verdict=Verdict.DOWN,
    then="who has moved stays, who has not is left on the dead primary; all continue when the standby is back",
)
def test_a_standby_that_dies_amid_a_group_makes_no_query_go_to_and_fro() -> LiveWorld:
    world, site = scene(queries=("first", "second"), groups={"operations": {"at_once": 1}})
    world.clusters["east"].reachable = False
    pass_time(world, 20, site, until=lambda: runs_on(world, "first") == "west")
    world.clusters["west"].reachable = False
    pass_time(world, 240, site)
    assert [active(world, query) for query in ("first", "second")] == ["west", "east"]
    world.clusters["west"].reachable = True
    pass_time(world, 180, site)
    assert [runs_on(world, query) for query in ("first", "second")] == ["west", "west"]
    assert [start.cluster for start in world.starts if start.query == "first" and start.epoch > 1] == ["west"]
    assert not any(operation.is_open for operation in operations(world))
    return world


@fault(
    26,
    "the primary comes back while the query is being moved",
    verdict=Verdict.DOWN,
    then="once the old run is proven stopped the move is finished, before the commit and after it. If the primary "
    "answers before that, the query stays where it is. It runs once",
)
def test_a_primary_that_comes_back_in_the_middle_does_not_stop_the_move() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].reachable = False
    pass_time(world, 20, site, until=lambda: bool(operations(world)))
    assert only_operation(world).phase is Phase.FENCING
    world.clusters["east"].reachable = True
    pass_time(world, 60, site)
    assert_moved(world)
    return world


@fault(
    27,
    "the primary comes back after the move",
    verdict=Verdict.UP,
    then="nothing: the query stays; a person takes it back by a failback",
)
def test_a_primary_that_comes_back_later_changes_nothing() -> LiveWorld:
    world, site = scene()
    world.clusters["east"].reachable = False
    pass_time(world, 30, site)
    world.clusters["east"].reachable = True
    pass_time(world, 600, site)
    assert verdict(world) is Verdict.UP
    assert_moved(world)
    assert events_of(world, "not-moved") == []
    return world
