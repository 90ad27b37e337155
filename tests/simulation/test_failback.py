"""The way home: on replication that was reversed, exact, and never while both directions copy."""

import json
from typing import Any

import pytest

from orchestrator.decide.gates.preconditions import route_declared
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.tail import tail_of
from state.model.entities import Operation, OperationKind
from tests.contract.samples import plan_of
from tests.simulation.test_cli import run, two
from tests.simulation.test_left_behind import keep, unread
from tests.simulation.test_outcome import measured, moved
from tests.simulation.world import QUERY, START_MS, World, settings

__all__ = ["two"]

ROUTES = [
    {"from": "east", "to": "west", "heartbeats": "east.heartbeats"},
    {"from": "west", "to": "east", "heartbeats": "west.heartbeats"},
]
FRESH = 20
"""Records of each partition that were produced on west and read there."""


def beat(world: World, source: str, target: str) -> None:
    """A heartbeat of ``source`` arrives on ``target``."""
    topic = f"{source}.heartbeats"
    if topic not in world.clusters[target].topics:
        world.clusters[target].create(topic)
    world.clusters[target].append(topic, 0, round(world.clock.store_now().timestamp() * 1000), bytes(16))


def away(*, is_reported: bool = True, **groups: Any) -> tuple[World, Operation]:
    """A query that failed over to west and has read there; what it read is copied behind east's tail of ten each."""
    world = World(settings(groups={"routes": ROUTES, **groups}))
    left = moved(world)
    if is_reported:
        keep(world)
    (row,) = world.store.assignments()
    west, checkpoint = world.clusters["west"], world.checkpoints[row.checkpoint]
    for number in world.partitions:
        for index in range(FRESH):
            for cluster in world.clusters.values():
                cluster.write("orders", number, f"new-{number}-{index}", START_MS + 60_000 + index)
    ends = {key.partition: end for key, end in west.ends("orders").items()}
    checkpoint.batch, checkpoint.offsets = 20, {"orders": {"orders": {str(n): end for n, end in ends.items()}}}
    world.track_ends(QUERY, 20, ends, cluster="west", epoch=row.epoch)
    world.clock.wait(1.0)
    return world, left


def go_home(world: World) -> Operation | None:
    return world.carry_out(world.request(kind=OperationKind.FAILBACK, target="east"))


def test_a_query_comes_home_exactly_and_its_unread_tail_is_shown() -> None:
    world, left = away()
    beat(world, "west", "east")
    operation = go_home(world)
    assert operation is not None
    assert (operation.outcome, operation.kind) == ("done", OperationKind.FAILBACK), operation.sentence
    plan: Any = plan_of(operation)
    assert plan["starting_offsets"] == {"orders": {"0": 140, "1": 140}}
    assert {row["method"] for row in plan["partitions"]} == {"exact"}
    assert (plan["totals"]["replay_records"], plan["totals"]["replay_later_records"]) == (0, 0)
    assert unread(operation) == [10, 10]
    assert {row["operation"] for row in plan["unread_before"]} == {left.id}


def test_a_tail_that_no_controller_measured_is_measured_before_the_move() -> None:
    world, _ = away(is_reported=False)
    beat(world, "west", "east")
    operation = go_home(world)
    assert operation is not None
    assert unread(operation) == [10, 10]


def test_a_query_goes_home_also_where_its_tail_cannot_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> int:
        raise ValueError("a row that nobody understands")

    world, _ = away(is_reported=False)
    beat(world, "west", "east")
    monkeypatch.setattr("orchestrator.operation.requests.keep_counts", broken)
    operation = go_home(world)
    assert operation is not None
    assert (operation.outcome, unread(operation)) == ("done", [None, None])


def test_a_planned_move_leaves_no_record_behind() -> None:
    world, _ = away()
    beat(world, "west", "east")
    operation = go_home(world)
    assert operation is not None
    world.clusters["west"].write("orders", 0, "late", START_MS + 10_000)
    assert [row[3] for row in measured(world, operation)] == [0, 0]
    assert [each.counted for each in tail_of(operation, world.clusters.__getitem__).partitions] == [0, 0]


def refused(world: World) -> str:
    request = world.request(kind=OperationKind.FAILBACK, target="east")
    assert world.carry_out(request) is None
    answered = world.store.request(request.id)
    assert answered is not None
    return answered.refused or ""


