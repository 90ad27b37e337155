"""A Kafka cluster of the one-process world: the product's own twin of a log, with the faults of a whole cluster."""

import hashlib
from bisect import bisect_left
from collections.abc import Callable

from state.model.entities import Fingerprint, TopicPartition
from streaming.cluster_log import Entry, LogRecord
from streaming.errors import ClusterUnreachable, CredentialRefused
from streaming.probe.identities import Identify, anyone
from streaming.probe.probe_result import Health, ProbeFailure
from tests.memory_log import MemoryCluster, MemoryPartition

WHOLE = Health(
    brokers=3, brokers_silent=0, partitions=2, leaderless=0, unreadable=0, under_replicated=0, under_min_isr=0
)


def digest_of(key: str) -> bytes:
    """What is remembered of a record."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


class Cluster(MemoryCluster):
    """Its content is that of ``tests.memory_log``, which fulfils the contract of every log."""

    def __init__(self, name: str, wait: Callable[[float], None]) -> None:
        super().__init__(name)
        self._wait = wait
        self.reachable = True
        self.silent = False
        """It accepts connections and never says a word, as a process that is stopped."""
        self.health = WHOLE
        self.requested = 0
        """Questions of all."""
        self._rings: dict[tuple[str, int, int, int], tuple[Fingerprint, ...]] = {}

    @property
    def lives(self) -> bool:
        """Whether it answers those whose network is whole."""
        return self.reachable and not self.silent

    def write(self, topic: str, partition: int, key: str, timestamp_ms: int) -> int:
        """Append a record that is known by its key; returns its offset."""
        offset = self.append(topic, partition, timestamp_ms, digest_of(key))
        self.partition(topic, partition).entries.append(Entry(offset, key.encode(), None, timestamp_ms))
        return offset

    def cut(self, topic: str, end: int) -> None:
        """Take the newest records of every partition away, as if they had never come."""
        for number, log in self.topics[topic].partitions.items():
            if log.end > end:
                self.truncate(topic, number, end)

    def add_partition(self, topic: str) -> None:
        """One more, empty, at the end."""
        there = self.topics[topic].partitions
        there[len(there)] = MemoryPartition()

    def records(self, topic: str, partition: int) -> list[LogRecord]:
        """What the partition holds."""
        return self.partition(topic, partition).records

    def between(self, topic: str, partition: int, start: int, end: int) -> list[LogRecord]:
        """Records of a range of offsets."""
        records = self.records(topic, partition)
        first, last = (bisect_left(records, offset, key=lambda record: record.offset) for offset in (start, end))
        return records[first:last]

    def ring(self, topic: str, partition: int, offset: int, length: int = 256) -> tuple[Fingerprint, ...]:
        """The last records before an offset, as a tracker remembers them: once for all queries that stand there."""
        key = (self.topics[topic].topic_id, partition, offset, length)
        if key not in self._rings:
            last = self.between(topic, partition, 0, offset)[-length:]
            self._rings[key] = tuple(Fingerprint(each.offset, each.timestamp_ms, each.digest) for each in last)
        return self._rings[key]

    def ends(self, topic: str) -> dict[TopicPartition, int]:
        """The end of each partition."""
        return {TopicPartition(topic, number): log.end for number, log in self.topics[topic].partitions.items()}

    def _reach(self, timeout: float) -> None:
        self.requested += 1
        if self.silent and self.reachable:
            self._wait(timeout)
        if not self.lives:
            raise ClusterUnreachable("no bootstrap server answered")


class Through(MemoryCluster):
    """A cluster as one place sees it, through a network that may be cut for this place alone."""

    def __init__(
        self, cluster: Cluster, trouble: Callable[[], ProbeFailure | None], identify: Identify = anyone
    ) -> None:
        super().__init__(cluster.name)
        self._identify = identify
        self._cluster = cluster
        self._trouble = trouble
        self.topics = cluster.topics

    def _reach(self, timeout: float) -> None:
        trouble = self._trouble()
        if trouble is not None:
            raise CredentialRefused(trouble.text) if trouble.kind == "credential" else ClusterUnreachable(trouble.text)
        self._cluster._reach(timeout)
        self._identify(self._cluster.cluster_id)
