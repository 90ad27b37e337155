"""Work in rounds: behind the history on a thread of its own, and a second at a time on a thread that has more to do.

The history is the queue of the first, and the store holds how far it came; so a new leader continues there.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import structlog

from orchestrator.errors import NotLeading
from state.errors import RowRefused, StaleTerm, StoreError
from state.model.automation import NoticeCursor
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock

log = structlog.get_logger()
_Item = TypeVar("_Item")
ROUND_SECONDS = 1.0
"""How long one goes in a row: who calls has verdicts to renew, and a verdict counts for ten seconds."""


@contextmanager
def apart(wrong: list[Exception]) -> Iterator[None]:
    """One query, request or operation of a list: what is wrong with it is kept in ``wrong``, and the next one follows.

    A store that is away, and another leader, concern the whole list and are raised. Raise ``wrong[0]`` behind the list.
    """
    try:
        yield
    except RowRefused as error:
        wrong.append(error)
    except (NotLeading, StoreError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever one row is about, the others are not kept waiting
        wrong.append(error)


class TimedRound:
    """Goes through what is to be judged for a second at most; the next round begins where there was no time left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next: str | None = None

    def through(self, items: Sequence[_Item], *, key: Callable[[_Item], str]) -> Iterator[_Item]:
        """The items in their order, from where the round before ended; ``key`` knows one again."""
        until = self._clock.monotonic() + ROUND_SECONDS
        at = next((place for place, item in enumerate(items) if key(item) == self._next), 0)
        self._next = None
        for item in (*items[at:], *items[:at]):
            if self._clock.monotonic() >= until:
                self._next = key(item)
                return
            yield item


class Rounds:
    """Calls ``turn`` again and again; each call returns after how many seconds to do so again."""

    def __init__(self, name: str, turn: Callable[[], float], *, pause: float, bug: str, over: threading.Event) -> None:
        """``pause`` comes behind a round that failed, in seconds; ``bug`` is what the log says of a defect, once.

        Several may share ``over``: the first that is closed ends them all.
        """
        self._turn = turn
        self._pause = pause
        self._bug = bug
        self._over = over
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def begin(self) -> None:
        """Begin the rounds."""
        self._thread.start()

    def close(self, grace: float = 5.0) -> None:
        """Begin no more, and wait so long at most for the one that is under way."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(grace)

    def _run(self) -> None:
        logged: str | None = None
        while not self._over.is_set():
            pause = self._pause
            try:
                pause = self._turn()
                logged = None
            except (NotLeading, StaleTerm, StoreError):
                pass  # the loop says that the store is away, or that another leads
            except Exception as error:
                if logged != repr(error):
                    log.exception(self._bug)
                logged = repr(error)
            self._over.wait(pause)


def newest_line(store: ControllerStore) -> int:
    """The number of the last line of the history, 0 of an empty one. Raises ``StoreError``."""
    newest = store.history(limit=1)
    return newest[-1].sequence or 0 if newest else 0


def cursor_of(store: ControllerStore, target: str, term: int, *, since: int) -> NoticeCursor:
    """How much a target has got; a new one gets the lines after ``since``. Raises ``StoreError``."""
    found = next((each for each in store.notice_cursors() if each.target == target), None)
    if found is not None:
        return found
    fresh = NoticeCursor(target=target, sequence=since, incidents={})
    store.keep_notice_cursor(fresh, term=term)
    return fresh
