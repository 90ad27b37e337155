"""What every store promises about pauses and acknowledgements."""

from dataclasses import replace
from datetime import timedelta

import pytest

from state.errors import Conflict
from state.model.automation import EVERY, Acknowledgement, Pause
from state.store.controller_store import ControllerStore
from tests.contract import samples
from tests.contract.samples import AT, SECOND, held

PAUSE = Pause(scope="revenue", since=AT, until=None, reason="broker upgrade", actor="ann@desk")
HOUR = timedelta(hours=1)
SEEN = Acknowledgement(operation="op-1", query="revenue", actor="ann@desk", reason="looked at it", at=AT)


def kinds(store: ControllerStore) -> list[str]:
    return [event.kind for event in store.history()]


def test_a_pause_holds_until_it_is_resumed_and_is_kept_with_its_end(store: ControllerStore) -> None:
    store.pause(PAUSE, event=samples.event(kind="pause", operation=None))
    assert store.pauses() == [PAUSE]
    ended = store.resume("revenue", at=AT + SECOND, event=samples.event(kind="resume", operation=None))
    assert ended == replace(PAUSE, resumed_at=AT + SECOND)
    assert store.pauses() == [ended]
    assert kinds(store) == ["pause", "resume"]


def test_nothing_is_resumed_or_noted_where_no_pause_is_in_force(store: ControllerStore) -> None:
    event = samples.event(kind="resume", operation=None)
    assert store.resume("revenue", at=AT, event=event) is None
    store.pause(replace(PAUSE, until=AT + HOUR), event=samples.event(kind="pause", operation=None))
    assert store.resume(EVERY, at=AT + SECOND, event=event) is None
    assert store.resume("revenue", at=AT + HOUR, event=event) is None
    assert store.resume("revenue", at=AT + SECOND, event=event) is not None
    assert store.resume("revenue", at=AT + 2 * SECOND, event=event) is None
    assert kinds(store) == ["pause", "resume"]


def test_a_resumed_pause_stays_ended_when_the_clock_is_set_back(store: ControllerStore) -> None:
    store.pause(PAUSE, event=samples.event(kind="pause", operation=None))
    ended = store.resume("revenue", at=AT + HOUR, event=samples.event(kind="resume", operation=None))
    assert ended is not None
    assert not ended.is_in_force(AT)
    assert store.resume("revenue", at=AT, event=samples.event(kind="resume", operation=None)) is None


def test_a_new_pause_replaces_the_one_of_its_scope_and_no_other(store: ControllerStore) -> None:
    everything = replace(PAUSE, scope=EVERY, until=AT + HOUR)
    longer = replace(PAUSE, since=AT + SECOND, until=AT + 2 * HOUR, reason="it takes longer")
    for pause in (PAUSE, everything):
        store.pause(pause, event=samples.event(kind="pause"))
    store.resume("revenue", at=AT + SECOND, event=samples.event(kind="resume"))
    store.pause(longer, event=samples.event(kind="pause"))
    assert store.pauses() == [everything, longer]


@pytest.mark.parametrize(("scope", "until"), [("", None), ("revenue", AT), ("revenue", AT - SECOND)])
def test_a_pause_that_makes_no_sense_is_not_written(store: ControllerStore, scope: str, until: object) -> None:
    with pytest.raises(ValueError, match="pause"):
        store.pause(replace(PAUSE, scope=scope, until=until), event=samples.event())  # type: ignore[arg-type] # a table
    assert (store.pauses(), store.history()) == ([], [])


def test_an_operation_is_acknowledged_once(store: ControllerStore) -> None:
    held(store)
    assert store.acknowledge(SEEN, event=samples.event(kind="ack"))
    assert not store.acknowledge(replace(SEEN, actor="bob@desk"), event=samples.event(kind="ack"))
    assert store.acknowledgements("revenue") == [SEEN]
    assert store.acknowledgements("other") == []
    assert kinds(store) == ["held", "ack"]


def test_acknowledgements_come_newest_first(store: ControllerStore) -> None:
    term = held(store)
    store.record(samples.operation(outcome="done"), term=term)
    store.record(samples.operation(id="op-2", outcome="done"), term=term)
    later = replace(SEEN, operation="op-2", at=AT + SECOND)
    for given in (SEEN, later):
        assert store.acknowledge(given, event=samples.event(kind="ack"))
    assert store.acknowledgements("revenue") == [later, SEEN]


@pytest.mark.parametrize("given", [replace(SEEN, operation="op-9"), replace(SEEN, query="other")])
def test_an_operation_that_is_not_the_querys_is_not_acknowledged(
    store: ControllerStore, given: Acknowledgement
) -> None:
    held(store)
    with pytest.raises(Conflict):
        store.acknowledge(given, event=samples.event(kind="ack"))
    assert store.acknowledgements(given.query) == []
    assert kinds(store) == ["held"]
