"""Everything that this process sees of the clusters: a prober for each, and the replicators' heartbeats.

It looks all the time, leading or not, so that a controller that takes over needs no warm-up. It decides nothing: what
it hands out are sightings on the store's clock, for the store and for ``orchestrator.decide.verdict``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from state.ports import Store
from state.settings import Tideover
from state.sighting import Sighting
from streaming.clocks import Clocks, store_time
from streaming.heartbeats import Heartbeats
from streaming.log import Log
from streaming.prober import Prober
from streaming.sight import Eye
from streaming.window import Window, sighting


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """What was seen of the clusters when somebody looked here, on this process's monotonic clock; costs nothing."""

    at: float
    windows: Mapping[str, Window]
    """By cluster; the same object as long as no look has ended."""

    def is_same(self, before: "Glance") -> bool:
        """Whether no look has ended since."""
        return all(window is before.windows[cluster] for cluster, window in self.windows.items())

    def repeats(self, before: "Glance", limit: float) -> bool:
        """Whether every cluster is well, and as it was; a newest look may be ``limit`` seconds old."""
        return all(
            window.repeats(before.windows[cluster], now=self.at, limit=limit)
            for cluster, window in self.windows.items()
        )


class Observer:
    """The eyes of one controller.

    ``eyes`` opens probes, by cluster; ``open_log`` opens, by cluster, a log to read heartbeats from.
    """

    def __init__(
        self,
        settings: Tideover,
        *,
        name: str,
        instance: str,
        eyes: Mapping[str, Callable[[], Eye]],
        open_log: Callable[[str], Log],
        clocks: Clocks | None = None,
    ) -> None:
        self.viewpoint = f"controller:{name}"
        self._instance = instance
        self._clocks = clocks or Clocks()
        self._probers = {
            cluster: Prober(cluster, open_eye, settings.detection, clocks=self._clocks)
            for cluster, open_eye in eyes.items()
        }
        self._heartbeats = [
            Heartbeats(route.source, route.target, route.heartbeats, open_log, settings.detection, self._clocks)
            for route in settings.routes
            if route.heartbeats is not None
        ]

    def begin(self) -> None:
        """Begin to look."""
        for prober in self._probers.values():
            prober.begin()
        for heartbeats in self._heartbeats:
            heartbeats.begin()

    def close(self) -> None:
        """Begin no more looks; what is under way ends by its own deadline."""
        for prober in self._probers.values():
            prober.close()
        for heartbeats in self._heartbeats:
            heartbeats.close()

    def glance(self) -> Glance:
        """What is seen now, for whoever wants to know whether anything has happened."""
        windows = {cluster: prober.window for cluster, prober in self._probers.items()}
        return Glance(at=self._clocks.monotonic(), windows=windows)

    def sightings(self, store: Store) -> list[Sighting]:
        """What is seen now, of every cluster that was looked at. Raises ``StoreError``: the times are on its clock."""
        at = store_time(store, self._clocks.monotonic)
        seen = [
            sighting(prober.window, cluster=cluster, viewpoint=self.viewpoint, instance=self._instance, at=at)
            for cluster, prober in self._probers.items()
        ]
        seen += [heartbeats.sighting(self._instance, at) for heartbeats in self._heartbeats]
        return [each for each in seen if each is not None]
