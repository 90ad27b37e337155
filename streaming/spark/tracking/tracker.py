"""Tracks positions beside the queries: hears of batches, reads the records before their ends, stores both.

One thread per cluster (``cluster_tracker``), so that a dead one holds up no other. The queries never wait for it: they
leave word and continue.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from state.store.runner_store import RunnerStore
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import EndedRun, Subject
from streaming.spark.tracking.cluster_tracker import BatchSeen, ClusterTracker, Now, OpenLog, RowsCounted, RunOver
from streaming.spark.tracking.spool import Spool
from streaming.spark.tracking.timeline_recorder import TimelineOf, TimelineRecorder


class Tracker:
    """Hears of every batch of this runner and passes it to the thread of its cluster."""

    def __init__(
        self,
        open_log: OpenLog,
        store: RunnerStore,
        folder: Path,
        now: Now,
        timeline_of: TimelineOf,
        is_silent: Callable[[str], bool] = lambda cluster: False,
    ) -> None:
        """``is_silent``: whether a cluster was seen not to answer, by whatever else looks at it here."""
        self._open_log = open_log
        self._store = store
        self._folder = folder
        self._now = now
        self._timeline_of = timeline_of
        self._is_silent = is_silent
        self._lock = threading.Lock()
        self._clusters: dict[str, ClusterTracker] = {}

    def begin(self, clusters: list[str]) -> None:
        """Start for these clusters: what an earlier process spooled of them is flushed now."""
        for cluster in clusters:
            self._of(cluster)

    def see(self, subject: Subject, batch: Batch) -> None:
        """A batch was planned or committed; returns at once."""
        self._of(subject.cluster).notify(BatchSeen(subject, batch))

    def count(self, subject: Subject, batch: int, rows: dict[str, int]) -> None:
        """Spark counted a batch's rows, per source; returns at once."""
        self._of(subject.cluster).notify(RowsCounted(subject, batch, rows))

    def forget(self, subject: Subject) -> None:
        """The run is over; returns at once."""
        self._of(subject.cluster).notify(RunOver(subject))

    def catch_up(self, cluster: str, ended: EndedRun | None, seconds: float) -> bool:
        """Wait, at most so long, until the store has the positions of all batches; whether it has."""
        return self._of(cluster).catch_up(ended, seconds)

    def close(self, timeout: float) -> None:
        """Write or spool what is left, within about ``timeout`` seconds."""
        for each in list(self._clusters.values()):
            each.request_stop()
        deadline = time.monotonic() + timeout
        for each in list(self._clusters.values()):
            each.join(max(0.0, deadline - time.monotonic()))

    def _of(self, cluster: str) -> "ClusterTracker":
        with self._lock:
            if cluster not in self._clusters:
                spool = Spool(self._folder / f"{cluster}.spool")
                recorder = TimelineRecorder(self._store, self._timeline_of, self._now)
                silent = partial(self._is_silent, cluster)
                each = ClusterTracker(cluster, self._open_log, self._store, spool, recorder, self._now, silent)
                self._clusters[cluster] = each
                each.start()
            return self._clusters[cluster]
