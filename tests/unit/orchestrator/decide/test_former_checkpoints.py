"""Which former checkpoints go, and why each of the others stays."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.former_checkpoints import (
    AGAIN,
    Disposition,
    JudgedFormer,
    KeepRules,
    Whereabouts,
    judge_formers,
)
from state.checkpoint_folders import belongs_to, is_of_drill
from state.model.entities import Desired, RunState
from state.model.maintenance import FormerCheckpoint
from state.settings.canonical import canonical_path
from tests.contract.samples import assignment, fact

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BASE = "/cp/revenue"
ACTIVE = f"{BASE}/epoch-9-op-9"
KEEP = KeepRules(age=7 * DAY, newest=1)
ROW = assignment(epoch=9, placed_epoch=9, checkpoint=ACTIVE)
HERE = Whereabouts(
    query="revenue",
    base=BASE,
    assignment=ROW,
    fact=fact(epoch=9, checkpoint=ACTIVE),
    operation=None,
    stranger=None,
    runner="a",
    alive=frozenset({"a", "b"}),
)


def former(epoch: int, age: timedelta = 30 * DAY, **change: Any) -> FormerCheckpoint:
    """Placed by an epoch, and left by the next; epoch 1 is the folder itself."""
    checkpoint = BASE if epoch == 1 else f"{BASE}/epoch-{epoch}-op-{epoch}"
    left = FormerCheckpoint(
        query="revenue", checkpoint=checkpoint, placed_epoch=epoch, left_epoch=epoch + 1, left_at=NOW - age,
        operation=f"op-{epoch + 1}",
    )  # fmt: skip
    return replace(left, **change)


OLD = [former(1), former(2), former(3)]


def fates(judged: list[JudgedFormer]) -> dict[int, Disposition]:
    return {each.former.placed_epoch: each.fate for each in judged}


def only(judged: list[JudgedFormer]) -> JudgedFormer:
    (found,) = [each for each in judged if each.former.placed_epoch == 1]
    return found


def test_old_checkpoints_go_and_the_newest_stays_however_old() -> None:
    found = judge_formers(HERE, OLD, KEEP, NOW)
    assert [each.former.placed_epoch for each in found] == [3, 2, 1], "the newest first"
    assert fates(found) == {3: Disposition.STAYS, 2: Disposition.GOES, 1: Disposition.GOES}
    assert [each.why for each in found] == [
        "it is one of the newest 1 (retention.keep_checkpoints)", "left 30d ago, more than 7d",
        "left 30d ago, more than 7d",
    ]  # fmt: skip
    assert fates(judge_formers(HERE, OLD, replace(KEEP, newest=3), NOW)) == dict.fromkeys((1, 2, 3), Disposition.STAYS)


@pytest.mark.parametrize(
    ("age", "fate"),
    [
        (7 * DAY, Disposition.GOES),
        (7 * DAY - timedelta(microseconds=1), Disposition.STAYS),
        (timedelta(0), Disposition.STAYS),
        (-DAY, Disposition.STAYS),
    ],
)
def test_nothing_younger_than_retention_goes(age: timedelta, fate: Disposition) -> None:
    found = only(judge_formers(HERE, [former(1, age), former(2)], KEEP, NOW))
    assert found.fate is fate
    if age == -DAY:
        assert found.why == "its time is in the future: a clock was set back"


def test_without_a_setting_nothing_goes() -> None:
    found = judge_formers(HERE, OLD, replace(KEEP, age=None), NOW)
    assert fates(found) == dict.fromkeys((1, 2, 3), Disposition.STAYS)
    assert only(found).why == "retention.checkpoints is not set"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"base": None}, "revenue is not declared"),
        ({"assignment": None}, "the store does not say where revenue runs"),
        ({"operation": "op-10"}, "operation op-10 of revenue is open"),
        ({"assignment": replace(ROW, desired=Desired.HELD)}, "restored from an older backup"),
        ({"assignment": replace(ROW, desired=Desired.HELD, epoch=10)}, "revenue is held"),
        ({"fact": fact(epoch=10, checkpoint=ACTIVE)}, "restored from an older backup"),
        ({"fact": fact(epoch=9, checkpoint=f"{BASE}/epoch-8-x")}, "restored from an older backup"),
        ({"stranger": "op-11"}, "restored from an older backup: tideover reconcile revenue"),
        ({"fact": None}, "no runner reports that revenue runs under epoch 9"),
        ({"fact": fact(epoch=8, checkpoint=ACTIVE)}, "no runner reports"),
        ({"fact": fact(epoch=9, checkpoint=ACTIVE, state=RunState.FAILED)}, "no runner reports"),
        ({"fact": fact(epoch=9, checkpoint=ACTIVE, batch=None)}, "no runner reports"),
        ({"runner": None}, "no runner of revenue is alive"),
    ],
)
def test_nothing_goes_while_it_is_not_plain_where_the_query_runs(change: dict[str, Any], why: str) -> None:
    found = judge_formers(replace(HERE, **change), OLD, KeepRules(age=timedelta(0), newest=1), NOW)
    assert Disposition.GOES not in fates(found).values()
    assert why in only(found).why


@pytest.mark.parametrize("path", [ACTIVE, f"{ACTIVE}/", f"file://{ACTIVE}", ACTIVE.replace("/cp", "/./cp/"), BASE])
def test_the_checkpoint_in_use_never_goes_however_it_is_written(path: str) -> None:
    here = replace(
        HERE, assignment=replace(ROW, checkpoint=path), fact=fact(epoch=9, checkpoint=path)
    )  # fmt: skip
    for known in (path, canonical_path(path)):
        found = only(judge_formers(here, [former(1, checkpoint=known), former(2)], KEEP, NOW))
        assert (found.fate, found.why) == (Disposition.STAYS, "revenue uses it")


@pytest.mark.parametrize(
    "path",
    ["/etc", "/cp", "/cp/revenue2/epoch-2-op-2", f"{BASE}/other", f"{BASE}/epoch-2-op-2/state", "/cp/revenue/../x",
     f"{BASE}/epoch-2-op-2/../../../etc", "hdfs://names/cp/revenue", "/epoch-2-op-2"],
)  # fmt: skip
def test_nothing_outside_the_folder_of_the_query_goes(path: str) -> None:
    found = only(judge_formers(HERE, [former(1, checkpoint=path), former(2)], KEEP, NOW))
    assert (found.fate, found.why) == (
        Disposition.STAYS, f"it is outside {BASE}, the checkpoint folder in the configuration",
    )  # fmt: skip


def test_a_cleaning_is_not_ordered_again_while_its_runner_lives() -> None:
    requested = former(1, runner="b", asked_at=NOW)
    found = only(judge_formers(HERE, [requested, former(2)], KEEP, NOW))
    assert (found.fate, found.why) == (Disposition.ORDERED, "waiting for runner b to clean it")
    assert only(judge_formers(HERE, [replace(requested, runner="z"), former(2)], KEEP, NOW)).fate is Disposition.GOES


def test_a_cleaned_checkpoint_does_not_count_among_the_newest() -> None:
    cleaned = former(3, runner="a", asked_at=NOW, cleaned_at=NOW, files=12, bytes=3_000)
    found = judge_formers(HERE, [former(1), former(2), cleaned], KEEP, NOW)
    assert fates(found) == {3: Disposition.CLEANED, 2: Disposition.STAYS, 1: Disposition.GOES}
    assert found[0].why == "12 files deleted; its last batch and its fence are kept"


def test_a_runner_that_could_not_clean_tries_a_day_later_or_by_hand() -> None:
    refused = former(1, runner="a", asked_at=NOW - AGAIN + timedelta(seconds=1), refused="no fence holds it")
    known = [refused, former(2)]
    found = only(judge_formers(HERE, known, KEEP, NOW))
    assert (found.fate, found.why) == (Disposition.STAYS, "runner a could not clean it: no fence holds it")
    assert only(judge_formers(HERE, known, KEEP, NOW, requested_by_hand=True)).fate is Disposition.GOES
    assert only(judge_formers(HERE, known, KEEP, NOW + timedelta(seconds=1))).fate is Disposition.GOES


EPOCHS = st.lists(st.integers(1, 8), unique=True, max_size=8)
AGES = st.integers(-3, 20)


@given(EPOCHS, st.lists(AGES, min_size=8, max_size=8), st.integers(1, 4), st.integers(0, 10), st.integers(1, 9))
def test_whatever_was_left_the_active_one_the_young_and_the_newest_stay(
    epochs: list[int], ages: list[int], newest: int, days: int, active: int
) -> None:
    known = [former(epoch, ages[epoch - 1] * DAY) for epoch in epochs]
    in_use = former(active).checkpoint
    here = replace(
        HERE, assignment=replace(ROW, checkpoint=in_use), fact=fact(epoch=9, checkpoint=in_use)
    )  # fmt: skip
    going = [
        each.former
        for each in judge_formers(here, known, KeepRules(age=days * DAY, newest=newest), NOW)
        if each.fate is Disposition.GOES
    ]
    assert in_use not in {each.checkpoint for each in going}
    assert all(NOW - each.left_at >= days * DAY for each in going)
    assert {each.placed_epoch for each in going}.isdisjoint(sorted(epochs)[-newest:])


# -- folders ---------------------------------------------------------------------------------------------------------
def test_a_move_makes_its_folders_in_that_of_the_query() -> None:
    assert belongs_to("file:///cp/revenue/epoch-2-op-2-3/", "/cp/revenue")
    assert belongs_to("hdfs://names/cp/epoch-2-op", "hdfs://names/cp/")
    assert not belongs_to("hdfs://other/cp/epoch-2-op", "hdfs://names/cp")
    assert belongs_to("s3://Bucket/cp/epoch-2-op", "s3a://bucket/cp/")
    assert belongs_to("/epoch-2-op", "file:///")
    assert not belongs_to("/cp/revenue", "")
    assert not belongs_to("/cp/x/../revenue", "/cp/revenue"), "behind a link that is another folder"


def test_a_drill_throws_its_folder_away_however_the_bucket_is_spelled() -> None:
    assert is_of_drill("s3://bucket/cp/drill-op-2", "s3a://bucket/cp", "op-2")
    assert not is_of_drill("s3://bucket/cp/drill-op-3", "s3a://bucket/cp", "op-2")


@pytest.mark.parametrize("spelling", ["s3://bucket/cp/epoch-1-op-1", "S3A://Bucket//cp/epoch-1-op-1/"])
def test_a_checkpoint_in_use_under_another_scheme_of_its_store_stays(spelling: str) -> None:
    row, report = replace(ROW, checkpoint=spelling), fact(epoch=9, checkpoint=spelling)
    here = replace(HERE, base="s3a://bucket/cp", assignment=row, fact=report)
    known = former(1, checkpoint="s3a://bucket/cp/epoch-1-op-1")
    found = only(judge_formers(here, [known, former(2, checkpoint="s3a://bucket/cp/epoch-2-op-2")], KEEP, NOW))
    assert (found.fate, found.why) == (Disposition.STAYS, "revenue uses it")
