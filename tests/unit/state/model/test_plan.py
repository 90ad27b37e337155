"""A plan is parsed and written again without a change: those that operations kept, older ones, and newer ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import Damaged
from state.model.plan import AwaitedPartition, FollowedPartition, Plan, PlannedPartition, Totals, Witness

KEPT: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "cases" / "plans.json").read_text(encoding="utf-8")
)
"""Plans as operations of every kind kept them, before there was a type for them."""
BOUND = {"exposure_records": 900, "exposure_seconds": 45.0, "replay_later_records": None}
MORE: dict[str, Any] = {
    "buffers": [{"topic": "orders", "buffer_ms": 41_100, "measured": True, "text": "41.1 s measured"}],
    "in_run": {"run_id": "held", "otherwise_repeats": 40},
    "after": ["clean"],
    "wave": 2,
    "totals": {**KEPT[0]["totals"], "at_most": BOUND},
    "partitions": [{**KEPT[0]["partitions"][0], "at_most": BOUND}],
}
"""What none of them has."""


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept["kind"]))
def test_a_plan_is_written_as_it_was_read(kept: dict[str, Any]) -> None:
    for row in (kept, kept | MORE):
        assert json.loads(json.dumps(Plan.of(row).as_json())) == row


def objects(value: Any) -> list[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, list):
        return [found for each in value for found in objects(each)]
    if not isinstance(value, dict):
        return []
    return [value, *(found for each in value.values() for found in objects(each))]


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: str(kept["kind"]))
def test_keys_of_a_newer_program_are_kept(kept: dict[str, Any]) -> None:
    newer = json.loads(json.dumps(kept | MORE))
    for each in objects(newer):
        each["a key of tomorrow"] = {"and": ["its", 1, None]}
    assert json.loads(json.dumps(Plan.of(newer).as_json())) == newer


@given(st.sampled_from(KEPT), st.data())
def test_a_plan_that_lacks_a_key_leaves_it_unknown(kept: dict[str, Any], data: st.DataObject) -> None:
    older = dict(kept)
    del older[data.draw(st.sampled_from(sorted(older)))]
    written = Plan.of(older).as_json()
    assert {key: written[key] for key in older} == older
    assert all(
        value in (None, "", False, [], {}) or key == "totals" for key, value in written.items() if key not in older
    )


def test_nothing_is_known_of_a_plan_without_any_key() -> None:
    nothing = Plan.of({})
    assert (nothing.partitions, nothing.followed, nothing.totals) == ((), None, Totals())
    assert set(nothing.totals.as_json().values()) == {None}


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ({"followed": {"partitions": [{"topic": "orders", "partition": 0}]}}, "source"),
        ({"gates": [{"name": "a"}]}, "ok"),
        ({"partitions": 3}, "Plan"),
        ({"partitions": [3]}, "PlannedPartition"),
        ({"awaited": [{"source": "s", "topic": "t", "partition": 0, "records": ["12"]}]}, "AwaitedPartition"),
    ],
)
def test_a_plan_that_is_damaged_is_refused_by_what_is_wrong(row: dict[str, Any], names: str) -> None:
    if "awaited" in row:
        row["awaited"][0]["records"] = ["no time:00"]
    with pytest.raises(Damaged, match=names):
        Plan.of(row)


def test_a_partition_is_known_on_both_clusters() -> None:
    row = PlannedPartition(source="s", topic="t", partition=1, target_topic="east.t", target_partition=2)
    assert (row.left, row.key) == (("s", "t", 1), ("s", "east.t", 2))
    assert FollowedPartition(source="s", topic="east.t", partition=2).key == row.key
    assert AwaitedPartition(source="s", topic="east.t", partition=2).key == row.key


def test_a_witness_is_one_word_in_the_store() -> None:
    assert Witness(1000, b"\x01\xff", 3).as_json() == "1000:01ff:3"
    assert Witness.of("1000:01ff:3") == Witness(1000, b"\x01\xff", 3)


def test_bounds_of_an_exposure_are_written_once_it_was_looked_for() -> None:
    followed = FollowedPartition(source="s", topic="t", partition=0)
    assert "exposed_to" not in followed.as_json()
    looked = FollowedPartition(source="s", topic="t", partition=0, exposed_from=4, exposed_to=9, exposed_at_most=5)
    assert looked.as_json() | {"exposed": None, "exposed_at_least": None} == looked.as_json()
