"""A cluster's log in memory: the twin of ``streaming.kafka.link.Link`` for pure logic, and for faults on demand."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from state.model.entities import TopicPartition
from streaming.cluster_log import (
    Entries,
    Entry,
    EpochEnd,
    Fetched,
    LogRecord,
    OffsetAnswer,
    PartitionError,
    PartitionFacts,
    Segments,
    Spec,
    TopicFacts,
)
from streaming.errors import ClusterUnreachable
from streaming.kafka.requests.records import digest

RECORD_BYTES = 100
"""What each record counts for against a fetch's limit."""


@dataclass(kw_only=True, slots=True)
class MemoryPartition:
    """One partition: data records by offset, holes between them where markers or compacted records would be."""

    records: list[LogRecord] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    stable: int | None = None
    """Last stable offset; None when no transaction is open."""
    leader_epoch: int = 0
    epoch_starts: dict[int, int] = field(default_factory=lambda: {0: 0})
    """First offset of each leader epoch, ascending: what a broker keeps in ``leader-epoch-checkpoint``."""
    active: int = 0
    """Base offset of the segment that is being written."""
    rolled: list[tuple[int, int]] = field(default_factory=list)
    """Base offset of each older segment, and when it was last written, in milliseconds."""
    entries: list[Entry] = field(default_factory=list)
    error: PartitionError | None = None
    """What every question about it is answered with, if set."""


@dataclass(kw_only=True, slots=True)
class MemoryTopic:
    """One topic and its two settings that matter."""

    partitions: dict[int, MemoryPartition]
    topic_id: str
    append_time: bool = False
    cleanup_policy: str = "delete"


