"""What every store promises about schedules: requested once, by the leader, and never after a cancellation."""

from dataclasses import replace
from datetime import timedelta

import pytest

from state.errors import Conflict, StaleTerm
from state.model.automation import Schedule
from state.model.maintenance import PrunedRows
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, term_of

DAY = timedelta(days=1)
NOTED = samples.event(kind="schedule", operation=None)


def added(store: ControllerStore, **change: object) -> Schedule:
    schedule = samples.schedule(**change)
    store.add_schedule(schedule, event=NOTED)
    return schedule


def test_schedules_come_soonest_first_and_those_that_are_over_last(store: ControllerStore) -> None:
    late, over, soon = (
        added(store, id=name, next_at=at) for name, at in (("a", AT + DAY), ("b", None), ("c", AT + SECOND))
    )
    assert store.schedules() == [soon, late, over]
    assert [event.kind for event in store.history()] == ["schedule"] * 3


def test_the_same_schedule_twice_is_one_and_another_is_a_conflict(store: ControllerStore) -> None:
    schedule = added(store)
    store.add_schedule(schedule, event=NOTED)
    with pytest.raises(Conflict, match="s-1"):
        store.add_schedule(replace(schedule, target="east"), event=NOTED)
    assert (store.schedules(), len(store.history())) == ([schedule], 1)


def test_a_schedule_that_is_due_makes_one_request(store: ControllerStore) -> None:
    schedule, term = added(store), term_of(store)
    request = samples.request(id="r-1")
    fired = [
        store.fire(schedule, next_at=AT + DAY, outcome="asked", requested=[request], event=NOTED, term=term)
        for _ in range(2)
    ]
    assert fired == [True, False]
    assert store.open_requests() == [request]
    assert store.schedules() == [
        replace(schedule, next_at=AT + DAY, last_at=schedule.next_at, last_outcome="asked"),
    ]
    assert len(store.history()) == 2


def test_a_schedule_and_its_requests_are_written_together(store: ControllerStore) -> None:
    schedule, term = added(store), term_of(store)
    store.add_request(samples.request(id="taken"))
    with pytest.raises(Conflict):
        store.fire(schedule, next_at=None, outcome="x", requested=[samples.request(id="taken")], event=NOTED, term=term)
    assert store.schedules() == [schedule]


def test_a_schedule_makes_no_request_under_an_old_term(store: ControllerStore) -> None:
    schedule, term = added(store), term_of(store)
    term_of(store, "two")
    with pytest.raises(StaleTerm):
        store.fire(schedule, next_at=None, outcome="x", requested=[samples.request()], event=NOTED, term=term)
    assert (store.schedules(), store.open_requests()) == ([schedule], [])


def test_a_cancelled_schedule_makes_no_more_requests(store: ControllerStore) -> None:
    schedule, term = added(store), term_of(store)
    assert store.cancel_schedule("s-1", actor="bob@desk", event=NOTED)
    assert not store.cancel_schedule("s-1", actor="bob@desk", event=NOTED)
    assert not store.cancel_schedule("no such", actor="bob@desk", event=NOTED)
    assert not store.fire(schedule, next_at=None, outcome="x", requested=[samples.request()], event=NOTED, term=term)
    assert store.schedules() == [replace(schedule, next_at=None, cancelled_by="bob@desk")]
    assert len(store.history()) == 2


def test_schedules_that_are_over_are_forgotten_by_age(store: ControllerStore) -> None:
    term = term_of(store)
    added(store, id="old and over", next_at=None)
    young = added(store, id="over since today", next_at=None, last_at=store.now())
    standing = added(store, id="old and standing", next_at=AT + DAY)
    gone = store.prune(store.now() - DAY, keep=1, limit=10, term=term)
    assert gone == PrunedRows(events=gone.events, schedules=1)
    assert store.schedules() == [standing, young]
