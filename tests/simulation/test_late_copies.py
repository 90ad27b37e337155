"""A query that reads what another one writes never skips what that one wrote on the other cluster in the meantime."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from state.model.entities import Operation, OperationKind, Phase
from tests.contract.samples import plan_of
from tests.simulation.control import scheduler, see_to
from tests.simulation.test_chains import FIRST, SECOND, TOPIC, chain, copy, request_moves
from tests.simulation.world import START_MS, World

GATE = "upstream-output"
TAIL = range(5, 25)
"""More records than a resume offset is proven by, so that it is exact behind their copies."""


def has_read(world: World, end: int) -> None:
    """The second query has read the topic between the two up to an offset on east."""
    (row,) = (each for each in world.store.assignments() if each.query == SECOND)
    checkpoint = world.checkpoints[row.checkpoint]
    checkpoint.batch += 1
    checkpoint.offsets = {**checkpoint.offsets, TOPIC: {TOPIC: {"0": end, "1": end}}}
    east, known = world.clusters["east"], world.store.positions(SECOND)
    read = {number: east.ring(TOPIC, number, end) for number in range(2)}
    world.store.save_positions(
        replace(
            each, source=TOPIC, topic=TOPIC, batch=checkpoint.batch, offset=end, ring=read[each.partition],
            timestamp_ms=max(record.timestamp_ms for record in read[each.partition]),
            topic_id=east.topics[TOPIC].topic_id,
        )
        for each in known
    )  # fmt: skip
    world.clock.wait(1.0)


def move(world: World, query: str, kind: OperationKind = OperationKind.FAILOVER, *consents: str) -> Operation:
    operation = world.carry_out(world.request(query, kind=kind, consents=consents))
    assert operation is not None
    return operation


def gates_of(operation: Operation) -> dict[str, Mapping[str, Any]]:
    return {gate["name"]: gate for gate in plan_of(operation)["gates"]}


def writes_there(world: World) -> None:
    """The first query writes a record to each partition on west."""
    for partition in range(2):
        world.clusters["west"].write(TOPIC, partition, f"new-{partition}", START_MS)


def copy_all(world: World, cluster: str, indices: range) -> None:
    for partition in range(2):
        for index in indices:
            copy(world, cluster, partition, index)


def left_with_a_tail() -> World:
    """East dies with a tail that west lacks, the first query leaves; east comes back, and the tail is copied."""
    world = chain()
    copy_all(world, "east", TAIL)
    world.clusters["east"].reachable = False
    first = move(world, FIRST)
    assert first.outcome == "done"
    assert plan_of(first)["output"] == {"topic": TOPIC, "ends": {"0": 8, "1": 8}}
    writes_there(world)
    world.clusters["east"].reachable = True
    copy_all(world, "west", TAIL)
    return world


@pytest.mark.parametrize("kind", [OperationKind.SWITCHOVER, OperationKind.FAILOVER])
def test_late_copies_behind_new_output_refuse_the_move(kind: OperationKind) -> None:
    world = left_with_a_tail()
    has_read(world, TAIL.stop)
    second = move(world, SECOND, kind)
    assert second.outcome == "refused"
    assert second.sentence.startswith(
        f"{GATE}: {SECOND} would resume after records that {FIRST} may have written since it moved to west, up to 42, "
    )
    assert gates_of(second)[GATE]["measured"] == "2 partitions"
    accepted = move(world, SECOND, kind, "gap")
    assert accepted.outcome == "done"
    assert plan_of(accepted)["starting_offsets"][TOPIC] == {"0": 29, "1": 29}
    assert gates_of(accepted)[GATE]["text"] == "consent gap is given"


def test_who_has_not_read_the_late_copies_reads_new_output_and_them() -> None:
    world = left_with_a_tail()
    has_read(world, TAIL.start)
    second = move(world, SECOND, OperationKind.SWITCHOVER)
    assert second.outcome == "done"
    assert plan_of(second)["starting_offsets"][TOPIC] == {"0": 8, "1": 8}
    assert gates_of(second)[GATE]["ok"]


@pytest.mark.parametrize("others", [False, True])
def test_a_writer_that_moved_alone_holds_up_only_who_reads_others_too(others: bool) -> None:
    world = chain()
    has_read(world, 5)
    assert move(world, FIRST, OperationKind.SWITCHOVER).outcome == "done"
    writes_there(world)
    if others:
        for cluster in ("east", "west"):
            copy_all(world, cluster, TAIL)
        has_read(world, TAIL.stop)
    second = move(world, SECOND, OperationKind.SWITCHOVER)
    assert second.outcome == ("refused" if others else "done")
    assert gates_of(second)[GATE]["ok"] is not others


def test_queries_that_leave_together_do_not_wait_for_late_copies() -> None:
    """The first query has written nothing yet, and what is copied now comes before that."""
    world = chain()
    copy_all(world, "east", TAIL)
    has_read(world, TAIL.stop)
    world.runner.commits = False
    request_moves(world, (FIRST,), kind=OperationKind.FAILOVER)
    see_to(world, held := scheduler(world), 5)
    (first,) = world.store.operations(query=FIRST)
    assert first.phase is Phase.VERIFYING
    copy_all(world, "west", TAIL)
    request_moves(world, (SECOND,), kind=OperationKind.FAILOVER)
    see_to(world, held, 5)
    (second,) = world.store.operations(query=SECOND)
    assert second.phase is Phase.VERIFYING
    assert GATE not in gates_of(second)


def test_an_output_without_known_ends_delays_no_query() -> None:
    world = left_with_a_tail()
    has_read(world, TAIL.stop)
    (first,) = world.store.operations(query=FIRST)
    assert first.plan is not None
    plan = replace(first.plan, output=None)
    lead = world.lead()
    assert lead.take()
    world.store.record(replace(first, plan=plan), term=lead.term or 0)
    lead.give_up()
    gate = gates_of(move(world, SECOND))[GATE]
    assert (gate["ok"], gate["measured"]) == (True, "unknown"), "a person asked for the move"
