"""Times of three clocks: the monotonic one that waits are measured by, the host's wall clock, and the store's."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from state.ports import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """This process's two clocks; seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


def store_time(store: Store, monotonic: Callable[[], float] = time.monotonic) -> Callable[[float], datetime]:
    """Ask the store for the time, and return what turns this process's monotonic times into it.

    Off by half of the question's round trip at most. Raises ``StoreError``.
    """
    before = monotonic()
    now = store.now()
    middle = (before + monotonic()) / 2
    return lambda when: now + timedelta(seconds=when - middle)


class Drift:
    """Whether the store's clock goes on as this process's monotonic one does; not thread-safe.

    What two processes say is put in order by the store's clock, so words from before and behind a jump of it cannot be.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._before: tuple[float, float, float] | None = None

    def jumped(self, now: datetime, *, asked: float, answered: float) -> float:
        """By how many seconds the store's clock was set since the last question; 0.0 when it went on.

        A slow answer is no jump: that half of its round trip may be wrong counts for nothing.
        """
        here = (now.timestamp(), (asked + answered) / 2, (answered - asked) / 2)
        before, self._before = self._before or here, here
        jump = (here[0] - before[0]) - (here[1] - before[1])
        return jump if abs(jump) > self._limit + here[2] + before[2] else 0.0
