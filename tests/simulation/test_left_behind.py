"""What lies on a cluster that was left: exposed records, copies among them, and what a query never read there."""

from typing import Any

from orchestrator.facts.measure import keep_counts
from state.model.entities import Operation
from tests.simulation.test_outcome import measured, moved
from tests.simulation.world import START_MS, World


def test_copies_on_the_old_cluster_are_not_taken_for_exposed_records() -> None:
    world = World()
    operation = moved(world)
    for record in world.clusters["west"].between("orders", 0, 33, 143):
        world.clusters["east"].append("orders", 0, record.timestamp_ms, record.digest)
    assert [row[3] for row in measured(world, operation)] == [None, 10]


def came_back(world: World, *, read: int) -> Operation:
    """East is back; what was produced on west since is copied there, and the query has read it and returns."""
    (row,) = world.store.assignments()
    west, checkpoint = world.clusters["west"], world.checkpoints[row.checkpoint]
    for number in world.partitions:
        for index in range(read):
            for cluster in world.clusters.values():
                cluster.write("orders", number, f"new-{number}-{index}", START_MS + index)
    ends = {key.partition: end for key, end in west.ends("orders").items()}
    checkpoint.batch, checkpoint.offsets = 20, {"orders": {"orders": {str(n): end for n, end in ends.items()}}}
    world.track_ends("revenue", 20, ends, cluster="west", epoch=row.epoch)
    world.clock.wait(1.0)
    operation = world.carry_out(world.request(target="east"))
    assert operation is not None
    assert operation.outcome == "done", operation.sentence
    return operation


def unread(operation: Operation) -> list[object]:
    """What the plan says of records that lie before the places and were never read."""
    plan: Any = operation.plan
    rows = plan.get("unread_before", [])
    assert len(rows) == sum("were never read" in row["note"] for row in plan["partitions"])
    return [row["records"] for row in rows]


def keep(world: World) -> None:
    """A controller measures the last move."""
    lead = world.lead()
    assert lead.take()
    logs = world.clusters.__getitem__
    keep_counts(world.settings.queries, world.store, logs, term=lambda: lead.term, at=world.clock.now(), actor="ann")
    lead.give_up()


def test_records_that_a_query_never_read_are_told_when_it_comes_back() -> None:
    world = World()
    left = moved(world)
    keep(world)
    back = came_back(world, read=20)
    assert unread(back) == [10, 10]
    assert back.plan is not None
    plan: Any = back.plan
    assert plan["unread_before"][0] == {
        "source": "orders", "topic": "orders", "partition": 0, "records": 10, "operation": left.id,
    }  # fmt: skip
    assert "up to 10 records that west lacked" in plan["partitions"][0]["note"]
    assert "unread_before" not in (left.plan or {}), "it had never left west"


def test_unread_records_are_unknown_where_they_were_not_measured() -> None:
    world = World()
    moved(world)
    assert unread(came_back(world, read=20)) == [None, None]


def test_records_behind_the_place_are_read_and_not_told() -> None:
    world = World()
    moved(world)
    keep(world)
    assert unread(came_back(world, read=0)) == []
