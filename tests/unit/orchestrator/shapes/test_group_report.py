"""The report of a group: one row a query, sums that are never too small, and what did not move."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.shapes.group_report import group_report, is_open
from state.model.entities import Operation, Phase, Request
from state.model.evidence import Evidence
from state.model.measured import Measured
from tests.contract import samples
from tests.contract.samples import AT, SECOND


def done(query: str, **change: Any) -> Operation:
    values: dict[str, Any] = {
        "id": f"op-{query}", "query": query, "phase": Phase.SETTLED, "outcome": "done", "ended_at": AT + 9 * SECOND,
        "sentence": f"{query} runs on west", "plan": None,
        "measured": Measured(switch_seconds=2.5, exposure_records=0, replay_records=3, dropped_late_rows=1),
    }  # fmt: skip
    return samples.operation(**(values | change))


def requested(query: str, **change: Any) -> Request:
    return samples.request(**({"id": f"request-{query}", "query": query} | change))


def report(requests: list[Request], operations: list[Operation], **kept: Evidence) -> Any:
    return group_report("group-1", requests, operations, {f"op-{name}": each for name, each in kept.items()}, AT)


def test_numbers_of_all_queries_are_added_up() -> None:
    slow = done(
        "clicks", measured=Measured(switch_seconds=4.0, exposure_records=7, replay_records=0, dropped_late_rows=0)
    )
    both = [requested("revenue", operation="op-revenue"), requested("clicks", operation="op-clicks")]
    evidence = Evidence(
        sequence=5, operation="op-clicks", query="clicks", sha256="ab", previous="cd", written_at=AT, document=None
    )
    found = report(both, [slow, done("revenue")], clicks=evidence)
    assert [(each["query"], each["outcome"]) for each in found["queries"]] == [("revenue", "done"), ("clicks", "done")]
    assert (found["longest_pause_seconds"], found["exposure_records"], found["replay_records"]) == (4.0, 7, 3)
    assert (found["dropped_late_rows"], found["outcomes"]) == (1, {"done": 2})
    assert (found["started_at"], found["ended_at"]) == ("2026-03-01T12:00:00.123Z", "2026-03-01T12:00:09.123Z")
    assert [each["evidence"] and each["evidence"]["sha256"] for each in found["queries"]] == [None, "ab"]
    assert (found["kind"], found["actor"], found["reason"]) == ("failover", "operator", "east is gone")


def test_a_sum_with_an_unknown_number_is_unknown() -> None:
    unknown = done("clicks", measured=Measured(switch_seconds=None, exposure_records=None, replay_records=2))
    found = report([], [done("revenue"), unknown])
    assert (found["longest_pause_seconds"], found["exposure_records"], found["dropped_late_rows"]) == (None, None, None)
    assert found["replay_records"] == 5


def test_a_query_that_did_not_move_has_its_sentence_and_no_numbers() -> None:
    requests = [
        requested("revenue", operation="op-revenue"),
        requested("clicks", refused="west is down"),
        requested("late", expires_at=AT),
        requested("next", expires_at=AT + SECOND),
    ]
    requests[2] = replace(requests[2], created_at=AT - timedelta(hours=1))
    found = report(requests, [done("revenue", outcome="failed", sentence="it is unverified")])
    rows = {each["query"]: (each["outcome"], each["sentence"]) for each in found["queries"]}
    assert rows == {
        "revenue": ("failed", "it is unverified"),
        "clicks": ("refused", "west is down"),
        "late": ("refused", "it did not begin before its request expired"),
        "next": ("waiting", "it has not begun yet"),
    }
    assert (found["replay_records"], found["ended_at"], is_open(found["queries"])) == (None, None, True)
    assert found["outcomes"] == {"failed": 1, "refused": 2, "waiting": 1}


def test_a_move_under_way_keeps_the_report_open() -> None:
    found = report([], [done("revenue"), done("clicks", outcome=None, ended_at=None)])
    assert (is_open(found["queries"]), found["ended_at"], found["replay_records"]) == (True, None, 3)
    with pytest.raises(ValueError, match="no request and no operation has the group 'group-1'"):
        report([], [])
