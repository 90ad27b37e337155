"""What went through a query before and after its move is kept with the operation, in its evidence, and is a claim."""

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.facts.measure import keep_counts
from state.model.measured import NO_ROWS, BatchRows, RowCounts
from tests.contract.samples import plan_of
from tests.simulation.test_cli import run_json
from tests.simulation.test_later import read_to_end
from tests.simulation.test_outcome import moved
from tests.simulation.world import World


def counts(batches: int, *, written: int | None = 5, dropped: int = 0) -> RowCounts:
    found = NO_ROWS
    for batch in range(batches):
        found = found.after(BatchRows(batch, 50, written, dropped))
    return found


def report(world: World, rows: RowCounts) -> None:
    """The runner reports what went through its run."""
    (fact,) = world.store.query_facts()
    assert world.store.report_query(replace(fact, rows=rows, dropped_late_rows=rows.dropped))


def keep(world: World) -> None:
    """A controller measures the last move."""
    lead = world.lead()
    assert lead.take()
    keep_counts(
        world.settings.queries, world.store, world.clusters.__getitem__, term=lambda: lead.term, at=world.clock.now(),
        actor="ann",
    )  # fmt: skip
    lead.give_up()


def test_rows_before_and_after_are_kept_with_the_operation() -> None:
    world = World()
    report(world, counts(20))
    operation = moved(world)
    read_to_end(world)
    report(world, counts(3, dropped=2))
    keep(world)
    kept: Any = world.store.operation(operation.id)
    plan = plan_of(kept)
    assert plan["rows_before"] == {
        "batches": 20,
        "read": 1000,
        "written": 100,
        "dropped": 0,
        "usual_batch": 50,
    }
    assert plan["totals"]["usual_batch_records"] == 50
    first = sum(row["end"] - row["target_offset"] for row in plan["partitions"])
    assert plan["totals"]["first_batch_records"] == first
    assert kept.measured.dropped_late_rows == 6
    report(world, counts(9, dropped=2))
    keep(world)
    again: Any = world.store.operation(operation.id)
    assert again.measured.dropped_late_rows == 18, "it is counted on, not read once"


def test_late_rows_are_shown_and_fail_the_verdict(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    report(world, counts(20))
    operation = moved(world)
    read_to_end(world)
    report(world, counts(9, written=0, dropped=2))
    keep(world)
    _, shown = run_json(capsys, "show-op", operation.id)
    assert shown["measured"]["dropped_late_rows"] == 18
    assert shown["measured"]["rows"]["after"] == {"batches": 9, "read": 450, "written": 0, "dropped": 18}
    assert shown["measured"]["rows"]["first_batch"] == {"batch": 0, "read": 50, "written": 0, "dropped": 2}
    json.dumps(shown)
