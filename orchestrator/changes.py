"""Waiting for what a driver of an operation waits for: one look at the store serves all drivers of this process.

A driver that looked for itself would do so forty times a second. Each time it would read its operation with the whole
plan, the intents with all offsets, and half a dozen rows more. A hundred of them kept a controller so busy that its
verdicts grew old, and what was still to begin was refused for that. So one thread looks in one statement whether
something came, while a driver waits, and wakes those that it concerns. What it does not look at (a runner that falls
silent, a policy that says no) a driver finds in its own look, once a second.
"""

import threading
import time
from collections.abc import Hashable, Mapping

from state.errors import StoreError
from state.store.controller_store import ControllerStore
from state.store.wakeups import Wakeups

LOOK_SECONDS = 0.02
GAP_SECONDS = 0.004
"""Between two looks at least, however often it is woken."""
REST_SECONDS = 1.0
"""How long a driver waits at most until it looks again."""
_AWAY_SECONDS = 0.5
_IDLE_SECONDS = 2.0
"""The thread ends when nothing has waited for this long."""


class Changes:
    """For the drivers of one process, from any thread. The thread that looks begins with the first of them."""

    def __init__(self, store: ControllerStore, wakeups: Wakeups | None = None) -> None:
        """``wakeups`` let it look sooner than after ``LOOK_SECONDS``."""
        self._store = store
        self._wakeups = Wakeups() if wakeups is None else wakeups
        self._came = threading.Condition()
        self._marks: Mapping[str, Hashable] = {}
        self._waiting = 0
        self._waited_at = 0.0
        self._is_polling = False

    def mark(self, operation: str) -> Hashable:
        """The state of an operation at the last look; read this before its rows are read, so that nothing falls in
        between.
        """
        with self._came:
            return self._marks.get(operation)

    def wait(self, operation: str, mark: Hashable, seconds: float) -> None:
        """Return when something came since ``mark``, at the latest after ``seconds``."""
        with self._came:
            self._waiting += 1
            if not self._is_polling:
                self._is_polling = True
                threading.Thread(target=self._read, name="changes", daemon=True).start()
            try:
                self._came.wait_for(lambda: self._marks.get(operation) != mark, timeout=seconds)
            finally:
                self._waiting -= 1
                self._waited_at = time.monotonic()

    def _read(self) -> None:
        while self._is_wanted():
            pause, woken = LOOK_SECONDS, self._wakeups.count
            try:
                marks = self._store.change_marks()
            except StoreError:
                pause = _AWAY_SECONDS
            else:
                with self._came:
                    if marks != self._marks:
                        self._marks = marks
                        self._came.notify_all()
            time.sleep(min(pause, GAP_SECONDS))
            self._wakeups.wait(woken, pause - GAP_SECONDS)

    def _is_wanted(self) -> bool:
        with self._came:
            self._is_polling = self._waiting > 0 or time.monotonic() - self._waited_at < _IDLE_SECONDS
            if not self._is_polling:
                self._marks = {}
            return self._is_polling
