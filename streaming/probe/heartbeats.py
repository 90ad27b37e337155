"""The replicator as a witness: the newest heartbeat that it carried from one cluster to the other.

A heartbeat is written to the source and travels like any record, so one that arrives proves that the source lived when
it was written. Its time is the replicator's clock, and a clock that is ahead must not make a dead cluster look alive. A
heartbeat counts from its own time or from when it was first seen, whichever comes first. The one that was there before
we looked counts not at all.

When the next one is due goes by this process's own clock alone: from when the last one was *seen to arrive*, as long
after it as they usually come. So a replicator whose clock is behind is not taken for one that fell silent. Waiting for
a fixed time was rejected: it is too short for some routes, and too long for a cluster that was killed.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from state.model.cluster_status import Fault, Layer, ProbeReport
from state.model.entities import TopicPartition
from state.settings.keys import Detection
from streaming.clocks import Clocks
from streaming.cluster_log import ClusterLog, Spec
from streaming.errors import CredentialRefused, KafkaError
from streaming.last_records import read_last_records

_KEPT = 8
"""Gaps between heartbeats that are remembered; the longest of them is the usual one."""
_USUAL_SECONDS = 1.0
"""Before any gap is known: MirrorMaker's ``emit.heartbeats.interval.seconds`` where nothing else is said."""

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class HeartbeatLimits:
    """How late what is expected may be, in seconds."""

    heartbeat: float
    """How much later than usual a heartbeat may come."""
    reading: float
    """How long a reading may be away until it is unknown when something arrived; also the longest usual gap, for who
    speaks more rarely cannot be waited for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicatedHeartbeats:
    """What is known of the heartbeats of one route; pure. Seconds are of the monotonic clock."""

    patience: HeartbeatLimits
    tried: float | None = None
    """When the topic was last requested; None before the first time."""
    looked: float | None = None
    """When the last reading that succeeded began."""
    newest_ms: int | None = None
    """Time of the newest heartbeat."""
    seen: float | None = None
    """When it was first seen; None while it may have been there before we looked."""
    gaps: tuple[float, ...] = ()
    """From one heartbeat to the next, the newest last."""
    misses: int = 0
    """How many times in a row the topic could not be read."""
    text: str = ""
    fault: Fault | None = None

    def found(self, newest_ms: int | None, *, began: float, ended: float) -> "ReplicatedHeartbeats":
        """The topic was read; after a long pause it is unknown when what is new arrived."""
        updated = replace(self, tried=ended, looked=began, misses=0, text="", fault=None)
        if newest_ms is None or newest_ms == self.newest_ms:
            return updated
        if self.looked is None or ended - self.looked > self.patience.reading:
            return replace(updated, newest_ms=newest_ms, seen=None, gaps=())
        return replace(
            updated, newest_ms=newest_ms, seen=ended, gaps=(*self.gaps, *self._gap(newest_ms, ended))[-_KEPT:]
        )

    def missed(self, text: str, fault: Fault, at: float) -> "ReplicatedHeartbeats":
        """The topic could not be read: that says nothing of the source."""
        return replace(self, tried=at, misses=self.misses + 1, text=text, fault=fault)

    def alive_at(self, at: Callable[[float], datetime]) -> datetime | None:
        """When the source lived at the latest, as far as this route proves it."""
        if self.seen is None or self.newest_ms is None:
            return None
        return min(datetime.fromtimestamp(self.newest_ms / 1000, UTC), at(self.seen))

    @property
    def overdue(self) -> float | None:
        """From when on a heartbeat that did not come is late; None where nothing can be expected."""
        usual = max(self.gaps, default=_USUAL_SECONDS)
        if self.seen is None or usual > self.patience.reading:
            return None
        return self.seen + usual + self.patience.heartbeat

    @property
    def due(self) -> float | None:
        """As ``overdue``, and later while there was no look since: what has come may only not have been read."""
        overdue = self.overdue
        if overdue is None or (self.looked is not None and self.looked >= overdue):
            return overdue
        return overdue + self.patience.reading

    def _gap(self, newest_ms: int, ended: float) -> tuple[float, ...]:
        """By the replicator's clock, unless it was set: then that disagrees with when the two were seen to arrive."""
        if self.seen is None or self.looked is None or self.newest_ms is None:
            return ()
        stamped, seen = (newest_ms - self.newest_ms) / 1000, ended - self.seen
        return (stamped if self.looked - self.seen <= stamped <= seen + ended - self.looked else seen,)


