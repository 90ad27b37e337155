"""How many queries of one driver start at once, and which of them first; of Spark it knows nothing.

A first batch is planned, compiled and, where the driver has the executors too, run on the driver's own cores. Of four
that start together on two cores each takes twice as long, and the first commit comes when all are nearly done. So as
many start as there are cores, and the next one when one of them has committed, or has found nothing to read.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable

LONGEST_SECONDS = 3.0
"""A start that takes longer keeps nobody waiting any more: it has much to read, or its cluster does not answer."""
_LOOK_SECONDS = 0.02


class Turn:
    """The right to start, until it is given back; twice is harmless."""

    def __init__(self, give: Callable[["Turn"], None], taken_at: float) -> None:
        self._give = give
        self.taken_at = taken_at

    def give(self) -> None:
        self._give(self)


class Starts:
    """Turns of one process; each query takes its own in a thread of its own."""

    def __init__(self, at_once: int | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``at_once``: as many as this process may use cores, unless it is said."""
        self._at_once = len(os.sched_getaffinity(0)) if at_once is None else at_once
        self._monotonic = monotonic
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int]] = []
        """Smallest first: priority with its sign turned, and who came first."""
        self._taken: list[Turn] = []

    def take(self, priority: int, is_over: Callable[[], bool]) -> Turn:
        """Wait for a turn, or until it ``is_over`` for who waits: a turn is had then, too, and to be given back."""
        with self._changed:
            mine = (-priority, next(self._numbers))
            self._waiting.append(mine)
            while not is_over() and not (self._has_room() and mine == min(self._waiting)):
                self._changed.wait(_LOOK_SECONDS)
            self._waiting.remove(mine)
            turn = Turn(self._give, self._monotonic())
            self._taken.append(turn)
            self._changed.notify_all()
        return turn

    def _has_room(self) -> bool:
        now = self._monotonic()
        return sum(now - turn.taken_at < LONGEST_SECONDS for turn in self._taken) < self._at_once

    def _give(self, turn: Turn) -> None:
        with self._changed:
            if turn in self._taken:
                self._taken.remove(turn)
                self._changed.notify_all()
