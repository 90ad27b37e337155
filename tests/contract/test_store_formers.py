"""What every store promises about the checkpoints that queries have left; memory, SQLite and PostgreSQL alike."""

from dataclasses import replace
from datetime import timedelta

import pytest

from state.errors import Conflict, StaleTerm
from state.model.entities import Desired, Phase
from state.model.maintenance import CleanedFiles, FormerCheckpoint, PrunedRows
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held, term_of

BASE, NEW = "/checkpoints/revenue", "/checkpoints/revenue/epoch-2-op-1"
LEFT = FormerCheckpoint(query="revenue", checkpoint=BASE, placed_epoch=1, left_epoch=2, left_at=AT, operation="op-1")
ORDERED = samples.event(text="asked")
ANSWER = samples.event(text="answered")


def moved(store: ControllerStore, checkpoint: str = NEW) -> int:
    """A query that one move has carried on; returns the term."""
    term = held(store)
    placed = samples.assignment(epoch=2, placed_epoch=2, cluster="west", checkpoint=checkpoint, operation="op-1")
    done = samples.operation(phase=Phase.SETTLED, outcome="done", ended_at=AT)
    assert store.place(placed, operation=done, from_epoch=2, term=term, steps=[], event=samples.event())
    return term


def texts(store: ControllerStore) -> list[str]:
    return [event.text for event in store.history()]


# -- kept ------------------------------------------------------------------------------------------------------------
def test_a_move_keeps_what_it_leaves(store: ControllerStore) -> None:
    moved(store)
    assert store.formers() == store.formers("revenue") == [LEFT]
    assert store.formers("late") == []


def test_a_slash_at_the_end_makes_no_other_checkpoint(store: ControllerStore) -> None:
    for epoch, checkpoint in ((2, f"{NEW}/"), (4, BASE)):
        store.adopt(samples.assignment(checkpoint=f"{BASE}/"))
        (row,) = store.assignments()
        runs = samples.assignment(epoch=epoch, placed_epoch=epoch, checkpoint=checkpoint, operation=None)
        assert store.reconcile(runs, from_epoch=row.epoch, event=samples.event())
    assert [each.checkpoint for each in store.formers()] == [NEW]


def test_a_hold_and_a_way_back_leave_nothing(store: ControllerStore) -> None:
    term = held(store)
    back = samples.assignment(epoch=3, operation="op-1")
    aborted = samples.operation(epoch=3, phase=Phase.ABORTED)
    assert store.place(back, operation=aborted, from_epoch=2, term=term, steps=[], event=samples.event())
    assert store.formers() == []


def test_a_move_that_was_refused_leaves_nothing(store: ControllerStore) -> None:
    term = held(store)
    placed = samples.assignment(epoch=3, placed_epoch=3, checkpoint=NEW)
    wanted = samples.operation(epoch=3)
    assert not store.place(placed, operation=wanted, from_epoch=3, term=term, steps=[], event=samples.event())
    with pytest.raises(Conflict):
        store.place(replace(placed, placed_epoch=1), operation=wanted, from_epoch=2, term=term, steps=[], event=ORDERED)
    assert store.formers() == []


def test_a_checkpoint_in_use_again_is_no_former_one(store: ControllerStore) -> None:
    moved(store)
    runs = samples.assignment(epoch=7, placed_epoch=6, checkpoint=f"{BASE}/", operation=None)
    assert store.reconcile(runs, from_epoch=2, event=samples.event(at=AT + SECOND))
    left = FormerCheckpoint(
        query="revenue", checkpoint=NEW, placed_epoch=2, left_epoch=7, left_at=AT + SECOND, operation=None
    )  # fmt: skip
    assert store.formers() == [left]


def test_another_spelling_of_a_checkpoint_in_use_is_no_former_one(store: ControllerStore) -> None:
    places = ("s3a://bucket/cp", "/elsewhere", "s3://bucket/cp/", "file:///elsewhere/")
    store.adopt(samples.assignment(checkpoint=places[0]))
    for epoch, checkpoint in enumerate(places[1:], start=2):
        runs = samples.assignment(epoch=epoch, placed_epoch=epoch, checkpoint=checkpoint, operation=None)
        assert store.reconcile(runs, from_epoch=epoch - 1, event=samples.event())
    assert [(each.checkpoint, each.left_epoch) for each in store.formers()] == [("s3://bucket/cp", 4)]


def test_a_checkpoint_that_is_left_again_starts_a_new_age(store: ControllerStore) -> None:
    moved(store)
    assert store.request_cleaning(LEFT, runner="a", epoch=2, event=ORDERED)
    for epoch, checkpoint in ((4, BASE), (6, NEW)):
        runs = samples.assignment(epoch=epoch, placed_epoch=epoch - 1, checkpoint=checkpoint, operation=None)
        assert store.reconcile(runs, from_epoch=epoch - 2, event=samples.event(at=AT + epoch * SECOND))
    (again,) = store.formers()
    assert (again.checkpoint, again.left_epoch, again.left_at) == (BASE, 6, AT + 6 * SECOND)
    assert (again.runner, again.asked_at, store.to_clean("a")) == (None, None, [])
    assert not store.request_cleaning(LEFT, runner="a", epoch=6, event=ORDERED), "from what was seen before"


