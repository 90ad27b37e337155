"""How many records of an earlier exposure lie before a place: where they begin, where it is, and what was read."""

import pytest

from orchestrator.decide.move.left_behind import left_behind
from state.model.plan import Plan
from tests.contract import samples
from tests.contract.samples import place


def left_of(at: int | None, *, read_to: int, records: int | None, first: int | None) -> list[int | None]:
    """What is said of the one partition of a cluster, to which the query comes back at that offset."""
    row = {"source": "s", "topic": "t", "partition": 0, "target_topic": "t", "target_partition": 0, "offset": read_to}
    measured = {"source": "s", "topic": "t", "partition": 0, "exposed": records, "exposed_from": first}
    plan = Plan.of({"partitions": [row], "followed": {"partitions": [measured]}})
    return [each.records for each in left_behind(samples.operation(plan=plan), [place(target_offset=at)])]


@pytest.mark.parametrize(
    ("at", "read_to", "records", "first", "expected"),
    [
        (200, 90, 10, 100, [10]),
        (110, 90, 10, 100, [10]),
        (109, 90, 10, 100, [9]),
        (101, 90, 10, 100, [1]),
        (100, 90, 10, 100, []),
        (200, 104, 10, 100, [6]),
        (200, 110, 10, 100, []),
        (90, 90, None, None, []),
        (91, 90, None, None, [None]),
        (None, 90, 10, 100, []),
        (200, 90, 0, None, []),
        (200, 90, 0, 100, []),
    ],
)
def test_only_what_lies_between_the_last_record_read_and_the_place_counts(
    at: int | None, read_to: int, records: int | None, first: int | None, expected: list[int | None]
) -> None:
    assert left_of(at, read_to=read_to, records=records, first=first) == expected


def test_a_number_in_doubt_has_two_bounds() -> None:
    row = {"source": "s", "topic": "t", "partition": 0, "target_topic": "t", "target_partition": 0, "offset": 90}
    doubt = {"exposed": None, "exposed_from": 100, "exposed_at_least": 5, "exposed_at_most": 300}
    measured = {"source": "s", "topic": "t", "partition": 0, **doubt}
    left = samples.operation(plan=Plan.of({"partitions": [row], "followed": {"partitions": [measured]}}))
    (found,) = left_behind(left, [place(target_offset=350)])
    assert (found.row.at_least, found.row.records) == (5, 250)
    assert "5 to 250 records that west lacked" in found.note
    assert found.row.as_json()["at_least"] == 5


def test_a_query_that_never_left_the_cluster_has_left_nothing_behind() -> None:
    assert left_behind(None, [place()]) == ()
