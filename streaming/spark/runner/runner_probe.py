"""A runner as a witness: it looks at the clusters of its queries, and hears what the queries themselves prove.

A batch that a query plans proves that its cluster sent the ends of its partitions a moment before, through another
client than ours. One that it commits proves less, because what it read may have come long ago. A report goes to the
store after every look and not only on changes. A controller that loses sight of a cluster counts seconds, and has to
find a fresh sign of life when it does.
"""

import contextlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from state.errors import StoreError
from state.model.cluster_status import ELSEWHERE, Fault, ProbeReport
from state.settings.keys import Detection, Query
from state.store.runner_store import RunnerStore
from streaming.clocks import Clocks, store_time
from streaming.probe.probe_result import ClusterProbe, ProbeFailure, probe_report
from streaming.probe.prober import Prober
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import BatchListener, EndedRun, Subject

_LEAST_PAUSE_SECONDS = 0.1
"""Looks at several clusters end at nearly the same time: one report has all."""


class RunnerProbe(BatchListener):
    """The observer ``runner:NAME``."""

    def __init__(
        self,
        runner: str,
        instance: str,
        eyes: Mapping[str, Callable[[], ClusterProbe]],
        store: RunnerStore,
        detection: Detection,
        clocks: Clocks | None = None,
    ) -> None:
        self._viewpoint = f"runner:{runner}"
        self._instance = instance
        self._store = store
        self._interval = detection.interval.total_seconds()
        self._clocks = clocks or Clocks()
        self._news, self._over = threading.Event(), threading.Event()
        self._proven: dict[str, float] = {}
        """By cluster, when a query last proved that it lives, on the monotonic clock."""
        self._looked = {cluster: threading.Event() for cluster in eyes}
        """Set once a first look at the cluster has ended."""
        self._patience = (detection.timeout + detection.interval).total_seconds()
        self._probers = {
            cluster: Prober(
                cluster, open_probe, detection, on_look=partial(self._note_look, cluster), clocks=self._clocks
            )
            for cluster, open_probe in eyes.items()
        }
        self._thread = threading.Thread(target=self._live, name="lookout", daemon=True)

    def begin(self) -> None:
        """Begin to look and to report."""
        for prober in self._probers.values():
            prober.begin()
        self._thread.start()

    def close(self) -> None:
        """Begin no more looks and reports; returns at once."""
        self._over.set()
        self._news.set()
        for prober in self._probers.values():
            prober.close()

    def see(self, subject: Subject, batch: Batch) -> None:
        """A batch that was not planned at the look before proves its cluster's life since then."""
        if batch.planned_after is not None:
            self._proven[subject.cluster] = max(batch.planned_after, self._proven.get(subject.cluster, 0.0))

    def count(self, subject: Subject, batch: int, rows: dict[str, int]) -> None:
        """Rows prove nothing that the plan did not."""

    def forget(self, subject: Subject) -> None:
        """What was proven stays proven."""

    def catch_up(self, cluster: str, ended: EndedRun | None, seconds: float) -> bool:
        """Sightings that the store missed are of the past."""
        return True

    def stranger(self, cluster: str) -> str | None:
        """Why what answered the newest look is not the cluster that has this name; None where it was, or none did.

        The first look is waited for, for as long as it may take.
        """
        if cluster not in self._probers:
            return None
        self._looked[cluster].wait(self._patience)
        trouble = self._trouble(cluster)
        return trouble.text if trouble is not None and trouble.kind in {"identity", ELSEWHERE} else None

    def is_elsewhere(self, cluster: str) -> bool:
        """Whether the newest look met another declared cluster behind the endpoint of this one."""
        trouble = self._trouble(cluster)
        return trouble is not None and trouble.kind == ELSEWHERE

    def _trouble(self, cluster: str) -> ProbeFailure | None:
        newest = self._probers[cluster].window.newest if cluster in self._probers else None
        return None if newest is None else newest.trouble

    def stranger_to(self, query: Query, cluster: str) -> str | None:
        """The same of the cluster that a query reads, and of the one to which its output goes, whichever it reads.

        Another cluster at its address would take the records without a sign of it.
        """
        output = None if query.output is None or query.output.cluster == "active" else query.output.cluster
        return self.stranger(cluster) or (None if output in {None, cluster} else self.stranger(str(output)))

    def is_silent(self, cluster: str) -> bool:
        """Whether the newest look was not answered, for a reason that is the cluster's."""
        prober = self._probers.get(cluster)
        newest = None if prober is None else prober.window.newest
        if newest is None or newest.trouble is None:
            return False
        return newest.trouble.fault is Fault.THEIRS and newest.latency_ms is None

    def probe_reports(self) -> list[ProbeReport]:
        """What is seen now. Raises ``StoreError``: the times are on its clock."""
        at = store_time(self._store, self._clocks.monotonic)
        found = []
        for cluster, prober in self._probers.items():
            seen = probe_report(
                prober.window, cluster=cluster, viewpoint=self._viewpoint, instance=self._instance, at=at
            )  # fmt: skip
            proven = self._proven.get(cluster)
            if seen is not None and proven is not None and (seen.last_ok_at is None or seen.last_ok_at < at(proven)):
                seen = replace(seen, last_ok_at=at(proven))
            if seen is not None:
                found.append(seen)
        return found

    def _note_look(self, cluster: str) -> None:
        self._looked[cluster].set()
        self._news.set()

    def _live(self) -> None:
        while not self._over.is_set():
            self._news.wait(2 * self._interval)
            self._news.clear()
            with contextlib.suppress(StoreError):  # the runner's loop says once that the store is away
                self._store.save_probe_reports(self.probe_reports())
            self._over.wait(_LEAST_PAUSE_SECONDS)


class BatchListeners(BatchListener):
    """Passes every word on to several that listen."""

    def __init__(self, *listeners: BatchListener) -> None:
        self._listeners = listeners

    def see(self, subject: Subject, batch: Batch) -> None:
        for each in self._listeners:
            each.see(subject, batch)

    def count(self, subject: Subject, batch: int, rows: dict[str, int]) -> None:
        for each in self._listeners:
            each.count(subject, batch, rows)

    def forget(self, subject: Subject) -> None:
        for each in self._listeners:
            each.forget(subject)

    def catch_up(self, cluster: str, ended: EndedRun | None, seconds: float) -> bool:
        caught_up = [each.catch_up(cluster, ended, seconds) for each in self._listeners]
        return all(caught_up)
