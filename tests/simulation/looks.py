"""Looks in simulated time: what a controller's or a runner's probers do on threads, one look after the other.

Pace, window and probe report are the product's own. A look takes no time, but at a silent cluster it takes its whole
timeout, during which others begin, never more than a full row of them.
"""

import math
from dataclasses import dataclass, field, replace

from orchestrator.cluster_watch import ProbeWindows
from state.model.cluster_status import Fault, Layer, ProbeReport
from state.store.controller_store import ControllerStore
from streaming.clocks import Clocks, store_time
from streaming.errors import NotHere, WrongCluster
from streaming.probe.heartbeats import Heartbeats
from streaming.probe.identities import Identities
from streaming.probe.probe_result import LayerPassed, ProbeFailure, ProbeResult, Window, probe_report
from streaming.probe.prober import Pace
from tests.simulation.clusters import Through
from tests.simulation.world import START, World

REFUSED = ProbeFailure(kind="refused", text="connection refused", fault=Fault.THEIRS, retriable=True)
SILENT = ProbeFailure(kind="silent", text="no answer in 1 s", fault=Fault.THEIRS, retriable=True)
CREDENTIAL = ProbeFailure(kind="credential", text="SASL authentication failed", fault=Fault.OURS, retriable=False)
NO_NETWORK = ProbeFailure(kind="unreachable", text="no network on this host", fault=Fault.HERE, retriable=True)


@dataclass(kw_only=True)
class Looks:
    """The eyes of one process: a look at each cluster every interval of simulated time."""

    world: World
    viewpoint: str
    instance: str
    blocked: dict[str, ProbeFailure] = field(default_factory=dict)
    """What lies between this process and a cluster, whatever the cluster's own state."""
    answering: dict[str, str] = field(default_factory=dict)
    """By cluster, the id of the cluster that its address leads to for this process, where that is one of its own."""
    proven: dict[str, float] = field(default_factory=dict)
    """By cluster, when a query last proved that it lives."""
    reads_heartbeats: bool = False
    identities: Identities = field(init=False)
    under_way_at_most: int = 0
    """The most looks at one cluster that were under way at a time."""
    _windows: dict[str, Window] = field(default_factory=dict)
    _paces: dict[str, Pace] = field(default_factory=dict)
    _waiting: dict[str, list[float]] = field(default_factory=dict)
    _routes: list[Heartbeats] = field(default_factory=list)
    _hear_at: list[float] = field(default_factory=list)
    """When the heartbeats of each route are read next."""
    _idle_until: float = -1.0
    """Nothing is under way, and nothing begins before."""

    def __post_init__(self) -> None:
        self.identities = Identities(self.world.settings)
        clock, detection = self.world.clock, self.world.settings.detection
        clocks = Clocks(monotonic=clock.monotonic, wall=lambda: clock.now().timestamp() - START.timestamp())
        limit = max(detection.timeout.total_seconds(), 1.0)
        for cluster in self.world.settings.clusters:
            self._paces[cluster] = Pace(detection.interval.total_seconds(), limit, clocks)
            self._windows[cluster] = Window(trusted=detection.failures)
        self._routes = [
            Heartbeats(route.source, route.target, route.heartbeats, self.log, detection, clocks)
            for route in self.world.settings.routes
            if route.heartbeats is not None and self.reads_heartbeats
        ]
        self._hear_at = [-1.0 for _ in self._routes]

    def log(self, cluster: str) -> Through:
        """A cluster through this process's network."""
        return Through(self.world.clusters[cluster], lambda: self.blocked.get(cluster), self.identities.of(cluster))

    def reaches(self, cluster: str) -> bool:
        """Whether it answers this process now."""
        return self.world.clusters[cluster].lives and cluster not in self.blocked

    def _answers(self, cluster: str) -> str | None:
        return self.answering.get(cluster, self.world.clusters[cluster].cluster_id)

    def live(self) -> bool:
        """End the looks that are over, begin those that are due; whether any began."""
        if self.world.clock.passed < self._idle_until:
            return False
        began = False
        for cluster, pace in self._paces.items():
            if self._waiting.get(cluster):
                self._end(cluster)
            if pace.remaining == 0.0:
                began = True
                self._begin(cluster, pace.tick())
        for number, route in enumerate(self._routes):
            if self.world.clock.passed >= self._hear_at[number]:
                pause = route.hear()
                self._hear_at[number] = self.world.clock.passed + pause
        self._idle_until = self._next_begin()
        return began

    def stranger(self, cluster: str) -> ProbeFailure | None:
        """What a look meets that is answered by another cluster than the one that has the name."""
        try:
            self.identities.check(cluster, self._answers(cluster))
        except WrongCluster as wrong:
            return ProbeFailure.of_stranger(str(wrong), is_declared=isinstance(wrong, NotHere))
        return None

    def _next_begin(self) -> float:
        """A moment before the next look or heartbeat is due; long ago while any look is under way."""
        if any(self._waiting.values()):
            return -1.0
        now = self.world.clock.passed
        due = min(now + pace.remaining for pace in self._paces.values())
        return min(due, *self._hear_at, math.inf) - 1e-6

    def latest(self) -> ProbeWindows:
        """As ``Observer.latest``."""
        self.live()
        return ProbeWindows(at=self.world.clock.passed, windows=dict(self._windows))

    def probe_reports(self, store: ControllerStore) -> list[ProbeReport]:
        """What is seen now, as ``Observer.probe_reports`` and ``RunnerProbe.probe_reports``."""
        self.live()
        at = store_time(store, self.world.clock.monotonic)
        seen = [route.probe_report(self.instance, at) for route in self._routes]
        for cluster, window in self._windows.items():
            found = probe_report(window, cluster=cluster, viewpoint=self.viewpoint, instance=self.instance, at=at)
            proven = self.proven.get(cluster)
            if found is not None and proven is not None and (not found.last_ok_at or found.last_ok_at < at(proven)):
                found = replace(found, last_ok_at=at(proven))
            seen.append(found)
        return [each for each in seen if each is not None]

    def _begin(self, cluster: str, why_void: str | None) -> None:
        now = self.world.clock.passed
        if why_void is not None:
            self._windows[cluster] = self._windows[cluster].void(now, why_void)
        waiting = self._waiting.setdefault(cluster, [])
        if len(waiting) < self.world.settings.detection.failures:
            waiting.append(now)
            self.under_way_at_most = max(self.under_way_at_most, len(waiting))
        self._end(cluster)

    def _end(self, cluster: str) -> None:
        """A silent cluster lets looks wait until their time is up, or until it speaks again."""
        timeout = self.world.settings.detection.timeout.total_seconds()
        there = self.world.clusters[cluster]
        trouble = self.blocked.get(cluster) or (None if there.reachable else REFUSED)
        still: list[float] = []
        for began in self._waiting.get(cluster, []):
            waited = self.world.clock.passed - began
            if trouble is None and there.silent and waited < timeout:
                still.append(began)
                continue
            met = trouble or (SILENT if there.silent else self.stranger(cluster))
            passed = () if met else (LayerPassed(layer=Layer.METADATA, ms=1.0), LayerPassed(layer=Layer.READ, ms=1.0))
            sight = ProbeResult(
                began=began,
                seconds=min(waited, timeout),
                passed=passed,
                trouble=met,
                cluster_id=None if trouble or there.silent else self._answers(cluster),
                health=None if met else there.health,
            )
            self._windows[cluster] = self._windows[cluster].after(sight)
        self._waiting[cluster] = still