def test_renamed_topics_have_their_own_names_on_the_way_home() -> None:
    mapped = [
        {**ROUTES[0], "topics": {"orders": "orders-of-east"}},
        {**ROUTES[1], "topics": {"orders-of-east": "orders"}},
    ]
    world, _ = away()
    world.settings = settings(groups={"routes": mapped})
    logs, there = world.clusters.__getitem__, world.clusters["west"].topics
    there["orders-of-east"] = there.pop("orders")
    gatherer = FactGatherer(store=world.store, settings=world.settings, logs=logs, clock=world.clock)
    facts = gatherer.before(OperationKind.FAILBACK, QUERY, "east")
    assert facts.topics == {"orders-of-east": "orders"}
    declared = route_declared(facts)
    assert declared.ok, declared.text


def test_no_query_goes_home_while_both_directions_copy() -> None:
    world, _ = away()
    beat(world, "west", "east")
    beat(world, "east", "west")
    assert refused(world).startswith("one-direction: the newest heartbeat copied from east is 0 s old: the replicator")
    world.clock.wait(15.0)  # it was stopped
    beat(world, "west", "east")
    operation = go_home(world)
    assert operation is not None
    assert operation.outcome == "done"


def test_both_directions_may_copy_where_a_prefix_distinguishes_copies() -> None:
    prefixed = [{**ROUTES[0], "topics": {"orders": "east.orders"}}, {**ROUTES[1], "topics": {"orders": "west.orders"}}]
    world, _ = away()
    beat(world, "west", "east")
    beat(world, "east", "west")
    world.settings = settings(groups={"routes": prefixed})
    assert not refused(world).startswith("one-direction")


def test_no_query_goes_home_while_nothing_copies_there() -> None:
    world, _ = away()
    beat(world, "east", "west")
    assert refused(world).startswith("replication-alive: west.heartbeats on east holds no heartbeat of west")


def test_failback_joins_a_switchover_to_the_same_cluster() -> None:
    world, _ = away(policy={"catch_up": "60s"})
    beat(world, "west", "east")
    world.clusters["east"].cut("orders", 130)
    waiting = world.carry_out(world.request(kind=OperationKind.SWITCHOVER, target="east"), seconds=5)
    assert waiting is not None
    assert waiting.is_open
    joined = world.carry_out(world.request(kind=OperationKind.FAILBACK, target="east"), seconds=1)
    assert joined is not None
    assert joined.id == waiting.id


def test_a_query_that_is_at_home_is_left_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "failback", QUERY, "--yes")
    assert (code, f"{QUERY} is already there: nothing done" in err) == (0, True)


def test_failback_takes_the_home_cluster_for_its_target(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    moved(world)
    code, out, _ = run(capsys, "plan", "failback", QUERY, "-o", "json")
    plan = json.loads(out)
    assert (code, plan["kind"], plan["from"], plan["to"]) == (1, "failback", "west", "east")
    assert {gate["name"] for gate in plan["gates"] if not gate["ok"]} >= {"replication-alive"}
    code, _, err = run(capsys, "failback", QUERY, "--to", "west", "--yes")
    assert (code, "failback takes queries home" in err) == (2, True)


def test_the_tail_of_a_move_is_printed_for_a_program(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    left = moved(world)
    keep(world)
    code, out, _ = run(capsys, "show-op", left.id, "--tail", "-o", "json")
    is_reported = json.loads(out)
    assert (code, is_reported["cluster"], is_reported["standby"], is_reported["whole"]) == (0, "east", "west", True)
    assert [each["key"] for each in is_reported["records"] if each["partition"] == 0] == [
        f"0-{n}" for n in range(110, 120)
    ]
    assert {each["on_standby"] for each in is_reported["records"]} == {False}
    code, out, err = run(capsys, "show-op", left.id, "--tail")
    assert (code, "0-110" in out) == (0, True)
    assert f"west lacked 20 records of east when {QUERY} left; 0 have come there since" in err


def test_a_tail_of_a_cluster_that_is_away_is_not_a_number(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    left = moved(world)
    world.clusters["east"].reachable = False
    code, _, err = run(capsys, "show-op", left.id, "--tail")
    assert code == 3
    assert "what west lacked of east is unknown (forecast 20); type this again once east answers" in err
    assert "west lacked 0 records" not in err


def test_a_move_that_was_given_up_has_no_tail(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.runner.proof = None
    blocked = world.carry_out(world.request(), seconds=5)
    assert blocked is not None
    assert run(capsys, "cancel", blocked.id)[0] == 0
    code, _, err = run(capsys, "show-op", blocked.id, "--tail")
    assert (code, f"operation {blocked.id} moved nothing" in err) == (1, True)
