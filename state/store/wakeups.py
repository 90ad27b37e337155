"""Waking up at a write of another process instead of polling.

A request, an order to a runner and its answer, and a new assignment are what another process waits for. PostgreSQL
announces them: triggers notify a channel, and the process that waits listens on it (``LISTEN``, one connection for each
process). SQLite has a counter of its file's commits (``PRAGMA data_version``), which a thread compares a hundred times
a second, at 0.3 % of a core; it counts whatever is written.

A wake-up says "look", and nothing else. None is promised: a pooler between us and the server may swallow them, and a
connection may be lost. So every process that waits here looks at the store, too: seldom while wake-ups come, and often
while they cannot.
"""

import contextlib
import threading
from collections.abc import Callable, Generator

from state.errors import StoreError

_AGAIN_SECONDS = 1.0
"""Between a connection that was lost and the next."""
_END_SECONDS = 1.0
"""What a connection that is just being made may hold up the end of a process."""

Listen = Callable[[threading.Event], Generator[bool, None, None]]
"""Until the event is set: True for each wake-up, False now and then; the first as soon as it hears. Raises
``StoreError`` when the connection is lost."""


class Wakeups:
    """For any number of threads that wait; one thread of its own listens until ``close``."""

    def __init__(self, listen: Listen | None = None) -> None:
        """Without anything to listen to it never wakes anybody."""
        self._came = threading.Condition()
        self._count = 0
        self._are_heard = False
        self._over = threading.Event()
        self._listening: threading.Thread | None = None
        if listen is not None:
            self._listening = threading.Thread(target=self._hear, args=(listen,), name="wakeups", daemon=True)
            self._listening.start()

    @property
    def are_heard(self) -> bool:
        """Whether the connection is open, so that a process that waits need not look often."""
        return self._are_heard

    @property
    def count(self) -> int:
        """How many came; read it before looking, so that none falls in between."""
        return self._count

    def wait(self, count: int, seconds: float) -> None:
        """Return once more came than ``count``, at the latest after ``seconds``, or when it is closed."""
        with self._came:
            self._came.wait_for(lambda: self._count != count or self._over.is_set(), timeout=seconds)

    def wake(self) -> None:
        """As if something had been written; from any thread, but not from a signal's handler."""
        with self._came:
            self._count += 1
            self._came.notify_all()

    def close(self) -> None:
        """Let everybody go who waits, and listen no longer."""
        self._over.set()
        self.wake()
        if self._listening is not None:
            self._listening.join(_END_SECONDS)

    def _hear(self, listen: Listen) -> None:
        while not self._over.is_set():
            with contextlib.suppress(StoreError), contextlib.closing(listen(self._over)) as signs:
                for came in signs:
                    if came or not self._are_heard:  # what was written before it heard is to be looked for
                        self._are_heard = True
                        self.wake()
            self._are_heard = False
            self._over.wait(_AGAIN_SECONDS)
