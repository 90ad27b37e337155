"""What the tab in Spark's UI gets to show of a query."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from state.model.entities import Assignment, Desired
from state.model.maintenance import ReadinessFact
from streaming.spark.attach.status import shown_queries
from tests.contract import samples

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = Assignment(
    query="archive", epoch=4, placed_epoch=4, desired=Desired.RUNNING, cluster="west", runner="shop",
    checkpoint="/data/archive", starting_offsets=None, operation="op", changed_at=NOW,
)  # fmt: skip
GATES = (
    {"name": "replay", "ok": True, "measured": "0", "limit": "1", "text": "nothing is read twice"},
    {"name": "exposure", "ok": False, "measured": "9", "limit": "1", "text": "east has 9 records more"},
)


def shown(row: Assignment | None, **known: Any) -> dict[str, str]:
    store: Any = SimpleNamespace(
        assignment=lambda query: row,
        query_facts=lambda query: known.get("facts", []),
        readiness=lambda query: known.get("ready", []),
        operation=lambda name: known.get("operation"),
    )
    (found,) = shown_queries(store, {"/data/archive": "archive"})
    return dict(found)


def test_a_query_that_never_ran_shows_nothing_that_is_not_known() -> None:
    assert shown(None) == {
        "key": "/data/archive", "query": "archive", "reads": "", "epoch": "", "state": "not started yet",
        "readiness": "no check yet: a controller makes them", "move": "none",
    }  # fmt: skip


def test_a_query_shows_its_last_move_and_the_gates_that_refuse_the_next() -> None:
    ready = ReadinessFact(query="archive", target="east", ready=False, gates=GATES, since=NOW, sampled_at=NOW)
    moved = samples.operation(id="op", source="east", target="west", outcome="done", ended_at=NOW)
    found = shown(ROW, ready=[ready], operation=moved, facts=[samples.fact(query="archive", error="no space left")])
    assert (found["reads"], found["epoch"]) == ("west", "4")
    assert found["readiness"] == "NOT READY for east; exposure: east has 9 records more"
    assert found["move"].endswith("from east to west: done, 2026-01-01T00:00:00+00:00 (op)")
    assert found["state"].endswith(": no space left")


def test_a_query_that_is_held_shows_by_which_operation() -> None:
    assert shown(replace(ROW, desired=Desired.HELD))["state"] == "held by operation op"
