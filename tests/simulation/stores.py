"""Stores with faults: one whose process dies at a write, one whose answer is lost, one that is away; and backups."""

from collections.abc import Callable, Collection
from typing import Any

import sqlalchemy as sa

from state.errors import RowRefused, StoreUnavailable
from state.store.controller_store import ControllerStore
from state.store.sql.database import Noun
from tests.memory_store import MemoryStore

CONTROLLERS = frozenset(
    {
        "add_request",
        "answer",
        "hold",
        "place",
        "record",
        "consent",
        "report",
        "note",
        "lead",
        "resign",
        "seize",
        "keep_evidence",
        "record_status",
    }
)
"""Writes of a controller."""
RUNNERS = frozenset({"register", "unregister", "report_query", "report", "save_positions", "save_ends"})
"""Writes of a runner."""


class Crash(BaseException):
    """The process died: nothing catches this."""


class CrashingStore:
    """A store whose process dies right after its n-th write; a write that says it wrote nothing does not count."""

    def __init__(self, store: ControllerStore, after: int | None, *, verbs: Collection[str] = CONTROLLERS) -> None:
        self._store = store
        self._after = after
        self._verbs = verbs
        self.writes: list[str] = []

    def die_after(self, writes: int) -> None:
        """Count again from now on."""
        self.writes.clear()
        self._after = writes

    def _fail(self, name: str) -> None:
        raise Crash(name)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name not in self._verbs:
            return verb

        def written(*args: object, **kwargs: Any) -> object:
            result = verb(*args, **kwargs)
            if result is False or (name in {"lead", "keep_evidence"} and result is None):
                return result
            self.writes.append(name)
            if self._after is not None and len(self.writes) == self._after:
                self._fail(name)
            return result

        return written


class DoubtfulStore(CrashingStore):
    """A store that writes its n-th write and says that it is away: the caller cannot know."""

    def _fail(self, name: str) -> None:
        raise StoreUnavailable(f"the connection was lost while {name} was answered")


class FrozenStore:
    """A store whose process freezes once, right before it uses this verb; in the meantime others act."""

    def __init__(self, store: ControllerStore, name: str, in_between: Callable[[], None], *, after: int = 0) -> None:
        self._store = store
        self._name = name
        self._in_between = in_between
        self._after = after

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            self._after -= 1
            if self._after == -1:
                self._in_between()
        return getattr(self._store, name)


class RefusingStore:
    """A store that is well, and refuses one verb of one query: by the query's name, or of a row of it."""

    def __init__(self, store: ControllerStore, verb: str, query: str, error: RowRefused) -> None:
        self._store = store
        self._verb = verb
        self._query = query
        self._error = error
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name != self._verb:
            return verb

        def requested(*args: Any, **kwargs: Any) -> object:
            if self._query == (getattr(args[0], "query", args[0]) if args else kwargs.get("query")):
                self.refused += 1
                raise self._error
            return verb(*args, **kwargs)

        return requested


class AwayStore:
    """A store that can be taken away: every verb fails while it is."""

    def __init__(self, store: ControllerStore) -> None:
        self._store = store
        self.away = False

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        def requested(*args: object, **kwargs: Any) -> object:
            if self.away:
                raise StoreUnavailable("the database does not answer")
            return verb(*args, **kwargs)

        return requested


def back_up(store: ControllerStore) -> Callable[[], None]:
    """Copy a store in memory; what is returned puts the copy back in its place."""
    assert isinstance(store, MemoryStore)
    return store.back_up()


def force(store: ControllerStore, table: sa.Table, row: Noun) -> None:
    """Write a row into a store in memory, past its guards."""
    assert isinstance(store, MemoryStore)
    store.force(table, row)
