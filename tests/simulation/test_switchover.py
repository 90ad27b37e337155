"""A switchover: both clusters alive, nothing lost, nothing read twice, and a way back at every moment."""

from typing import Any, cast

import pytest

from state.model.entities import Desired, Operation, OperationKind, Phase
from state.store.controller_store import ControllerStore
from tests.contract.samples import plan_of
from tests.simulation.control import pass_time
from tests.simulation.faults.scenes import active, scene
from tests.simulation.live import LiveWorld, live_settings
from tests.simulation.world import QUERY, START_MS, Crash, CrashingStore, World, settings

PLACE = 33 + 100
HEARTBEATS = "east.heartbeats"
ROUTES = [{"from": "east", "to": "west", "heartbeats": HEARTBEATS}]


def replicated(**groups: Any) -> World:
    """A world whose replicator has sent its newest heartbeat a moment ago."""
    world = World(settings(groups={"routes": ROUTES, **groups}))
    world.clusters["west"].create(HEARTBEATS)
    world.clusters["west"].append(HEARTBEATS, 0, START_MS - 1_000, bytes(16))
    return world


def switch(world: World, *, seconds: float = 300.0, **request: Any) -> Operation | None:
    return world.carry_out(world.request(kind=OperationKind.SWITCHOVER, **request), seconds=seconds)


def behind(world: World, records: int) -> None:
    """Take the newest copies away, so that west lacks as many records of each partition that were read."""
    world.clusters["west"].cut("orders", PLACE - records)


def copy(world: World, first: int, last: int) -> None:
    """The replicator appends these records to west."""
    for partition in world.partitions:
        for index in range(first, last):
            world.clusters["west"].write("orders", partition, f"{partition}-{index}", START_MS - 120_000 + index * 1000)


def assert_back_on_east(world: World) -> None:
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, row.epoch, row.desired) == ("east", 3, Desired.RUNNING)
    assert world.checkpoints[f"/cp/{QUERY}"].planted == set()


def test_a_switchover_resumes_exactly_with_nothing_lost_or_repeated() -> None:
    world = replicated()
    operation = switch(world)
    assert operation is not None
    assert (operation.phase, operation.outcome, operation.kind) == (Phase.SETTLED, "done", OperationKind.SWITCHOVER)
    plan: Any = plan_of(operation)
    assert plan["kind"] == "switchover"
    assert plan["starting_offsets"] == {"orders": {"0": PLACE, "1": PLACE}}
    assert (plan["totals"]["replay_records"], plan["totals"]["replay_later_records"]) == (0, 0)
    assert {"replication-alive", "active-reachable"} & {gate["name"] for gate in plan["gates"]} == set()
    assert "caught-up" in {gate["name"] for gate in plan["gates"]}


def test_it_waits_until_the_standby_has_every_record_that_was_read() -> None:
    world = replicated()
    behind(world, 7)
    copied: list[str] = []

    def replicate() -> None:
        (operation,) = world.store.operations()
        if operation.phase is Phase.RESOLVING and world.clock.passed > 20 and not copied:
            copied.append(operation.sentence)
            copy(world, 93, 110)

    world.clock.lives.append(lambda: replicate() if world.store.operations() else None)
    operation = switch(world)
    assert operation is not None
    assert operation.outcome == "done"
    (sentence,) = copied
    assert sentence.startswith("waiting for the replicator: 0 of 2 partitions caught up; west lacks 14 records")
    plan: Any = plan_of(operation)
    assert plan["starting_offsets"] == {"orders": {"0": PLACE, "1": PLACE}}


def test_it_goes_back_where_the_standby_does_not_catch_up_in_time() -> None:
    world = replicated(policy={"catch_up": "20s"})
    behind(world, 7)
    operation = switch(world)
    assert operation is not None
    assert (operation.phase, operation.outcome) == (Phase.ABORTED, "refused")
    assert operation.sentence.startswith("caught-up: west lacks 14 records that revenue has read")
    waited = (operation.ended_at or operation.started_at) - operation.started_at
    assert 20 <= waited.total_seconds() < 30
    assert_back_on_east(world)


def test_it_is_refused_before_anything_stops_where_no_replicator_runs() -> None:
    world = replicated()
    world.clock.wait(60)
    request = world.request(kind=OperationKind.SWITCHOVER)
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.refused or "").startswith("replication-alive: the newest heartbeat copied from east is 61 s old")
    assert world.store.operations() == []


def test_without_heartbeats_it_needs_a_consent() -> None:
    world = World()
    request = world.request(kind=OperationKind.SWITCHOVER)
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    assert "declares no heartbeats" in (answered.refused or "")
    operation = switch(world, consents=("replication",))
    assert operation is not None
    assert operation.outcome == "done"


def test_it_is_refused_before_anything_stops_where_the_old_cluster_is_gone() -> None:
    world = replicated()
    world.clusters["east"].reachable = False
    request = world.request(kind=OperationKind.SWITCHOVER)
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    assert (answered.refused or "").startswith("active-reachable: east cannot be reached")
    assert (answered.refused or "").endswith("use tideover failover revenue")


def test_a_failover_cuts_the_wait_short_when_the_old_cluster_dies() -> None:
    world = replicated()
    behind(world, 7)
    waiting = switch(world, seconds=5)
    assert waiting is not None
    assert waiting.phase is Phase.RESOLVING
    world.clusters["east"].reachable = False
    hurried = world.carry_out(world.request())
    assert hurried is not None
    assert (hurried.id, hurried.outcome) == (waiting.id, "done")
    assert "failover" in hurried.consents
    plan: Any = plan_of(hurried)
    assert plan["starting_offsets"] == {"orders": {"0": PLACE - 7, "1": PLACE - 7}}
    assert plan["totals"]["replay_later_records"] == 14


def test_a_crash_after_every_write_ends_in_one_start_and_nothing_lost() -> None:
    for count in range(1, 40):
        world = replicated()
        request = world.request(kind=OperationKind.SWITCHOVER)
        try:
            world.carry_out(request, store=cast(ControllerStore, CrashingStore(world.store, count)))
        except Crash:
            operation = world.carry_out(request)
            assert operation is not None
            assert operation.outcome == "done"
            assert [start.cluster for start in world.starts] == ["west"]
        else:
            break
    else:
        pytest.fail("it never came to its end")
    assert count > 8


def test_a_primary_that_dies_in_a_switchover_is_left_automatically() -> None:
    policy = {"automatic": True, "catch_up": "20s", "cooldown": "1s"}
    world, site = scene(LiveWorld(live_settings(policy=policy), rate=20))
    world.replicator.behind_seconds = 12.0
    pass_time(world, 20, site)
    world.request(kind=OperationKind.SWITCHOVER)
    pass_time(world, 3, site)
    (waiting,) = world.store.operations()
    assert waiting.phase is Phase.RESOLVING
    world.clusters["east"].reachable = False
    pass_time(world, 60, site)
    failover, switchover = world.store.operations()
    assert (switchover.id, switchover.outcome) == (waiting.id, "refused")
    assert (failover.kind, failover.actor, failover.outcome) == (OperationKind.FAILOVER, "auto", "done")
    assert active(world) == "west"
    assert world.broken == []
    assert world.account() == (0, 0)
