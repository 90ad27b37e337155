"""Times of three clocks: the monotonic one that waits are measured by, the host's wall clock, and the store's.

``Clock`` is the acting code's: wall time for records, monotonic time for limits, and a way to wait.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from state.store.runner_store import RunnerStore


class Clock(Protocol):
    """Time as the shell sees it; tests bring their own."""

    def now(self) -> datetime:
        """Wall clock, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class Clocks:
    """This process's two clocks; seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


def store_time(store: RunnerStore, monotonic: Callable[[], float] = time.monotonic) -> Callable[[float], datetime]:
    """Read the store's time, and return what turns this process's monotonic times into it.

    Off by half of the question's round trip at most. Raises ``StoreError``.
    """
    before = monotonic()
    now = store.now()
    middle = (before + monotonic()) / 2
    return lambda when: now + timedelta(seconds=when - middle)


class ForwardClock:
    """Wall time in UTC that is never set back: what one process stamps keeps its order. Safe to be shared by threads.

    Where the host's clock is set back, this one continues from where it was, at half the pace, until the other has
    caught up. The host may have been right before, or be right now. Where it is set forward, this one follows.
    """

    def __init__(self, clocks: Clocks | None = None) -> None:
        self._clocks = clocks or Clocks()
        self._lock = threading.Lock()
        self._last, self._last_at = -math.inf, 0.0

    def __call__(self) -> datetime:
        with self._lock:
            at = self._clocks.monotonic()
            wall = self._clocks.wall()
            slowed = self._last + (at - self._last_at) / 2 if self._last > wall else wall
            self._last, self._last_at = max(wall, slowed), at
            return datetime.fromtimestamp(self._last, UTC)


class Drift:
    """Whether the store's clock advances as this process's monotonic one does; not thread-safe.

    What two processes say is put in order by the store's clock, so words from before and behind a jump of it cannot be.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._before: tuple[float, float, float] | None = None

    def jumped(self, now: datetime, *, requested: float, answered: float) -> float:
        """By how many seconds the store's clock was set since the last call; 0.0 when it was not set.

        A slow answer is no jump: that half of its round trip may be wrong counts for nothing.
        """
        here = (now.timestamp(), (requested + answered) / 2, (answered - requested) / 2)
        before, self._before = self._before or here, here
        jump = (here[0] - before[0]) - (here[1] - before[1])
        return jump if abs(jump) > self._limit + here[2] + before[2] else 0.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock; passed on whole, so that no step can add a wait of its own.

    By then a call returns; everything that the call does shares it.
    """

    at: float
    """``time.monotonic()`` seconds."""

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline that many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at

    def soonest(self, seconds: float) -> "Deadline":
        """Return this deadline, or the one ``seconds`` from now if that comes first."""
        return Deadline(min(self.at, time.monotonic() + seconds))
