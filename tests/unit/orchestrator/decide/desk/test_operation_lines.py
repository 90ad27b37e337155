"""Partitions with the worst first, and an operation's steps, gates and costs as the page shows them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from orchestrator.decide.desk.operation_lines import forecast_lines, gates_of, placed_lines, step_lines
from orchestrator.decide.desk.query_lines import partition_lines
from state.model.entities import TopicPartition
from state.model.maintenance import PartitionCopy
from state.model.measured import Measured
from state.model.plan import Gate, Plan
from tests.contract import samples
from tests.contract.samples import AT, SECOND
from tests.unit.orchestrator.decide.desk.test_attention import status

OFFSETS = {"orders": {"orders": {"0": 90, "1": 80, "2": 100, "3": 100}}}
COPY = PartitionCopy("orders", 0, "orders", 5_000, 4_000, 0, 0, 6_000, "")


def ends(*numbers: int) -> dict[TopicPartition, Any]:
    return {TopicPartition("orders", each): samples.end(partition=each, end=100) for each in numbers}


def test_the_partition_that_lacks_its_copy_comes_first_then_age_then_lag() -> None:
    (query,) = status(("revenue",), facts=[samples.fact(offsets=OFFSETS)]).queries
    gone = COPY._replace(partition=3, age_ms=None, records=7, note="west holds no record of this partition")
    copies = (COPY, COPY._replace(partition=1), COPY._replace(partition=2, age_ms=1500, records=2), gone)
    lines = partition_lines(query, ends(0, 1, 2, 3), samples.replication(copies=copies))
    assert [line.partition for line in lines] == [3, 2, 1, 0]
    assert [line.lag for line in lines] == [0, 0, 20, 10]
    assert [line.age_seconds for line in lines] == [None, 1.5, 0.0, 0.0]
    assert (lines[0].missing, lines[0].note) == (7, "west holds no record of this partition")


def test_samples_and_reports_of_another_cluster_do_not_count() -> None:
    (query,) = status(("revenue",), facts=[samples.fact(offsets=OFFSETS, cluster="west")]).queries
    assert partition_lines(query, ends(0), samples.replication(source="west", copies=(COPY,))) == []
    (line,) = partition_lines(query, {}, samples.replication(copies=(COPY,)))
    assert (line.offset, line.end, line.lag) == (None, None, None)


def test_steps_lie_on_the_scale_of_the_whole_operation() -> None:
    whole = samples.operation(ended_at=AT + 10 * SECOND)
    done = samples.step(ended_at=AT + 4 * SECOND, outcome="done")
    open_one = samples.step(sequence=2, started_at=AT + 5 * SECOND)
    first, second = step_lines(whole, [done, open_one], AT + timedelta(hours=1))
    assert (first.begin, first.share, first.seconds) == (0.0, 40.0, 4.0)
    assert (second.begin, second.share, second.seconds) == (50.0, 50.0, 5.0)
    (late,) = step_lines(replace(whole, ended_at=None), [open_one], AT + 25 * SECOND)
    assert (late.begin, late.share, late.seconds) == (20.0, 80.0, 20.0)
    (beyond,) = step_lines(whole, [samples.step(started_at=AT + 60 * SECOND)], AT)
    assert (beyond.begin, beyond.share, beyond.seconds) == (100.0, 0.0, 0.0)


def test_gates_that_refuse_come_first_and_a_plan_may_lack_them() -> None:
    plan = Plan(gates=(Gate(name="a", ok=True), Gate(name="b", ok=False)))
    assert [gate.name for gate in gates_of(plan)] == ["b", "a"]
    assert gates_of(Plan()) == gates_of(None) == []


def row(partition: int, **changes: Any) -> dict[str, Any]:
    placed = {
        "source": "orders", "topic": "orders", "partition": partition, "offset": 5, "target_topic": "orders",
        "target_partition": partition, "target_offset": 7, "method": "exact", "replay_records": 0,
        "exposure_records": 0, "note": "",
    }  # fmt: skip
    return placed | changes


def test_partitions_without_a_place_come_first_then_what_costs_most() -> None:
    rows = [row(0), row(1, replay_records=9), row(2, exposure_records=1), row(3, target_offset=None, method=None)]
    lines = placed_lines(samples.operation(plan=Plan.of({"partitions": rows})))
    assert [line.partition for line in lines] == [3, 2, 1, 0]
    assert (lines[0].method, lines[2].replay.forecast, lines[2].replay.measured) == ("none", 9, None)
    assert placed_lines(samples.operation()) == placed_lines(samples.operation(plan=None)) == []


def test_a_forecast_is_beside_what_was_measured() -> None:
    totals = {"replay_records": 4, "replay_later_records": None, "exposure_records": 12, "exposure_seconds": 0.4}
    made = samples.operation(plan=Plan.of({"totals": totals}), measured=Measured(replay_records=3))
    assert [(each.forecast, each.measured) for each in forecast_lines(made)] == [(4, 3), (None, None), (12, None)]
    assert forecast_lines(samples.operation(plan=None)) == []


def test_an_upper_bound_has_a_line_of_its_own_beside_the_unknown_number() -> None:
    bounds = {"exposure_records": 900, "exposure_seconds": 45.0, "replay_later_records": 700}
    totals = {"replay_records": 0, "replay_later_records": None, "exposure_records": 12, "at_most": bounds}
    lines = forecast_lines(samples.operation(plan=Plan.of({"totals": totals})))
    later = "records read twice once the replicator brings them"
    assert [(each.what, each.forecast) for each in lines] == [
        ("records read twice", 0), (later, None), ("records left behind", 12), (f"{later}, at most", 700),
    ]  # fmt: skip
