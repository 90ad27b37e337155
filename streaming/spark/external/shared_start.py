"""The queries of one application in this process: it is started once all of them are ready, and all of them begin.

Each query is tended by a thread of its own, which comes here when its row wants a run. The thread that finds all of
them ready starts the application for all. What is wrong with one of them is raised in the thread of that one.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from state.errors import TideoverError
from streaming.spark.errors import RunError, RunFenced
from streaming.spark.external.application_state import LOOK_SECONDS, Stops

MATES_SECONDS = 30.0
"""How long a query that is ready waits for another one that nothing holds, before it reports that."""


class Member(Protocol):
    """A query of the application that is ready to run under its row."""

    @property
    def query(self) -> str: ...

    @property
    def is_closing(self) -> bool:
        """Whether it was ordered to stop."""


M = TypeVar("M", bound=Member)
T = TypeVar("T")


class NotReady(Exception):
    """What keeps one query of an application from its start."""

    def __init__(self, query: str, why: Exception) -> None:
        super().__init__(query)
        self.query = query
        self.why = why


class SharedStart(Generic[M]):
    """Of one application."""

    def __init__(self, queries: Sequence[str]) -> None:
        """``queries``: all of them, in the order of the configuration."""
        self.queries = tuple(queries)
        self.stops = Stops()
        self._turn = threading.Lock()
        """Of the thread that starts it."""
        self._ready: dict[str, M] = {}
        self._begun: dict[str, str] = {}
        """By query that is ready, what became of it: its application was started, or joined."""
        self._failed: dict[str, Exception] = {}

    def take_part(
        self, own: M, begin: Callable[[Sequence[M]], str], is_held: Callable[[str], bool] = lambda query: False
    ) -> str:
        """Wait until the application runs for this query, and start it where all are ready; what ``begin`` returned.

        ``begin`` starts it for all, and raises ``NotReady`` for what is wrong with one. ``is_held`` says of another
        query whether an operation holds it: that is waited for. Raises ``RunFenced`` once this query is to stop,
        ``RunError`` where another one does not come, and what is wrong with this one.
        """
        self._ready[own.query] = own
        since = time.monotonic()
        try:
            while True:
                if own.is_closing:
                    raise RunFenced(f"{own.query} was ordered to stop before it started")
                if self._turn.acquire(timeout=LOOK_SECONDS):
                    try:
                        done = self._look(own, begin)
                    finally:
                        self._turn.release()
                    if done is not None:
                        return done
                    since = self._await_others(own, since, is_held)
        finally:
            with self._turn:
                for each in (self._ready, self._begun, self._failed):
                    each.pop(own.query, None)

    def _look(self, own: M, begin: Callable[[Sequence[M]], str]) -> str | None:
        if own.query in self._failed:
            raise self._failed.pop(own.query)
        if own.query not in self._begun and set(self.queries) == set(self._ready) - set(self._begun):
            try:
                done = begin([self._ready[query] for query in self.queries])
            except NotReady as failure:
                if failure.query == own.query:
                    raise failure.why from None
                self._failed[failure.query] = failure.why
                return None
            self._begun |= dict.fromkeys(self.queries, done)
        return self._begun.get(own.query)

    def _await_others(self, own: M, since: float, is_held: Callable[[str], bool]) -> float:
        """A pause between two looks; when the wait began that counts."""
        missing = [query for query in self.queries if query not in self._ready]
        if not missing or any(map(is_held, missing)):
            since = time.monotonic()
        elif time.monotonic() - since >= MATES_SECONDS:
            raise RunError(
                f"{own.query} is not started, because its application is started for all of its queries, and "
                f"{', '.join(missing)} cannot begin yet",
                hint="tideover list shows why",
            )
        time.sleep(LOOK_SECONDS / 4)
        return since


def of_member(query: str, work: Callable[[], T]) -> T:
    """Do something for one query. Raises ``NotReady`` for it, whatever is raised."""
    try:
        return work()
    except TideoverError as why:
        raise NotReady(query, why) from why
