"""What lies on a cluster that was left: exposed records, copies among them, and what a query never read there."""

from typing import Any

from orchestrator.facts.measure import keep_counts
from orchestrator.facts.tail import Tail, tail_of
from state.model.entities import Operation
from tests.contract.samples import plan_of
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
    """What the plan says of records before the resume offsets that the move does not read."""
    plan: Any = plan_of(operation)
    rows = plan.get("unread_before", [])
    assert len(rows) == sum("this move does not read them" in row["note"] for row in plan["partitions"])
    return [row["records"] for row in rows]


def keep(world: World) -> None:
    """A controller measures the last move."""
    lead = world.lead()
    assert lead.take()
    logs = world.clusters.__getitem__
    keep_counts(world.settings.queries, world.store, logs, term=lambda: lead.term, at=world.clock.now(), actor="ann")
    lead.give_up()


def test_records_that_a_query_never_read_are_shown_when_it_comes_back() -> None:
    world = World()
    left = moved(world)
    keep(world)
    back = came_back(world, read=20)
    assert unread(back) == [10, 10]
    plan: Any = plan_of(back)
    assert plan["unread_before"][0] == {
        "source": "orders", "topic": "orders", "partition": 0, "records": 10, "operation": left.id,
    }  # fmt: skip
    assert "up to 10 records that west lacked" in plan["partitions"][0]["note"]
    assert "unread_before" not in plan_of(left), "it had never left west"


def test_unread_records_are_unknown_where_they_were_not_measured() -> None:
    world = World()
    moved(world)
    assert unread(came_back(world, read=20)) == [None, None]


def test_records_after_the_resume_offset_are_read_and_not_listed() -> None:
    world = World()
    moved(world)
    keep(world)
    assert unread(came_back(world, read=0)) == []


def tail(world: World, operation: Operation) -> Tail:
    found = world.store.operation(operation.id)
    assert found is not None
    return tail_of(found, world.clusters.__getitem__)


def keys(found: Tail, *, on_standby: bool) -> dict[int, list[str]]:
    """By partition, the keys of the records that the standby has got since, or has not."""
    return {
        each.partition: [(r.record.key or b"").decode() for r in each.records if r.on_standby is on_standby]
        for each in found.partitions
    }


def test_the_tail_lists_every_record_that_only_the_old_cluster_had() -> None:
    world = World()
    left = moved(world)
    keep(world)
    found = tail(world, left)
    assert found.is_whole
    assert keys(found, on_standby=False) == {n: [f"{n}-{i}" for i in range(110, 120)] for n in world.partitions}
    assert [(each.counted, len(each.records)) for each in found.partitions] == [(10, 10), (10, 10)]


def test_records_that_came_to_the_standby_since_are_marked_in_the_tail() -> None:
    world = World()
    left = moved(world)
    keep(world)
    for record in world.clusters["east"].between("orders", 0, 110, 113):
        world.clusters["west"].append("orders", 0, record.timestamp_ms, record.digest)
    found = tail(world, left)
    assert keys(found, on_standby=True) == {0: ["0-110", "0-111", "0-112"], 1: []}
    assert len(keys(found, on_standby=False)[0]) == 7


def test_copies_that_come_back_behind_the_tail_are_not_part_of_it() -> None:
    world = World()
    left = moved(world)
    keep(world)
    came_back(world, read=20)
    found = tail(world, left)
    assert [len(each.records) for each in found.partitions] == [10, 10]


def test_a_tail_that_retention_has_deleted_is_shown_as_not_listed() -> None:
    world = World()
    left = moved(world)
    keep(world)
    world.clusters["east"].retain("orders", 0, 116)
    found = tail(world, left)
    assert not found.is_whole
    assert found.partitions[0].why.startswith("6 of 10 are not listed: retention has deleted them")
    assert (len(found.partitions[0].records), found.partitions[1].why) == (4, "")


def test_a_tail_that_was_never_measured_is_unknown() -> None:
    world = World()
    left = moved(world)
    found = tail(world, left)
    assert not found.is_whole
    assert all(each.why.startswith("not measured: east has not answered since") for each in found.partitions)
