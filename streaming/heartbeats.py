"""The replicator as a witness: the newest heartbeat that it carried from one cluster to the other.

A heartbeat is written to the source and travels like any record, so one that arrives proves that the source lived when
it was written. Its time is the replicator's clock, and a clock that is ahead must not make a dead cluster look alive:
a heartbeat counts from its own time or from when it was first seen, whichever comes first, and the one that was there
before we looked counts not at all.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from state.model import TopicPartition
from state.settings import Detection
from state.sighting import Fault, Layer, Sighting
from streaming.errors import CredentialRefused, KafkaError
from streaming.kafka.tail import read_tails
from streaming.log import Log, Spec


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """What is known of the heartbeats of one route; pure."""

    tried: float | None = None
    """When the topic was last asked for, on the monotonic clock; None before the first time."""
    looked: float | None = None
    """When it was last read."""
    newest_ms: int | None = None
    """Time of the newest heartbeat."""
    seen: float | None = None
    """When it was first seen; None while it may have been there before we looked."""
    misses: int = 0
    """How many times in a row the topic could not be read."""
    text: str = ""
    fault: Fault | None = None

    def found(self, newest_ms: int | None, at: float, *, longest_gap: float) -> "Carried":
        """The topic was read at ``at``; after a longer gap nobody knows when what is new arrived."""
        told = replace(self, tried=at, looked=at, misses=0, text="", fault=None)
        if newest_ms is None or newest_ms == self.newest_ms:
            return told
        witnessed = self.looked is not None and at - self.looked <= longest_gap
        return replace(told, newest_ms=newest_ms, seen=at if witnessed else None)

    def missed(self, text: str, fault: Fault, at: float) -> "Carried":
        """The topic could not be read: that says nothing of the source."""
        return replace(self, tried=at, misses=self.misses + 1, text=text, fault=fault)

    def evidence(self, at: Callable[[float], datetime]) -> datetime | None:
        """When the source lived at the latest, as far as this route proves it."""
        if self.seen is None or self.newest_ms is None:
            return None
        return min(datetime.fromtimestamp(self.newest_ms / 1000, UTC), at(self.seen))


class Heartbeats:
    """Reads one route's heartbeats on its target, again and again, on a thread of its own."""

    def __init__(
        self, source: str, target: str, topic: str, open_log: Callable[[str], Log], detection: Detection
    ) -> None:
        self._source = source
        self._target = target
        self._topic = topic
        self._open_log = open_log
        self._interval = detection.interval.total_seconds()
        self._timeout = detection.timeout.total_seconds()
        self._log: Log | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._newest_ms: int | None = None
        self._carried = Carried()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name=f"heartbeats {source}->{target}", daemon=True)

    @property
    def viewpoint(self) -> str:
        return f"replicator:{self._source}->{self._target}"

    def begin(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def sighting(self, instance: str, at: Callable[[float], datetime]) -> Sighting | None:
        """The route's word on its source; nothing before the topic was asked for."""
        carried = self._carried
        if carried.tried is None:
            return None
        return Sighting(
            cluster=self._source,
            viewpoint=self.viewpoint,
            instance=instance,
            layer=None if carried.fault else Layer.READ,
            fault=carried.fault,
            kind="target" if carried.fault else None,
            text=carried.text,
            retriable=True if carried.fault else None,
            latency_ms=None,
            failures_in_a_row=carried.misses,
            last_ok_at=carried.evidence(at),
            seen_at=at(carried.tried),
        )

    def _live(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                newest = self._read()
                self._carried = self._carried.found(
                    newest, time.monotonic(), longest_gap=self._interval + 2 * self._timeout
                )
            except CredentialRefused as error:
                self._carried = self._carried.missed(str(error), Fault.OURS, time.monotonic())
            except KafkaError as error:
                self._carried = self._carried.missed(str(error), Fault.THEIRS, time.monotonic())
            self._over.wait(max(0.0, began + self._interval - time.monotonic()))

    def _read(self) -> int | None:
        """Time of the newest heartbeat on the target. Raises ``KafkaError``."""
        if self._log is None:
            self._log = self._open_log(self._target)
        if not self._ends:
            facts = self._log.describe([self._topic], timeout=self._timeout)[self._topic]
            if facts.error is not None:
                raise KafkaError(f"{self._target} does not show {self._topic}: {facts.error.text}")
            self._ends = {TopicPartition(self._topic, number): -1 for number in facts.partitions}
        looked = self._log.offsets(
            dict.fromkeys(self._ends, int(Spec.LATEST)), read_committed=True, timeout=self._timeout
        )
        ends = {partition: each.offset for partition, each in looked.items() if each.offset is not None}
        failed = next((each.error for each in looked.values() if each.error is not None), None)
        if failed is not None and not ends:
            self._ends = {}
            raise KafkaError(f"{self._target} does not tell the end of {self._topic}: {failed.text}")
        moved = {partition: end for partition, end in ends.items() if end != self._ends[partition]}
        tails = read_tails(self._log, moved, count=1, timeout=self._timeout)
        for partition, tail in tails.items():
            if tail.error is None:
                self._ends[partition] = moved[partition]
            if tail.records:
                self._newest_ms = max(tail.records[-1].timestamp_ms, self._newest_ms or 0)
        refused = next((tail.error for tail in tails.values() if tail.error and not tail.error.retriable), None)
        if refused is not None:
            raise KafkaError(f"{self._target} does not give what is in {self._topic}: {refused.text}")
        return self._newest_ms