class MemoryCluster:
    """A ``ClusterLog`` whose content and faults a test sets."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.topics: dict[str, MemoryTopic] = {}
        self.cluster_id: str | None = None
        """What it calls itself."""
        self.unreachable = False
        self.knows_segments = True
        """Whether it still answers segment-level searches, as Kafka up to 3.9."""
        self.now_ms = (1 << 63) - 1
        """The brokers' clock, of which only segment-level searches take notice: by default after every time."""
        self._created = 0

    def create(self, topic: str, partitions: int = 1, *, append_time: bool = False, cleanup: str = "delete") -> None:
        """Make a topic again, with a new topic id; what was there under its name is gone."""
        self._created += 1
        self.topics[topic] = MemoryTopic(
            partitions={number: MemoryPartition() for number in range(partitions)},
            topic_id=f"{self.name}-{topic}-{self._created}",
            append_time=append_time,
            cleanup_policy=cleanup,
        )

    def append(self, topic: str, partition: int, timestamp_ms: int, digest: bytes) -> int:
        """Append one data record; returns its offset. On an append-time topic the time is the broker's."""
        kept, log = self.topics[topic], self.partition(topic, partition)
        offset = log.end
        log.records.append(
            LogRecord(
                offset=offset,
                timestamp_ms=timestamp_ms,
                digest=digest,
                append_time=kept.append_time,
                leader_epoch=log.leader_epoch,
            )
        )
        log.end += 1
        return offset

    def skip(self, topic: str, partition: int, count: int = 1) -> None:
        """Use up offsets without data records, as markers and aborted transactions do."""
        self.partition(topic, partition).end += count

    def compact(self, topic: str, partition: int, offsets: Collection[int]) -> None:
        """Take records away and leave holes."""
        log = self.partition(topic, partition)
        log.records = [record for record in log.records if record.offset not in offsets]

    def retain(self, topic: str, partition: int, begin: int) -> None:
        """Let the log begin later, as retention does."""
        log = self.partition(topic, partition)
        log.begin = max(log.begin, begin)
        log.records = [record for record in log.records if record.offset >= log.begin]

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Cut the log's end off under a new leader epoch, as an unclean election does."""
        log = self.partition(topic, partition)
        log.end = end
        log.records = [record for record in log.records if record.offset < end]
        log.entries = [entry for entry in log.entries if entry.offset < end]
        log.epoch_starts = {epoch: start for epoch, start in log.epoch_starts.items() if start < end}
        self.elect(topic, partition)

    def elect(self, topic: str, partition: int, leader_epoch: int | None = None) -> None:
        """Let a new leader continue at the log's end, under the next epoch or a later one."""
        log = self.partition(topic, partition)
        log.leader_epoch = log.leader_epoch + 1 if leader_epoch is None else leader_epoch
        log.epoch_starts[log.leader_epoch] = log.end

    def roll(self, topic: str, partition: int, written_ms: int) -> None:
        """Begin a new segment at the log's end; the one before was last written at that time."""
        log = self.partition(topic, partition)
        log.rolled.append((log.active, written_ms))
        log.active = log.end

    def partition(self, topic: str, partition: int) -> MemoryPartition:
        """The partition itself, to set faults on; KeyError when there is none."""
        return self.topics[topic].partitions[partition]

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        """Facts of these topics, as ``ClusterLog.describe``."""
        self._reach(timeout)
        return {name: self._facts(name) for name in topics}

    def names(self, *, timeout: float) -> Collection[str]:
        """All topics, as ``ClusterLog.names``."""
        self._reach(timeout)
        return tuple(self.topics)

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        """One time or ``Spec`` per partition, as ``ClusterLog.offsets``; ValueError for another negative time."""
        for time in times.values():
            if time < 0 and time not in frozenset(Spec):
                raise ValueError(f"{time} is not a time: milliseconds since the epoch, or a Spec")
        self._reach(timeout)
        return {
            partition: self._look_up(partition, time, read_committed=read_committed)
            for partition, time in times.items()
        }

    def fetch(
        self,
        starts: Mapping[TopicPartition, tuple[int, int]],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:
        """Records from ``(offset, max bytes)`` per partition, as ``ClusterLog.fetch``; each counts ``RECORD_BYTES``."""
        self._reach(timeout)
        until = until or {}
        return {
            partition: self._read(partition, offset, size, until.get(partition), read_committed=read_committed)
            for partition, (offset, size) in starts.items()
        }

    def segments(
        self, times: Mapping[TopicPartition, int], *, limit: int = 1, timeout: float
    ) -> Mapping[TopicPartition, Segments]:
        """The newest segments, as ``ClusterLog.segments``; the one being written counts as written now."""
        for time in times.values():
            if (time < 0 and time not in (Spec.LATEST, Spec.EARLIEST)) or limit < 1:
                raise ValueError(f"{time}, at most {limit}: no question for a segment-level search")
        self._reach(timeout)
        return {partition: self._segments(partition, time, limit) for partition, time in times.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int], *, timeout: float) -> Mapping[TopicPartition, EpochEnd]:
        """Where one leader epoch per partition ends, as ``ClusterLog.epoch_ends``."""
        self._reach(timeout)
        return {partition: self._epoch_end(partition, epoch) for partition, epoch in epochs.items()}

    def append_entry(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int = 0
    ) -> int:
        """Append a record that can be read in full by ``entries``; returns its offset."""
        offset = self.append(topic, partition, timestamp_ms, digest(key, value))
        self.partition(topic, partition).entries.append(Entry(offset, key, value, timestamp_ms))
        return offset

    def entries(self, partition: TopicPartition, start: tuple[int, int], *, timeout: float) -> Entries:
        """Records in full, as ``ClusterLog.entries``: those that were appended by ``append_entry``."""
        fetched = self.fetch({partition: start}, timeout=timeout)[partition]
        log, _ = self._find(partition)
        given = () if log is None else tuple(e for e in log.entries if start[0] <= e.offset < fetched.next_offset)
        return Entries(
            records=given, next_offset=fetched.next_offset, needs_bytes=fetched.needs_bytes, error=fetched.error
        )

    def _reach(self, timeout: float) -> None:
        if self.unreachable:
            raise ClusterUnreachable(f"{self.name}: no broker answered within {timeout:g} s")

    def _facts(self, name: str) -> TopicFacts:
        topic = self.topics.get(name)
        if topic is None:
            return TopicFacts(
                name=name, topic_id=None, partitions={}, timestamp_type=None, cleanup_policy=None, error=_unknown()
            )
        return TopicFacts(
            name=name,
            topic_id=topic.topic_id,
            partitions={
                number: PartitionFacts(leader=0, leader_epoch=log.leader_epoch, replicas=(0,), in_sync=(0,))
                for number, log in topic.partitions.items()
            },
            timestamp_type="LogAppendTime" if topic.append_time else "CreateTime",
            cleanup_policy=topic.cleanup_policy,
        )

    def _find(self, partition: TopicPartition) -> tuple[MemoryPartition | None, PartitionError | None]:
        topic = self.topics.get(partition.topic)
        log = topic.partitions.get(partition.partition) if topic else None
        return log, log.error if log else _unknown()

    def _look_up(self, partition: TopicPartition, time: int, *, read_committed: bool) -> OffsetAnswer:
        log, error = self._find(partition)
        if log is None or error is not None:
            return OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=error)
        end = _visible_end(log, read_committed=read_committed)
        if time == Spec.LATEST:
            return OffsetAnswer(offset=end, timestamp_ms=None, leader_epoch=log.leader_epoch)
        if time == Spec.EARLIEST:
            epoch = max((epoch for epoch, start in log.epoch_starts.items() if start <= log.begin), default=None)
            return OffsetAnswer(offset=log.begin, timestamp_ms=None, leader_epoch=epoch)
        if time == Spec.MAX_TIMESTAMP:
            found = max(log.records, key=lambda record: (record.timestamp_ms, -record.offset), default=None)
        else:
            found = next((record for record in log.records if record.timestamp_ms >= time), None)
        if found is None or found.offset >= end:  # a broker does not continue to one that may be seen
            return OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None)
        return OffsetAnswer(offset=found.offset, timestamp_ms=found.timestamp_ms, leader_epoch=found.leader_epoch)

    def _segments(self, partition: TopicPartition, time: int, limit: int) -> Segments:
        log, error = self._find(partition)
        if not self.knows_segments:
            text = "the broker does not support segment-level search"
            error = PartitionError(name="UNSUPPORTED_VERSION", text=text, retriable=False)
        if log is None or error is not None:
            return Segments(offsets=(), error=error)
        written = [*((max(base, log.begin), at) for base, at in log.rolled), (max(log.active, log.begin), self.now_ms)]
        if log.end > log.active:
            written.append((log.end, self.now_ms))
        count = 1 if time == Spec.EARLIEST else len(written)
        if time >= 0:
            count = max((index + 1 for index, (_, at) in enumerate(written) if at <= time), default=0)
        return Segments(offsets=tuple(base for base, _ in reversed(written[:count]))[:limit])

    def _epoch_end(self, partition: TopicPartition, requested: int) -> EpochEnd:
        log, error = self._find(partition)
        if log is None or error is not None:
            return EpochEnd(leader_epoch=None, end_offset=None, error=error)
        newest = max(log.epoch_starts, default=-1)
        if requested == newest:
            return EpochEnd(leader_epoch=requested, end_offset=log.end)
        if requested > newest:
            return EpochEnd(leader_epoch=None, end_offset=None)
        following = min(epoch for epoch in log.epoch_starts if epoch > requested)
        kept = max((epoch for epoch in log.epoch_starts if epoch <= requested), default=requested)
        return EpochEnd(leader_epoch=kept, end_offset=log.epoch_starts[following])

    def _read(
        self, partition: TopicPartition, offset: int, size: int, until: int | None, *, read_committed: bool
    ) -> Fetched:
        log, error = self._find(partition)
        if log is not None and error is None and not log.begin <= offset <= log.end:
            error = PartitionError(name="OFFSET_OUT_OF_RANGE", text="the log has no such offset", retriable=False)
        if log is None or error is not None:
            return Fetched(records=(), next_offset=offset, high_watermark=None, log_start=None, error=error)
        end = _visible_end(log, read_committed=read_committed)
        end = end if until is None else min(end, until)
        ahead = [
            record
            for record in log.records
            if offset <= record.offset < end and not (read_committed and record.uncommitted)
        ]
        given = ahead[: size // RECORD_BYTES]
        more = len(given) < len(ahead)
        return Fetched(
            records=tuple(given),
            next_offset=(given[-1].offset + 1 if given else offset) if more else max(offset, end),
            high_watermark=log.end,
            log_start=log.begin,
            needs_bytes=RECORD_BYTES if more and not given else 0,
        )


def _visible_end(log: MemoryPartition, *, read_committed: bool) -> int:
    return log.stable if read_committed and log.stable is not None else log.end


def _unknown() -> PartitionError:
    return PartitionError(name="UNKNOWN_TOPIC_OR_PARTITION", text="no such topic or partition", retriable=False)
