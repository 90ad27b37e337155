"""Drivers wait together: one thread queries the store, and wakes those for whom something came."""

import threading
import time
from collections.abc import Hashable, Iterator, Mapping

import pytest

from orchestrator import changes as module
from orchestrator.changes import Changes
from state.errors import StoreUnavailable

LONG = 30.0


class Store:
    """Marks as a test sets them."""

    def __init__(self) -> None:
        self.marks: dict[str, Hashable] = {"one": 0, "two": 0}
        self.away = False
        self.requested = 0

    def change_marks(self) -> Mapping[str, Hashable]:
        self.requested += 1
        if self.away:
            raise StoreUnavailable("away")
        return dict(self.marks)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(module, "_AWAY_SECONDS", 0.001)
    monkeypatch.setattr(module, "_IDLE_SECONDS", LONG)  # nothing is forgotten while a slow machine thinks
    yield Store()
    let_it_end(monkeypatch)


def let_it_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread queries any more."""
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.0)
    for each in threading.enumerate():
        if each.name == "changes":
            each.join(LONG)


def known(changes: Changes, operation: str) -> Hashable:
    """The mark, once there was a look."""
    changes.wait(operation, None, LONG)
    return changes.mark(operation)


def test_a_driver_is_woken_by_what_came_for_it(store: Store) -> None:
    changes = Changes(store)  # type: ignore[arg-type] # all that is needed of a store here
    mark = known(changes, "one")
    threading.Timer(0.02, lambda: store.marks.update(one=1)).start()
    began = time.monotonic()
    changes.wait("one", mark, LONG)
    assert changes.mark("one") == 1
    assert time.monotonic() - began < LONG


def test_news_between_the_mark_and_the_wait_are_not_missed(store: Store) -> None:
    changes = Changes(store)  # type: ignore[arg-type] # as above
    mark = known(changes, "one")
    store.marks["one"] = 1
    changes.wait("one", mark, LONG)
    changes.wait("one", mark, LONG)  # it has been seen in the meantime: nothing is waited for
    assert changes.mark("one") == 1


def test_news_for_another_wakes_no_other_driver(store: Store) -> None:
    changes = Changes(store)  # type: ignore[arg-type] # as above
    mark = known(changes, "one")
    threading.Timer(0.01, lambda: store.marks.update(two=1)).start()
    began = time.monotonic()
    changes.wait("one", mark, 0.1)
    assert changes.mark("one") == mark
    assert time.monotonic() - began >= 0.1


def test_a_store_that_is_away_is_tried_again(store: Store) -> None:
    changes = Changes(store)  # type: ignore[arg-type] # as above
    store.away = True
    threading.Timer(0.02, lambda: setattr(store, "away", False)).start()
    assert known(changes, "one") == 0


def test_many_drivers_cost_one_statement_a_look(store: Store) -> None:
    changes = Changes(store)  # type: ignore[arg-type] # as above
    store.marks = {f"operation-{number}": 0 for number in range(50)}
    waits = [threading.Thread(target=changes.wait, args=(name, 0, 0.3)) for name in store.marks]
    for each in waits:
        each.start()
    looks = [each for each in threading.enumerate() if each.name == "changes"]
    for each in waits:
        each.join()
    assert len(looks) == 1


def test_the_store_is_not_read_while_no_driver_waits(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = Changes(store)  # type: ignore[arg-type] # as above
    known(changes, "one")
    let_it_end(monkeypatch)
    requests = store.requested
    time.sleep(0.02)
    assert store.requested == requests
    changes.wait("one", None, LONG)  # and it begins again
    assert store.requested > requests
