"""When a new connection to a cluster may be opened, so that this process stays below ``connections_per_second``.

Managed clusters count new connections by the second and refuse what is above. A probe, a look-up and the start of a
query are of different weight, so each has its own lane. What is opened in one lane holds up that lane and those below
it, never one above. Probes come first: a dead cluster must be found out, whatever else this process does. They open
new connections while it is dead, so they hold up the lanes below for half of the time at most.

The connections of one probe are spread, and the last of them begins at most half of the probe's time late. A cluster
with more addresses than that gets them faster than the limit, which ``tideover check`` reports.

``Turns`` decides, with time as an argument. ``Pacer`` is the one thing that acts on it, for all threads of a process.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

from kafka import errors

from state.settings.keys import Cluster

_PROBES_SHARE = 0.5
"""Of the time of the lanes below, which probes take at most."""
_MOST_SECONDS = 1.0
"""How far probes are ahead of that share, and of their own lane, at most."""


class Lane(IntEnum):
    """What a connection is for; a lower number goes first."""

    PROBE = 0
    LOOK_UP = 1
    START = 2
    """Spark opens them, all of one start at once."""


class TurnLate(errors.RetriableError):  # type: ignore[misc]  # the library ships no types for it
    """The turn of this connection comes after the deadline of who wants it; it says nothing of the cluster."""

    message = "TIMED_OUT"


@dataclass(frozen=True, slots=True)
class Turns:
    """When each lane is free again. Times are seconds of one monotonic clock."""

    gap: float
    """Seconds between two connections; 0.0: nothing is limited."""
    free: tuple[float, ...] = (-math.inf,) * len(Lane)
    """By lane."""
    allowance: float = _MOST_SECONDS
    """Seconds that probes may still take from the lanes below."""
    probed_at: float = -math.inf
    """When a probe opened a connection last."""

    def wait(self, lane: Lane, now: float) -> float:
        """Seconds until a connection may be opened; 0.0: now."""
        return max(0.0, self.free[lane] - now)

    def opened(self, lane: Lane, now: float, count: int = 1) -> "Turns":
        """The turns after so many connections were opened in one lane."""
        busy = count * self.gap
        if lane is not Lane.PROBE:
            later = (max(at, now) + busy if each >= lane else at for each, at in enumerate(self.free))
            return replace(self, free=tuple(later))
        allowance = min(_MOST_SECONDS, self.allowance + (now - self.probed_at) * _PROBES_SHARE)
        taken = min(busy, allowance)
        own = min(max(self.free[lane], now) + busy, now + max(_MOST_SECONDS, busy))
        below = (max(at, now) + taken for at in self.free[1:])
        return replace(self, free=(own, *below), allowance=allowance - taken, probed_at=now)

    def spread(self, now: float, count: int, within: float) -> list[float]:
        """How many seconds from now each of a probe's connections is opened, the last at most ``within``."""
        first = self.wait(Lane.PROBE, now)
        last = first + (count - 1) * self.gap
        share = min(1.0, within / last) if last > 0 else 1.0
        return [(first + index * self.gap) * share for index in range(count)]


class Pacer:
    """The turns of one cluster. Safe for calls from several threads; no call waits."""

    def __init__(self, per_second: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        """``per_second``: connections; None: no limit."""
        self.per_second = per_second
        self._turns = Turns(0.0 if per_second is None else 1.0 / per_second)
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, lane: Lane, count: int = 1) -> float:
        """0.0 where so many connections may be opened now, which counts as done; else seconds until it is worth
        another try."""
        with self._lock:
            now = self._clock()
            wait = self._turns.wait(lane, now)
            if not wait:
                self._turns = self._turns.opened(lane, now, count)
            return wait

    def spread(self, count: int, within: float) -> list[float]:
        """Seconds from now for each of a probe's connections; each is to be reported by ``opened``."""
        with self._lock:
            return self._turns.spread(self._clock(), count, within)

    def opened(self) -> None:
        """A probe opens one of its connections."""
        with self._lock:
            self._turns = self._turns.opened(Lane.PROBE, self._clock())

    def room(self, seconds: float) -> int | None:
        """How many connections fit into so many seconds; None: any number."""
        return None if self.per_second is None else 1 + math.floor(seconds * self.per_second)

    def late(self, wait: float) -> TurnLate:
        """The outcome of a request whose connection has no turn in time."""
        return TurnLate(
            f"its connection would have its turn in {wait:.1f} s: {self.per_second} a second are allowed "
            "(clusters.NAME.connections_per_second)"
        )


_pacers: dict[tuple[tuple[str, ...], int | None], Pacer] = {}
_lock = threading.Lock()


def pacer_of(cluster: Cluster) -> Pacer:
    """The one of this process for a cluster: its probes, look-ups and starts share it."""
    key = cluster.bootstrap, cluster.connections_per_second
    with _lock:
        return _pacers.setdefault(key, Pacer(cluster.connections_per_second))
