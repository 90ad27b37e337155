"""The port through which a cluster's log is looked at: bounded questions, answers per partition.

``streaming.kafka.link.Link`` answers from real brokers; ``tests.memory_log.MemoryCluster`` is its in-memory twin for
pure logic and for faults that cannot be made otherwise. Errors of one partition never hide another's answer, and no
question creates a topic. Times are Kafka's: milliseconds since the epoch.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple, Protocol

from state.model.entities import TopicPartition

OFFSET = attrgetter("offset")
"""By which records, ours and a log's, lie in order: the key to bisect them by."""


class Spec(IntEnum):
    """ListOffsets' reserved timestamps (KIP-79, KIP-734): -1 is latest, -2 earliest, -3 the largest timestamp."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionError:
    """An error of one partition: Kafka's own name for it, and whether a second request can help."""

    name: str
    """``UNKNOWN_TOPIC_OR_PARTITION``, ``TIMED_OUT``, ``UNSUPPORTED_FOR_MESSAGE_FORMAT`` ..."""
    text: str
    retriable: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionFacts:
    """One partition as metadata describes it."""

    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader_address: str | None = None
    """``host:port`` of the leader, for sentences; None where it is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicFacts:
    """One topic as metadata and its configuration describe it."""

    name: str
    topic_id: str | None
    partitions: Mapping[int, PartitionFacts]
    timestamp_type: str | None
    """``CreateTime`` or ``LogAppendTime``; None when the configuration may not be read."""
    cleanup_policy: str | None
    """``delete``, ``compact`` or ``compact,delete``."""
    error: PartitionError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OffsetAnswer:
    """The answer to one offset look-up."""

    offset: int | None
    """None without an error: no record at or after that time."""
    timestamp_ms: int | None
    leader_epoch: int | None
    error: PartitionError | None = None

    @property
    def is_blank(self) -> bool:
        """Whether it was answered and names no record: there is none, or the one there is may not be read yet."""
        return self.error is None and self.offset is None


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochEnd:
    """Where a leader epoch ends in a partition's log as it is now (OffsetForLeaderEpoch; KIP-101, KIP-320)."""

    leader_epoch: int | None
    """The largest epoch of the log that is not above the requested one; None without an error. The log knows of none
    that it could compare, as when the requested one is newer than all of its own."""
    end_offset: int | None
    """First offset of the next epoch, or the log's end where there is none."""
    error: PartitionError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Segments:
    """The answer to a segment-level search (ListOffsets version 0)."""

    offsets: tuple[int, ...]
    """Newest first: base offsets of segments last written at or before the time, the log's end in front of them where
    even now is not after it. Empty without an error: no segment is that old."""
    error: PartitionError | None = None


class LogRecord(NamedTuple):
    """A record reduced to what alignment needs; a tuple, because hundreds of thousands are made at a time."""

    offset: int
    timestamp_ms: int
    digest: bytes
    """blake2b-16 over key and value, null unlike empty; see ``streaming.kafka.requests.records.digest``."""
    append_time: bool
    """Its batch carries the LogAppendTime bit: its time was set by this cluster's broker."""
    leader_epoch: int | None = None
    """Epoch of the leader that appended its batch; None when the cluster does not keep it."""
    uncommitted: bool = False
    """Its transaction was aborted, or had not ended as far as was read; never so of what a read_committed fetch
    returns."""


class Entry(NamedTuple):
    """A record with all that is in it."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """In their order; a name may come more than once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entries:
    """Records of one partition in full, from a wanted offset on; the other fields are as in ``Fetched``."""

    records: tuple[Entry, ...]
    next_offset: int
    needs_bytes: int = 0
    error: PartitionError | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """Records of one partition from a wanted offset on, as many as fitted."""

    records: tuple[LogRecord, ...]
    """Data records only; control batches are skipped but move ``next_offset``."""
    next_offset: int
    """Where to fetch next; equal to the wanted offset when nothing was returned."""
    high_watermark: int | None
    log_start: int | None
    needs_bytes: int = 0
    """The next batch did not fit: fetch again with at least this many bytes; 0 otherwise."""
    error: PartitionError | None = None


class ClusterLog(Protocol):
    """A cluster that can be looked at. Every call returns by its deadline (seconds from now), complete or not."""

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        """Facts of these topics. Raises ``ClusterUnreachable`` when no bootstrap server answers in time."""

    def names(self, *, timeout: float) -> Collection[str]:
        """The topics that a pattern may match: all but Kafka's internal ones. Raises ``ClusterUnreachable``."""

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        """Look up one time or ``Spec`` per partition, all leaders in parallel. Never raises for a partition."""

    def fetch(
        self,
        starts: Mapping[TopicPartition, tuple[int, int]],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:
        """Read from ``(offset, max bytes)`` per partition, one request per leader, all leaders in parallel.

        Records at an offset in ``until`` or after it are left out, and ``next_offset`` is not beyond it.
        """

    def segments(
        self, times: Mapping[TopicPartition, int], *, limit: int = 1, timeout: float
    ) -> Mapping[TopicPartition, Segments]:
        """At most ``limit`` segments per partition last written at or before a time, or from a ``Spec`` downwards.

        Only brokers up to Kafka 3.9 answer; others are an error of the partition. Raises ValueError for another
        negative time, for the largest timestamp, which this search does not know, and for a limit below 1.
        """

    def epoch_ends(self, epochs: Mapping[TopicPartition, int], *, timeout: float) -> Mapping[TopicPartition, EpochEnd]:
        """Where one leader epoch per partition ends, all leaders in parallel. Never raises for a partition."""

    def entries(self, partition: TopicPartition, start: tuple[int, int], *, timeout: float) -> Entries:
        """Read from ``(offset, max bytes)`` of one partition, each record in full, aborted ones too."""


Logs = Callable[[str], ClusterLog]
"""A way to look at a cluster by its name; raises ``ClusterUndeclared`` for one that the configuration has not."""
