"""What every store promises about the cluster that has a name; memory, SQLite and PostgreSQL alike."""

from dataclasses import replace

import pytest

from state.errors import Conflict
from state.model.entities import Phase
from state.model.pins import Placement
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, EAST_ID, OTHER_ID, SECOND, held, term_of

REPLACED = samples.event(text="east is another cluster", at=AT + SECOND, query=None, operation=None)


def test_the_first_cluster_id_that_is_seen_stays_pinned(store: ControllerStore) -> None:
    assert store.pins() == []
    assert store.pin(samples.pin(), event=samples.event(text="pinned")) == samples.pin()
    other = samples.pin(id=OTHER_ID, pinned_at=AT + SECOND)
    assert store.pin(other, event=samples.event(text="pinned again")) == samples.pin()
    west = samples.pin(cluster="west", id=OTHER_ID)
    store.pin(west, event=samples.event(text="west, too"))
    assert store.pins() == [samples.pin(), west]
    assert [event.text for event in store.history()] == ["pinned", "west, too"]


def test_another_cluster_takes_a_name_over_only_from_the_one_that_has_it(store: ControllerStore) -> None:
    store.pin(samples.pin(), event=samples.event())
    store.adopt(samples.assignment(query="orders"))
    store.adopt(samples.assignment(query="sums", cluster="west"))
    assert store.replace_pin("east", former=OTHER_ID, new=EAST_ID, event=REPLACED) is None
    assert store.replace_pin("west", former=EAST_ID, new=OTHER_ID, event=REPLACED) is None
    stored = store.replace_pin("east", former=EAST_ID, new=OTHER_ID, event=REPLACED)
    left = (Placement("orders", 1, EAST_ID),)
    assert stored == samples.pin(id=OTHER_ID, replaced_at=AT + SECOND, former=left)
    assert store.pins() == [stored]
    assert [event.text for event in store.history()] == ["revenue is held", "east is another cluster"]


def test_who_changes_his_mind_finds_his_queries_at_home(store: ControllerStore) -> None:
    store.pin(samples.pin(), event=samples.event())
    store.adopt(samples.assignment(query="orders"))
    store.replace_pin("east", former=EAST_ID, new=OTHER_ID, event=REPLACED)
    store.adopt(samples.assignment(query="late"))
    back = store.replace_pin("east", former=OTHER_ID, new=EAST_ID, event=REPLACED)
    assert back is not None
    assert back.former == (Placement("late", 1, OTHER_ID),)


def test_no_name_is_taken_over_while_a_query_moves_to_it_or_from_it(store: ControllerStore) -> None:
    term = held(store)
    for cluster in ("east", "west"):
        store.pin(samples.pin(cluster=cluster), event=samples.event())
        with pytest.raises(Conflict, match="operation op-1 moves revenue from east to west"):
            store.replace_pin(cluster, former=EAST_ID, new=OTHER_ID, event=REPLACED)
    assert {pin.id for pin in store.pins()} == {EAST_ID}
    closed = samples.operation(outcome="refused", phase=Phase.ABORTED, ended_at=AT)
    store.record(closed, term=term)
    assert store.replace_pin("west", former=EAST_ID, new=OTHER_ID, event=REPLACED) is not None


def test_a_query_that_is_forgotten_is_left_on_no_cluster(store: ControllerStore) -> None:
    store.pin(samples.pin(), event=samples.event())
    store.adopt(samples.assignment())
    store.adopt(samples.assignment(query="sums"))
    store.replace_pin("east", former=EAST_ID, new=OTHER_ID, event=REPLACED)
    term_of(store)
    store.forget("revenue", reported_at=None, event=samples.event(operation=None))
    (stored,) = store.pins()
    assert stored.former == (Placement("sums", 1, EAST_ID),)
    assert stored.former_of("sums", 1) is not None
    assert stored.former_of("sums", 2) is None, "it was placed anew since"
    assert replace(stored, former=()).former_of("sums", 1) is None
