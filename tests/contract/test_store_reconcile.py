"""What every store promises about a query whose rows were put back to an older copy."""

from dataclasses import replace

import pytest

from state.errors import Conflict
from state.model.entities import Desired, IntentState, Phase
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, held

RUNS = samples.assignment(epoch=7, placed_epoch=6, cluster="west", checkpoint="/checkpoints/new", operation=None)
RECONCILED = samples.event(kind="reconcile", operation=None, epoch=7, text="revenue is taken as it runs")


def test_reconcile_writes_the_running_state_and_closes_the_open_operation(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    store.report_query(samples.fact(epoch=6))
    assert store.reconcile(RUNS, from_epoch=2, event=RECONCILED)
    assert store.assignment("revenue") == RUNS
    assert store.operation("op-1") == samples.operation(outcome="failed", sentence=RECONCILED.text, ended_at=AT)
    assert [intent.state for intent in store.intents("op-1")] == [IntentState.WITHDRAWN]
    assert [event.kind for event in store.history()] == ["held", "reconcile"]
    assert store.hold(
        samples.operation(id="op-2", epoch=8), from_epoch=7, term=term, step=samples.step(operation="op-2"),
        event=samples.event(operation="op-2"),
    )  # fmt: skip


def test_a_row_that_is_gone_is_written_again(store: ControllerStore) -> None:
    store.report_query(samples.fact(epoch=6))
    assert store.reconcile(RUNS, from_epoch=None, event=RECONCILED)
    assert store.assignments() == [RUNS]


@pytest.mark.parametrize("from_epoch", [None, 2])
def test_nothing_is_written_where_the_store_moved_on(store: ControllerStore, from_epoch: int | None) -> None:
    store.adopt(samples.assignment())
    assert not store.reconcile(RUNS, from_epoch=from_epoch, event=RECONCILED)
    assert (store.assignments(), store.history()) == ([samples.assignment()], [])


def test_nothing_is_written_where_what_runs_moved_on(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    store.report_query(samples.fact(epoch=7))
    assert not store.reconcile(RUNS, from_epoch=1, event=RECONCILED)
    assert (store.assignments(), store.history()) == ([samples.assignment()], [])


def test_a_reconciled_epoch_lies_above_the_stored_one(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    with pytest.raises(ValueError, match="does not lie above"):
        store.reconcile(replace(RUNS, epoch=1), from_epoch=1, event=RECONCILED)


@pytest.mark.parametrize("from_epoch", [1, 5, 6])
def test_a_place_that_stays_keeps_the_epoch_that_placed_it(store: ControllerStore, from_epoch: int) -> None:
    store.adopt(samples.assignment())
    for epoch in range(2, from_epoch + 1):
        stored = store.assignment("revenue")
        assert stored is not None
        assert store.reconcile(replace(stored, epoch=epoch), from_epoch=epoch - 1, event=RECONCILED)
    stays = samples.assignment(epoch=7)
    assert store.reconcile(stays, from_epoch=from_epoch, event=RECONCILED)
    assert store.assignment("revenue") == stays


def test_a_reconciled_row_keeps_the_epoch_that_placed_it(store: ControllerStore) -> None:
    held(store)
    assert store.reconcile(replace(RUNS, epoch=3, placed_epoch=2), from_epoch=2, event=RECONCILED)
    assert store.assignment("revenue") == replace(RUNS, epoch=3, placed_epoch=2)


def test_a_new_place_must_say_which_epoch_placed_it(store: ControllerStore) -> None:
    held(store)
    with pytest.raises(Conflict):
        store.reconcile(replace(RUNS, placed_epoch=1), from_epoch=2, event=RECONCILED)
    stored = store.assignment("revenue")
    assert stored is not None
    assert (stored.epoch, len(store.history())) == (2, 1)


def test_reconcile_writes_a_lost_operation_again_and_it_holds_the_query(store: ControllerStore) -> None:
    store.adopt(samples.assignment())
    holds = samples.assignment(epoch=5, desired=Desired.HELD, operation="op-1")
    lost = samples.operation(epoch=5, phase=Phase.ABORTED)
    intent = samples.intent(epoch=5)
    assert store.reconcile(holds, from_epoch=1, event=RECONCILED, operation=lost, intents=[intent])
    assert store.assignment("revenue") == holds
    assert (store.operation("op-1"), store.intents("op-1")) == (lost, [intent])


def test_an_operation_that_came_back_open_can_be_written_down_to_be_undone(store: ControllerStore) -> None:
    held(store)
    stored = store.operations(only_open=True)[0]
    holds = samples.assignment(epoch=5, desired=Desired.HELD, operation=stored.id)
    back = replace(stored, epoch=5, phase=Phase.ABORTED)
    intent = samples.intent(epoch=5, operation=stored.id, id="again", name="release#2")
    assert store.reconcile(holds, from_epoch=2, event=RECONCILED, operation=back, intents=[intent])
    assert (store.operation(stored.id), store.intents(stored.id)[-1]) == (back, intent)


def test_a_driver_from_before_a_reconcile_writes_nothing_over_it(store: ControllerStore) -> None:
    """A driver that read it a moment ago continues, and gets word of it."""
    term = held(store)
    stored = store.operations(only_open=True)[0]
    store.record(stored, term=term, intents=[samples.intent(operation=stored.id)])
    back = replace(stored, epoch=5, phase=Phase.ABORTED)
    holds = samples.assignment(epoch=5, desired=Desired.HELD, operation=stored.id)
    again = samples.intent(epoch=5, operation=stored.id, id="again", name="release#2")
    assert store.reconcile(holds, from_epoch=2, event=RECONCILED, operation=back, intents=[again])
    states = {each.id: each.state for each in store.intents(stored.id)}
    assert states == {"intent-1": IntentState.WITHDRAWN, "again": IntentState.PENDING}
    with pytest.raises(Conflict):
        store.record(replace(stored, sentence="waiting"), term=term)
    assert store.operation(stored.id) == back


def test_an_operation_that_is_closed_is_not_opened_by_reconciling(store: ControllerStore) -> None:
    term = held(store)
    stored = store.operations(only_open=True)[0]
    store.record(replace(stored, outcome="failed", ended_at=samples.AT), term=term)
    holds = samples.assignment(epoch=5, desired=Desired.HELD, operation=stored.id)
    with pytest.raises(Conflict):
        store.reconcile(holds, from_epoch=2, event=RECONCILED, operation=replace(stored, epoch=5))
    assert (row := store.assignment("revenue")) is not None
    assert row.epoch == 2


def test_a_lost_operation_takes_the_place_of_one_that_came_back_open(store: ControllerStore) -> None:
    held(store)
    holds = samples.assignment(epoch=5, desired=Desired.HELD, operation="op-2")
    lost = samples.operation(id="op-2", epoch=5, phase=Phase.ABORTED)
    assert store.reconcile(holds, from_epoch=2, event=RECONCILED, operation=lost)
    assert [each.id for each in store.operations(only_open=True)] == ["op-2"]


def test_a_refused_reconcile_writes_nothing_at_all(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    over = samples.operation(id="op-9", query="late", outcome="done", phase=Phase.SETTLED, ended_at=AT)
    store.record(over, term=term)
    before, events = store.assignments(), store.history()
    with pytest.raises(Conflict):
        store.reconcile(RUNS, from_epoch=2, event=RECONCILED, operation=replace(over, outcome="failed"))
    opened = store.operation("op-1")
    assert opened is not None
    assert opened.is_open
    assert [intent.state for intent in store.intents("op-1")] == [IntentState.PENDING]
    assert (store.assignments(), store.history()) == (before, events)