# -- requested and answered ------------------------------------------------------------------------------------------
def test_one_runner_gets_a_cleaning_and_answers_it_once(store: ControllerStore) -> None:
    term = moved(store)
    before = store.now()
    assert store.request_cleaning(LEFT, runner="a", epoch=2, event=ORDERED, term=term)
    (requested,) = store.to_clean("a")
    assert replace(requested, asked_at=None) == replace(LEFT, runner="a")
    assert requested.asked_at is not None
    assert requested.asked_at >= before
    assert (store.to_clean("b"), requested.is_requested) == ([], True)
    assert store.report_cleaned(requested, CleanedFiles(12, 3_000), event=ANSWER)
    (cleaned,) = store.formers()
    assert (cleaned.files, cleaned.bytes, cleaned.refused, cleaned.is_requested) == (12, 3_000, None, False)
    assert cleaned.cleaned_at is not None
    assert not store.report_cleaned(requested, CleanedFiles(0, 0), event=ANSWER)
    assert not store.request_cleaning(cleaned, runner="b", epoch=2, event=ORDERED)
    assert (texts(store).count("asked"), texts(store).count("answered")) == (1, 1)


def test_a_runner_that_could_not_clean_says_why_and_another_may_try(store: ControllerStore) -> None:
    moved(store)
    assert store.request_cleaning(LEFT, runner="a", epoch=2, event=ORDERED)
    (first,) = store.to_clean("a")
    assert store.report_cleaned(first, "it is not fenced", event=ANSWER)
    (refused,) = store.formers()
    assert (refused.refused, refused.cleaned_at, store.to_clean("a")) == ("it is not fenced", None, [])
    assert store.request_cleaning(refused, runner="b", epoch=2, event=ORDERED)
    assert not store.report_cleaned(first, CleanedFiles(1, 1), event=ANSWER), "b was asked since"
    (second,) = store.to_clean("b")
    assert second.refused is None


def test_no_cleaning_is_ordered_from_an_outdated_view(store: ControllerStore) -> None:
    moved(store)
    assert store.request_cleaning(LEFT, runner="a", epoch=2, event=ORDERED)
    assert not store.request_cleaning(LEFT, runner="b", epoch=2, event=ORDERED)
    assert not store.request_cleaning(replace(LEFT, checkpoint="/etc"), runner="b", epoch=2, event=ORDERED)
    assert [each.runner for each in store.formers()] == ["a"]
    assert texts(store).count("asked") == 1


@pytest.mark.parametrize("epoch", [1, 3])
def test_no_cleaning_is_ordered_for_a_query_that_is_elsewhere(store: ControllerStore, epoch: int) -> None:
    moved(store)
    assert not store.request_cleaning(LEFT, runner="a", epoch=epoch, event=ORDERED)


def test_no_cleaning_is_ordered_while_a_query_is_held_or_moved(store: ControllerStore) -> None:
    term = moved(store)
    under_way = samples.operation(id="op-2", epoch=3)
    step = samples.step(operation="op-2")
    assert store.hold(under_way, from_epoch=2, term=term, step=step, event=samples.event(operation="op-2"))
    assert not store.request_cleaning(LEFT, runner="a", epoch=3, event=ORDERED)
    started = samples.assignment(epoch=3, placed_epoch=3, checkpoint="/checkpoints/revenue/epoch-3-op-2")
    assert started.desired is Desired.RUNNING
    assert store.place(started, operation=under_way, from_epoch=3, term=term, steps=[], event=samples.event())
    assert not store.request_cleaning(LEFT, runner="a", epoch=3, event=ORDERED), "it is open still"
    assert "asked" not in texts(store)


def test_a_stale_leader_orders_no_cleaning(store: ControllerStore) -> None:
    stale = moved(store)
    term_of(store, "another")
    with pytest.raises(StaleTerm):
        store.request_cleaning(LEFT, runner="a", epoch=2, event=ORDERED, term=stale)
    assert store.formers() == [LEFT]


# -- forgotten -------------------------------------------------------------------------------------------------------
def test_a_row_goes_by_age_once_its_checkpoint_was_cleaned(store: ControllerStore) -> None:
    term = moved(store)
    just_now, an_hour_ago = timedelta(microseconds=1), timedelta(hours=1)
    assert store.prune(store.now() - just_now, keep=1, limit=10, term=term).checkpoints == 0, "however old it is"
    store.request_cleaning(LEFT, runner="a", epoch=2, event=ORDERED)
    store.report_cleaned(store.to_clean("a")[0], CleanedFiles(1, 1), event=ANSWER)
    assert store.prune(store.now() - an_hour_ago, keep=1, limit=10, term=term).checkpoints == 0, "it is young"
    assert store.prune(store.now() - just_now, keep=1, limit=10, term=term).checkpoints == 1
    assert store.formers() == []


def test_prunable_counts_rows_and_deletes_nothing(store: ControllerStore) -> None:
    term = moved(store)
    store.request_cleaning(LEFT, runner="a", epoch=2, event=samples.event(operation=None))
    store.report_cleaned(store.to_clean("a")[0], CleanedFiles(1, 1), event=samples.event(operation=None))
    before = store.now() - timedelta(microseconds=1)
    wanted = PrunedRows(events=2, checkpoints=1)
    for _ in range(2):
        assert store.prunable(before, keep=1, limit=10) == wanted
    assert len(store.formers()) == 1
    assert store.prune(before, keep=1, limit=10, term=term) == wanted
    assert store.prunable(before, keep=1, limit=10) == PrunedRows()
    with pytest.raises(ValueError, match="past"):
        store.prunable(store.now() + SECOND, keep=1, limit=1)
