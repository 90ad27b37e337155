"""Looks at one cluster at a steady pace, on threads of its own and on the monotonic clock.

A look begins every interval, whether the one before has ended or not, but never more than a full row of them at a
time. So a cluster that falls silent is found out after one timeout and not after three, and looks never pile up. The
first uses connections that are kept; one that begins while another still waits is a second opinion on connections of
its own. Probes one after the other were rejected: three timeouts of a second are three seconds.

What this process did not live through proves nothing. The loop may wake up much later than planned, or the wall clock
and the monotonic clock disagree about how much time has passed. Then the host was suspended or a clock was set, and
everything seen so far is void. A look that ends long after its own deadline was starved, and does not count.
"""

import threading
from collections.abc import Callable

import structlog

from state.model.cluster_status import Fault
from state.settings.keys import Detection
from streaming.clocks import Clocks
from streaming.probe.probe_result import ClusterProbe, ProbeFailure, ProbeResult, Window

_STARVED_SECONDS = 0.5
_LEAVING = 3
"""Probes that were given up and still sit in a name look-up, until no further one is made."""

log = structlog.get_logger()


def _ignore() -> None:
    """The result is not wanted."""


class Pace:
    """When the next look is due, and whether the time since the last one can be trusted; not thread-safe."""

    def __init__(self, interval: float, limit: float, clocks: Clocks) -> None:
        self._interval = interval
        self._limit = limit
        self._clocks = clocks
        self._due = self._before = clocks.monotonic()
        self._wall = clocks.wall()

    @property
    def remaining(self) -> float:
        """Seconds until the next look is due, never negative."""
        return max(0.0, self._due - self._clocks.monotonic())

    def tick(self) -> str | None:
        """The look is begun; why nothing that was seen before counts, or None when all went as planned."""
        now, wall = self._clocks.monotonic(), self._clocks.wall()
        late, jumped = now - self._due, (wall - self._wall) - (now - self._before)
        self._before, self._wall = now, wall
        self._due = now + self._interval  # never sooner, or a late loop would take one short outage for a long one
        if late > self._limit:
            return f"this process was paused or starved: a probe began {late:.1f} s late"
        if abs(jumped) > self._limit:
            return f"the clock jumped by {jumped:+.1f} s, or this host was suspended"
        return None


class Prober:
    """Keeps the window of one cluster up to date until it is closed."""

    def __init__(
        self,
        name: str,
        open_probe: Callable[[], ClusterProbe],
        detection: Detection,
        *,
        on_look: Callable[[], None] = _ignore,
        clocks: Clocks | None = None,
    ) -> None:
        self._open_probe = open_probe
        self._timeout = detection.timeout.total_seconds()
        self._most = detection.failures
        self._on_look = on_look
        self._clocks = clocks or Clocks()
        self._pace = Pace(detection.interval.total_seconds(), max(self._timeout, 1.0), self._clocks)
        self._log = log.bind(cluster=name)
        self._lock = threading.Lock()
        self._window = Window(trusted=detection.failures)
        self._kept: ClusterProbe | None = None
        self._busy = 0
        self._leaving: list[ClusterProbe] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"probe {name}", daemon=True)

    @property
    def window(self) -> Window:
        """What was seen so far."""
        with self._lock:
            return self._window

    def begin(self) -> None:
        """Look for the first time now, and continue."""
        self._thread.start()

    def close(self) -> None:
        """Begin no more looks; what is under way ends by its own deadline."""
        self._over.set()
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _live(self) -> None:
        while not self._over.wait(self._pace.remaining):
            why = self._pace.tick()
            if why is not None:
                self._void(why)
            self._begin_look()

    def _void(self, why: str) -> None:
        self._log.warning("probe history discarded", why=why)
        with self._lock:
            self._window = self._window.void(self._clocks.monotonic(), why)
        self._on_look()

    def _begin_look(self) -> None:
        with self._lock:
            self._leaving = [eye for eye in self._leaving if not eye.is_over]
            if self._busy >= self._most:
                return  # the time of the oldest is nearly up; it makes room
            if len(self._leaving) >= _LEAVING:
                self._take(_stuck(self._clocks.monotonic(), len(self._leaving)))
                return
            eye, self._kept = self._kept, None
            self._busy += 1
        threading.Thread(target=self._look, args=(eye,), name=self._thread.name, daemon=True).start()

    def _look(self, kept: ClusterProbe | None) -> None:
        """One look; its eye is kept for the next if it saw something and no other eye was kept in between."""
        began = self._clocks.monotonic()
        eye = kept
        try:
            eye = eye or self._open_probe()
            sight = eye.run(self._timeout)
        except Exception as error:  # noqa: BLE001 - a thread's edge: a defect of ours says nothing of the cluster
            self._log.exception("a probe failed")
            sight = _broken(began, self._clocks.monotonic(), error)
        late = self._clocks.monotonic() - began - self._timeout - sight.delayed
        with self._lock:
            self._busy -= 1
            if late <= _STARVED_SECONDS:
                self._take(sight)
            if eye is not None and sight.ok and self._kept is None and not self._over.is_set():
                self._kept, eye = eye, None
        self._on_look()
        if eye is not None:
            eye.close()
            with self._lock:
                self._leaving.append(eye)

    def _take(self, sight: ProbeResult) -> None:
        self._window = self._window.after(sight)


def _stuck(now: float, count: int) -> ProbeResult:
    text = f"{count} name look-ups on this host have not returned"
    return ProbeResult(
        began=now, seconds=0.0, trouble=ProbeFailure(kind="stuck", text=text, fault=Fault.HERE, retriable=True)
    )


def _broken(began: float, ended: float, error: Exception) -> ProbeResult:
    text = f"the probe itself failed: {type(error).__name__}: {error}"
    return ProbeResult(
        began=began,
        seconds=ended - began,
        trouble=ProbeFailure(kind="internal", text=text, fault=Fault.HERE, retriable=True),
    )