def patience(detection: Detection) -> HeartbeatLimits:
    """What follows from how often one looks, and how long a look may take."""
    interval, timeout = detection.interval.total_seconds(), detection.timeout.total_seconds()
    return HeartbeatLimits(heartbeat=interval, reading=interval + 2 * timeout)


class Heartbeats:
    """Reads one route's heartbeats on its target, again and again, on a thread of its own."""

    def __init__(
        self,
        source: str,
        target: str,
        topic: str,
        open_log: Callable[[str], ClusterLog],
        detection: Detection,
        clocks: Clocks | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._topic = topic
        self._open_log = open_log
        self._interval = detection.interval.total_seconds()
        self._timeout = detection.timeout.total_seconds()
        self._log: ClusterLog | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._newest_ms: int | None = None
        self._clocks = clocks or Clocks()
        self._carried = ReplicatedHeartbeats(patience=patience(detection))
        self._defect: str | None = None
        """The defect of ours that was reported last; one that stays is logged once."""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"heartbeats {source}->{target}", daemon=True)

    @property
    def viewpoint(self) -> str:
        return f"replicator:{self._source}->{self._target}"

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def probe_report(self, instance: str, at: Callable[[float], datetime]) -> ProbeReport | None:
        """The route's word on its source; nothing before the topic was requested."""
        carried = self._carried
        if carried.tried is None:
            return None
        return ProbeReport(
            cluster=self._source,
            viewpoint=self.viewpoint,
            instance=instance,
            layer=None if carried.fault else Layer.READ,
            fault=carried.fault,
            kind={None: None, Fault.HERE: "internal"}.get(carried.fault, "target"),
            text=carried.text,
            retriable=True if carried.fault else None,
            latency_ms=None,
            failures_in_a_row=carried.misses,
            last_ok_at=carried.alive_at(at),
            due_at=None if carried.due is None else at(carried.due),
            seen_at=at(carried.tried),
        )

    def hear(self) -> float:
        """Read once; how many seconds to wait until the next time."""
        began = self._clocks.monotonic()
        try:
            newest = self._read()
            self._carried = self._carried.found(newest, began=began, ended=self._clocks.monotonic())
        except CredentialRefused as error:
            self._carried = self._carried.missed(str(error), Fault.OURS, self._clocks.monotonic())
        except KafkaError as error:
            self._carried = self._carried.missed(str(error), Fault.THEIRS, self._clocks.monotonic())
        except Exception as error:  # a thread's edge: the witness must not be gone for good, unnoticed
            defect = f"{type(error).__name__}: {error}"
            if defect != self._defect:
                log.exception("heartbeats cannot be read", source=self._source, target=self._target)
            self._defect, self._ends = defect, {}
            text = f"reading failed: {defect}"
            self._carried = self._carried.missed(text, Fault.HERE, self._clocks.monotonic())
        now, overdue = self._clocks.monotonic(), self._carried.overdue
        pause = max(0.0, began + self._interval - now)
        return min(pause, overdue - now) if overdue is not None and overdue > now else pause

    def _live(self) -> None:
        while not self._over.is_set():
            self._over.wait(self.hear())

    def _read(self) -> int | None:
        """Time of the newest heartbeat on the target. Raises ``KafkaError``."""
        if self._log is None:
            self._log = self._open_log(self._target)
        if not self._ends:
            facts = self._log.describe([self._topic], timeout=self._timeout)[self._topic]
            if facts.error is not None:
                raise KafkaError(f"cannot describe {self._topic} on {self._target}: {facts.error.text}")
            self._ends = {TopicPartition(self._topic, number): -1 for number in facts.partitions}
        looked = self._log.offsets(
            dict.fromkeys(self._ends, int(Spec.LATEST)), read_committed=True, timeout=self._timeout
        )
        ends = {partition: each.offset for partition, each in looked.items() if each.offset is not None}
        failed = next((each.error for each in looked.values() if each.error is not None), None)
        if failed is not None and not ends:
            self._ends = {}
            raise KafkaError(f"cannot read the end of {self._topic} on {self._target}: {failed.text}")
        moved = {partition: end for partition, end in ends.items() if end != self._ends[partition]}
        tails = read_last_records(self._log, moved, count=1, timeout=self._timeout)
        came: list[int] = []
        for partition, tail in tails.items():
            if tail.error is None:
                self._ends[partition] = moved[partition]
            came += [record.timestamp_ms for record in tail.records[-1:]]
        self._newest_ms = max(came, default=self._newest_ms)
        refused = next((tail.error for tail in tails.values() if tail.error and not tail.error.retriable), None)
        if refused is not None:
            raise KafkaError(f"cannot read {self._topic} on {self._target}: {refused.text}")
        return self._newest_ms
