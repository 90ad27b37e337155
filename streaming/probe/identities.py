"""What this process knows of the ids of clusters: as configured, as pinned in the store, else as first seen here."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from state.errors import NotAllowed, StoreError
from state.model.entities import Assignment, Event
from state.model.pins import Pin, elsewhere, left_behind, strange
from state.settings.keys import Tideover
from state.store.runner_store import RunnerStore
from streaming.errors import NotHere, WrongCluster

_REFRESH_SECONDS = 1.0

Identify = Callable[[str | None], None]
"""Hears the id that a cluster gives itself. Raises ``WrongCluster`` where another one has the name."""


def anyone(seen: str | None) -> None:
    """Whatever cluster answers will do."""


class Identities:
    """Called by every connection of the process, from any thread, which never waits for the store here.

    What is pinned changes while processes live (``accept-cluster``): a process that opens links reads it again, every
    second at most, and so does a loop that calls ``keep``.
    """

    def __init__(self, settings: Tideover) -> None:
        self._configured = {name: cluster.id for name, cluster in settings.clusters.items()}
        self._endpoints = {name: cluster.endpoint for name, cluster in settings.clusters.items()}
        self._others = {name: settings.behind_endpoint(name) for name in settings.clusters}
        self._pins: Mapping[str, Pin] = {}
        self._first: dict[str, str] = {}
        self._store: RunnerStore | None = None
        self._learnt_at = -math.inf
        self._lock = threading.Lock()

    def of(self, cluster: str) -> Identify:
        """What the connections to a cluster call."""
        return lambda seen: self.check(cluster, seen)

    def check(self, cluster: str, seen: str | None) -> None:
        """Raise ``WrongCluster`` unless the cluster that has this name answered. Brokers before 0.10.1 name no id.

        Where its endpoint leads to another declared cluster, that is ``NotHere``.
        """
        if seen is None:
            return
        away = elsewhere(cluster, seen, self._endpoints.get(cluster), self._others.get(cluster, {}))
        if away is not None:
            raise NotHere(away, seen=seen)
        with self._lock:
            pin = self._pins.get(cluster)
            text = strange(cluster, seen, self._configured.get(cluster), pin, self._endpoints.get(cluster))
            if text is None and pin is None:
                first = self._first.setdefault(cluster, seen)
                text = (
                    None if first == seen else f"{cluster} leads to cluster {seen}, but led to cluster {first} before"
                )
        if text is not None:
            raise WrongCluster(text, seen=seen)

    def known(self, cluster: str) -> str | None:
        """The id of the cluster that has this name: as configured, as pinned, else as first seen here."""
        with self._lock:
            pin = self._pins.get(cluster)
            return self._configured.get(cluster) or (self._first.get(cluster) if pin is None else pin.id)

    def others(self, cluster: str) -> Mapping[str, str]:
        """The names of the other clusters behind its endpoint, by id."""
        return self._others.get(cluster, {})

    def left_behind(self, row: Assignment) -> str | None:
        """Why a query may not be run where it is placed, if the name leads to another cluster since."""
        pin = self._pins.get(row.cluster)
        former = None if pin is None else pin.former_of(row.query, row.placed_epoch)
        return None if former is None else left_behind(row.cluster, former)

    def learn(self, store: RunnerStore) -> None:
        """Learn what is pinned. Raises ``StoreError``."""
        pins = {pin.cluster: pin for pin in store.pins()}
        self._know(store, pins)

    def refresh(self) -> None:
        """Learn again what is pinned, where that was done more than a second ago; with the store away it is kept."""
        store = self._store
        if store is not None and time.monotonic() - self._learnt_at >= _REFRESH_SECONDS:
            self._learnt_at = time.monotonic()  # first: one of several threads looks
            with suppress(StoreError):
                self.learn(store)

    def _know(self, store: RunnerStore, pins: Mapping[str, Pin]) -> None:
        with self._lock:
            self._store, self._pins, self._learnt_at = store, pins, time.monotonic()

    def keep(self, store: RunnerStore, *, actor: str) -> None:
        """Pin what was seen first, and learn what others pinned. Raises ``StoreError``."""
        pins = {pin.cluster: pin for pin in store.pins()}
        with self._lock:
            news = {cluster: seen for cluster, seen in self._first.items() if cluster not in pins}
        for cluster, seen in news.items():
            pin = Pin(cluster=cluster, id=seen, pinned_at=store.now())
            with suppress(NotAllowed):  # behind a controller: that one pins what it sees, and not what a runner says
                pins[cluster] = store.pin(pin, event=_first_seen(pin, actor))
        self._know(store, pins)


def _first_seen(pin: Pin, actor: str) -> Event:
    return Event(
        sequence=None, at=pin.pinned_at, kind="pin", query=None, operation=None, epoch=None, actor=actor,
        text=f"{pin.cluster} is cluster {pin.id}", detail={"cluster": pin.cluster, "id": pin.id},
    )  # fmt: skip
