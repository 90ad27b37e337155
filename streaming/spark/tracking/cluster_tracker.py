"""Tracks what queries read from one cluster: reads the records before the ends of their batches, and stores positions.

It would take no more than a fiftieth of the machine and a twentieth of one core. After each look it rests for as long
as its own CPU time demands. Then it reads the newest batches only; those between are counted. But it never rests longer
than a second: the store keeps twelve batches, and a ring from before them could not be counted on from.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from state.errors import TideoverError
from state.model.entities import EndSample
from state.settings.canonical import are_one_folder
from state.store.runner_store import RunnerStore
from streaming.cluster_log import ClusterLog
from streaming.errors import KafkaError, WrongCluster
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import EndedRun, Subject, logger_about
from streaming.spark.tracking.outbox import Outbox
from streaming.spark.tracking.reading import EndSampler, read_ends
from streaming.spark.tracking.spool import Spool
from streaming.spark.tracking.timeline_recorder import TimelineRecorder
from streaming.spark.tracking.track import RunProgress

_ANSWER_SECONDS, _SILENT_ANSWER_SECONDS = 1.0, 0.25
"""How long a cluster gets requests. It is shorter while this process sees by other means that it does not answer, for
words of batches wait, and so does a reader of their positions.
"""


_SAMPLE_SECONDS, _LONGEST_SAMPLE_SECONDS = 1.0, 5.0


_SAMPLE_SHARE = 0.005
"""Of one core: a hundred partitions are sampled every second, a thousand about every third."""


_STORE_SECONDS = 1.0
"""How long a position may wait for the records before it, or for its row count, until it is stored without."""


_IDLE_SECONDS = 0.25


_SHARE = min(0.05, 0.02 * (os.cpu_count() or 1))


_LONGEST_REST_SECONDS = 1.0


_DEAD_PAUSE_SECONDS = 2.0


_LOOK_SECONDS = 0.02


_DEAD_LOOK_SECONDS = 0.1
"""How long a caller that needs the positions waits for a look at a cluster that did not answer the one before. It takes
a second and more, and what it would bring is not coming."""


_T = TypeVar("_T")


OpenLog = Callable[[str], ClusterLog]


Now = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class BatchSeen:
    subject: Subject
    batch: Batch


@dataclass(frozen=True, slots=True)
class RowsCounted:
    subject: Subject
    batch: int
    rows: dict[str, int]


@dataclass(frozen=True, slots=True)
class RunOver:
    subject: Subject


@dataclass(frozen=True, slots=True)
class PositionsNeeded:
    ended: EndedRun | None
    stored: threading.Event
    """Set when the store, or the spool, has every position of which there was word."""


Word = BatchSeen | RowsCounted | RunOver | PositionsNeeded


class ClusterTracker(threading.Thread):
    """Tracks what is read from one cluster."""

    def __init__(
        self,
        cluster: str,
        open_log: OpenLog,
        store: RunnerStore,
        spool: Spool,
        recorder: TimelineRecorder,
        now: Now,
        is_silent: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(name=f"track {cluster}", daemon=True)
        self._cluster = cluster
        self._open_log = open_log
        self._now = now
        self._recorder = recorder
        self._is_silent = is_silent
        self._words: queue.SimpleQueue[Word] = queue.SimpleQueue()
        self._over = threading.Event()
        self._tracks: dict[Subject, RunProgress] = {}
        self._ended: dict[str, RunProgress] = {}
        """By query, what is known of its last run, until it is needed or the query runs again."""
        self._sampler: EndSampler | None = None
        self._log: ClusterLog | None = None
        self._sample_at = self._read_at = self._store_at = 0.0
        self._reachable = True
        self._is_foreign = False
        """Another cluster has answered under the name: what is read there is no progress."""
        self._unchecked = False
        """There was word of a batch since the last look: the cluster that answered the query is identified before that
        is stored.
        """
        self._looking = False
        """The cluster is being read at this moment."""
        self._talk = logger_about({"cluster": cluster})
        self._outbox = Outbox(store, spool, cluster)

    def notify(self, word: Word) -> None:
        self._words.put(word)

    def catch_up(self, ended: EndedRun | None, seconds: float) -> bool:
        """Wait, at most so long, until the store has the positions of all batches, those that ended a run included.

        The resolver reads positions from the store: one that is slow, or just back, lacks the newest. A look at a
        cluster that is silent is hardly waited for, unless something is spooled: that is flushed right after it.
        False while the store is slow or away; True also for what a silent cluster keeps to itself.
        """
        began = time.monotonic()
        needed = PositionsNeeded(ended, threading.Event())
        self.notify(needed)
        while self.is_alive() and not (needed.stored.is_set() and self._outbox.is_empty):
            looks = self._looking and self._outbox.is_empty
            patience = self._answer_seconds if self._reachable else _DEAD_LOOK_SECONDS
            if time.monotonic() - began >= (min(patience, seconds) if looks else seconds):
                return looks
            time.sleep(_LOOK_SECONDS)
        return True

    def request_stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        """Listen, read, store, rest; until the order to stop."""
        self._outbox.load()
        while not self._over.is_set():
            try:
                self._listen(_IDLE_SECONDS)
                self._round()
            except Exception:  # noqa: BLE001 - a thread's edge: tracking may fail, the queries may not
                self._talk.exception("tracking failed")
                self._over.wait(_LONGEST_REST_SECONDS)
        self._listen(0.0)  # the queries were stopped and have left word of their last batches
        self._store_positions()
        self._outbox.flush()
        self._recorder.close(self._tracks.values())

    def _listen(self, seconds: float) -> None:
        """Take every word that was left, waiting at most so long for the first."""
        try:
            word = self._words.get(timeout=seconds)
            while True:
                self._take(word)
                word = self._words.get_nowait()
        except queue.Empty:
            return

    def _take(self, word: Word) -> None:
        match word:
            case BatchSeen() if self._is_foreign:
                return
            case BatchSeen(subject, batch):
                self._unchecked = True
                self._ended.pop(subject.query, None)
                self._tracks.setdefault(subject, RunProgress(subject)).see(batch)
            case RowsCounted(subject, batch, rows):
                if subject in self._tracks:
                    self._tracks[subject].count(batch, rows)
            case RunOver(subject):
                self._store_positions()
                if (track := self._tracks.pop(subject, None)) is not None:
                    self._recorder.end(track)
                    self._ended[subject.query] = track
            case PositionsNeeded(ended, stored):
                if ended is not None:
                    self._complete(ended)
                self._store_positions()
                self._outbox.flush()
                stored.set()  # not where that failed: they must not be taken for stored

    def _complete(self, ended: EndedRun) -> None:
        """Learn what a quiet run read last, while the cluster answers: there was no time to look, or no word of it."""
        track = max(
            (each for each in (*self._tracks.values(), *self._ended.values()) if _is_meant(each.subject, ended)),
            key=lambda each: each.subject.epoch,
            default=None,
        )
        if track is None:
            return
        if self._ended.get(ended.query) is track:
            del self._ended[ended.query]
        for batch in ended.batches:
            track.see(batch)
        if self._reachable and track.unread():
            self._look(lambda: self._read([track]))
        if not self._is_foreign:
            self._store_positions(track)

    def _round(self) -> None:
        began = time.thread_time()
        now = time.monotonic()
        if self._is_foreign and now >= self._read_at:
            self._look(lambda: self._opened().names(timeout=self._answer_seconds))
            self._read_at = now + _DEAD_PAUSE_SECONDS
        is_due = now >= self._read_at or (self._unchecked and now >= self._store_at)
        if self._tracks and is_due:
            samples = self._look(lambda: self._query_cluster(now))
            if samples is None:
                self._read_at = now + _DEAD_PAUSE_SECONDS
            else:
                self._outbox.send_ends(samples)
                self._store_positions()
                spent = time.thread_time() - began
                self._read_at = time.monotonic() + min(_LONGEST_REST_SECONDS, spent / _SHARE)
        if now >= self._store_at:
            self._store_positions()
        if self._outbox.is_due(now):
            self._outbox.flush()
        self._recorder.record(self._tracks.values(), now)

    def _look(self, look: Callable[[], _T]) -> _T | None:
        """What the cluster answers; None where it cannot be reached."""
        self._looking, self._unchecked = True, False
        try:
            answer = look()
        except (KafkaError, TideoverError) as error:
            self._say_reachable(error)
            if isinstance(error, WrongCluster):
                self._disown()
            return None
        finally:
            self._looking = False
        self._say_reachable(None)
        self._is_foreign = False
        return answer

    def _disown(self) -> None:
        """Forget the batches that are not stored: it is unknown which of them were read from another cluster.

        A place is then found from older positions, and what was read since is read again; it is never passed over.
        """
        self._is_foreign = True
        self._tracks.clear()
        self._ended.clear()

    def _read(self, tracks: Collection[RunProgress]) -> None:
        """Read the records before the ends that are new. Raises ``KafkaError``."""
        read_ends(self._opened(), tracks, timeout=self._answer_seconds)

    @property
    def _answer_seconds(self) -> float:
        return _SILENT_ANSWER_SECONDS if self._is_silent() else _ANSWER_SECONDS

    def _opened(self) -> ClusterLog:
        if self._log is None:
            self._log = self._open_log(self._cluster)
            self._sampler = EndSampler(self._cluster, self._log)
        return self._log

    def _query_cluster(self, now: float) -> list[EndSample]:
        """Read the records before the ends that are new, then sample the ends, if it is time. Raises ``KafkaError``."""
        self._read(self._tracks.values())
        if self._sampler is None or now < self._sample_at:
            return []
        began = time.thread_time()
        partitions = {each for track in self._tracks.values() for each in track.partitions()}
        samples = self._sampler.sample(partitions, self._now(), timeout=self._answer_seconds)
        pause = (time.thread_time() - began) / _SAMPLE_SHARE
        self._sample_at = now + min(max(pause, _SAMPLE_SECONDS), _LONGEST_SAMPLE_SECONDS)
        return samples

    def _store_positions(self, *ended: RunProgress) -> None:
        samples = self._sampler.samples if self._sampler is not None else {}
        topics = self._sampler.topics if self._sampler is not None else {}
        self._store_at = time.monotonic() + _STORE_SECONDS
        tracks = [*self._tracks.values(), *ended]
        positions = [each for track in tracks for each in track.positions(self._now(), samples, topics)]
        if positions:
            self._outbox.send(positions)

    def _say_reachable(self, error: TideoverError | None) -> None:
        if error is not None and self._reachable:
            self._talk.warning("cluster cannot be tracked", error=str(error))
        elif error is None and not self._reachable:
            self._talk.info("cluster is tracked again")
        self._reachable = error is None


def _is_meant(subject: Subject, ended: EndedRun) -> bool:
    same = subject.query == ended.query and are_one_folder(subject.checkpoint, ended.checkpoint)
    return same and ended.epoch in {None, subject.epoch}
