"""The report of a group: one row a query, sums that are never too small, and what did not move."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.shapes.group_report import group_report, is_open
from state.model.entities import Operation, OperationKind, Phase, Request
from state.model.evidence import Evidence
from state.model.measured import NOTHING, Measured
from tests.contract import samples
from tests.contract.samples import AT, SECOND


def done(query: str, **change: Any) -> Operation:
    values: dict[str, Any] = {
        "id": f"op-{query}", "query": query, "phase": Phase.SETTLED, "outcome": "done", "ended_at": AT + 9 * SECOND,
        "sentence": f"{query} runs on west", "plan": None,
        "measured": Measured(
            switch_seconds=2.5, exposure_records=0, replay_records=3, replay_later_records=0, dropped_late_rows=1
        ),
    }  # fmt: skip
    return samples.operation(**(values | change))


def requested(query: str, **change: Any) -> Request:
    return samples.request(**({"id": f"request-{query}", "query": query} | change))


def report(requests: list[Request], operations: list[Operation], **kept: Evidence) -> Any:
    return group_report("group-1", requests, operations, {f"op-{name}": each for name, each in kept.items()}, AT)


def test_numbers_of_all_queries_are_added_up() -> None:
    measured = Measured(switch_seconds=4.0, exposure_records=7, replay_records=0, replay_later_records=4)
    slow = done("clicks", measured=replace(measured, dropped_late_rows=0))
    both = [requested("revenue", operation="op-revenue"), requested("clicks", operation="op-clicks")]
    evidence = Evidence(
        sequence=5, operation="op-clicks", query="clicks", sha256="ab", previous="cd", written_at=AT, document=None
    )
    found = report(both, [slow, done("revenue")], clicks=evidence)
    assert [(each["query"], each["outcome"]) for each in found["queries"]] == [("revenue", "done"), ("clicks", "done")]
    assert (found["longest_pause_seconds"], found["exposure_records"], found["replay_records"]) == (4.0, 7, 3)
    assert (found["replay_later_records"], found["dropped_late_rows"], found["outcomes"]) == (4, 1, {"done": 2})
    assert (found["started_at"], found["ended_at"]) == ("2026-03-01T12:00:00.123Z", "2026-03-01T12:00:09.123Z")
    assert [each["evidence"] and each["evidence"]["sha256"] for each in found["queries"]] == [None, "ab"]
    assert (found["kind"], found["actor"], found["reason"]) == ("failover", "operator", "east is gone")


def test_a_sum_with_an_unknown_number_is_unknown() -> None:
    unknown = done("clicks", measured=Measured(switch_seconds=None, exposure_records=None, replay_records=2))
    found = report([], [done("revenue"), unknown])
    assert (found["longest_pause_seconds"], found["exposure_records"], found["dropped_late_rows"]) == (None, None, None)
    assert found["replay_records"] == 5


@pytest.mark.parametrize(("records", "sums"), [(7000, 7000), (None, None)])
def test_a_move_that_failed_behind_its_commit_counts(records: int | None, sums: int | None) -> None:
    text = "runner a is silent; clicks stays assigned to west"
    failed = done("clicks", outcome="failed", sentence=text, measured=Measured(exposure_records=records))
    found = report([], [done("revenue"), failed])
    assert (found["exposure_records"], found["replay_records"], found["dropped_late_rows"]) == (sums, None, None)
    assert found["longest_pause_seconds"] is None


def test_a_move_that_went_back_leaves_the_longest_pause_unknown() -> None:
    back = done("clicks", phase=Phase.ABORTED, outcome="refused", measured=NOTHING)
    found = report([], [done("revenue"), back])
    assert (found["exposure_records"], found["replay_records"], found["longest_pause_seconds"]) == (0, 3, None)
    drill = done("clicks", kind=OperationKind.DRILL, measured=NOTHING)
    found = report([], [done("revenue"), drill])
    assert (found["replay_records"], found["longest_pause_seconds"]) == (3, 2.5)


def test_an_operation_that_retention_deleted_leaves_the_sums_unknown() -> None:
    found = report([requested("clicks", operation="op-clicks", expires_at=AT)], [done("revenue")])
    assert found["outcomes"] == {"unknown": 1, "done": 1}
    assert found["queries"][0]["sentence"] == "the store holds operation op-clicks no longer"
    assert (found["replay_records"], found["longest_pause_seconds"], is_open(found["queries"])) == (None, None, False)


def test_requests_that_one_operation_answers_are_one_row() -> None:
    second = requested("revenue", id="request-2", operation="op-revenue", expires_at=AT)
    found = report([requested("revenue", operation="op-revenue"), second], [done("revenue")])
    assert (found["outcomes"], is_open(found["queries"]), found["replay_records"]) == ({"done": 1}, False, 3)
    assert [each["operation"] for each in found["queries"]] == ["op-revenue"]


def test_a_query_that_did_not_move_has_its_sentence_and_no_numbers() -> None:
    requests = [
        requested("revenue", operation="op-revenue"),
        requested("clicks", refused="west is down"),
        requested("late", expires_at=AT),
        requested("next", expires_at=AT + SECOND),
    ]
    requests[2] = replace(requests[2], created_at=AT - timedelta(hours=1))
    back = done("revenue", phase=Phase.ABORTED, outcome="failed", sentence="it is on east", measured=NOTHING)
    found = report(requests, [back])
    rows = {each["query"]: (each["outcome"], each["sentence"]) for each in found["queries"]}
    assert rows == {
        "revenue": ("failed", "it is on east"),
        "clicks": ("refused", "west is down"),
        "late": ("refused", "it did not begin before its request expired"),
        "next": ("waiting", "it has not begun yet"),
    }
    assert (found["replay_records"], found["ended_at"], is_open(found["queries"])) == (None, None, True)
    assert found["outcomes"] == {"failed": 1, "refused": 2, "waiting": 1}


def test_a_move_under_way_keeps_the_report_open() -> None:
    for phase, replayed in ((Phase.FENCING, 3), (Phase.VERIFYING, None)):
        open_one = done("clicks", phase=phase, outcome=None, ended_at=None, measured=NOTHING)
        found = report([], [done("revenue"), open_one])
        assert (is_open(found["queries"]), found["ended_at"]) == (True, None)
        assert (found["replay_records"], found["longest_pause_seconds"]) == (replayed, None)
    with pytest.raises(ValueError, match="no request and no operation has the group 'group-1'"):
        report([], [])
