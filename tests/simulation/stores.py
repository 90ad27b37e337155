"""Stores with faults: one whose process dies at a write, one whose answer is lost, one that is away; and backups."""

import copy
from collections.abc import Callable, Collection

from state.errors import StoreUnavailable
from state.memory import MemoryStore
from state.ports import Store

CONTROLLERS = frozenset(
    {"ask", "answer", "hold", "place", "record", "consent", "report", "note", "lead", "resign", "seize", "believe"}
)
"""Writes of a controller."""
RUNNERS = frozenset({"register", "unregister", "report_query", "report", "save_positions", "save_ends"})
"""Writes of a runner."""


class Crash(BaseException):
    """The process died: nothing catches this."""


class CrashingStore:
    """A store whose process dies right after its n-th write; a write that says it wrote nothing does not count."""

    def __init__(self, store: Store, after: int | None, *, verbs: Collection[str] = CONTROLLERS) -> None:
        self._store = store
        self._after = after
        self._verbs = verbs
        self.writes: list[str] = []

    def die_after(self, writes: int) -> None:
        """Count anew from now on."""
        self.writes.clear()
        self._after = writes

    def _fail(self, name: str) -> None:
        raise Crash(name)

    def __getattr__(self, name: str) -> object:
        verb = getattr(self._store, name)
        if name not in self._verbs:
            return verb

        def written(*args: object, **kwargs: object) -> object:
            result = verb(*args, **kwargs)
            if result is False or (name == "lead" and result is None):
                return result
            self.writes.append(name)
            if self._after is not None and len(self.writes) == self._after:
                self._fail(name)
            return result

        return written


class DoubtfulStore(CrashingStore):
    """A store that writes its n-th write and says that it is away: whoever asked cannot know."""

    def _fail(self, name: str) -> None:
        raise StoreUnavailable(f"the connection was lost while {name} was answered")


class FrozenStore:
    """A store whose process freezes once, right before it uses this verb; meanwhile others act."""

    def __init__(self, store: Store, name: str, meanwhile: Callable[[], None], *, after: int = 0) -> None:
        self._store = store
        self._name = name
        self._meanwhile = meanwhile
        self._after = after

    def __getattr__(self, name: str) -> object:
        if name == self._name:
            self._after -= 1
            if self._after == -1:
                self._meanwhile()
        return getattr(self._store, name)


class AwayStore:
    """A store that can be taken away: every verb fails while it is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.away = False

    def __getattr__(self, name: str) -> object:
        verb = getattr(self._store, name)

        def asked(*args: object, **kwargs: object) -> object:
            if self.away:
                raise StoreUnavailable("the database does not answer")
            return verb(*args, **kwargs)

        return asked


def back_up(store: Store) -> Callable[[], None]:
    """Copy an in-memory store; what is returned puts the copy back in its place."""
    assert isinstance(store, MemoryStore)
    content = {name: value for name, value in vars(store).items() if name not in {"_clock", "_lock"}}
    kept = copy.deepcopy(content)
    return lambda: vars(store).update(copy.deepcopy(kept))
