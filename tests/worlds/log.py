"""A world's standby behind the port ``ClusterLog``; it answers as a broker does, but for the world's one lie."""

import struct
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b

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
from tests.worlds.world import ABORTED, EPOCH_MS, GONE, MARKER, OPEN, SYNCS, TOPIC, Kept, Partition, World

_BYTES = 100
"""What one record counts for against a fetch's limit."""
_TIMES = frozenset({"time-late", "time-early", "time-none"})
_NEWEST = frozenset({"stale-newest", "no-newest"})


@cache
def digest(payload: str) -> bytes:
    """The fingerprint's hash of a payload."""
    return blake2b(payload.encode(), digest_size=16).digest()


def present(partition: Partition) -> list[Kept]:
    """What lies in the standby's partition now, markers too."""
    return [row for row in partition.kept if row.offset >= partition.kept_begin and row.state != GONE]


def offset_syncs(partition: Partition, lag: int | None) -> list[tuple[int, int]]:
    """The pairs (old offset, offset here) that MirrorMaker 2 has written: ``PartitionState.update`` of its sources.

    It writes one for the first record of each run, and for one behind a gap of old offsets. It also writes one for the
    record that is ``lag`` offsets here or more behind the last pair's.
    """
    pairs: list[tuple[int, int]] = []
    before: int | None = None
    for row in partition.kept:
        if row.of is None or lag is None:
            continue
        is_first = before is None or row.of <= before
        if is_first or row.of - (before or 0) != 1 or row.offset - (pairs[-1][1] + 1) >= lag:
            pairs.append((row.of, row.offset))
        before = row.of
    return pairs


def _entry(offset: int, partition: int, here: int, there: int) -> Entry:
    name = TOPIC.encode()
    key = struct.pack(">h", len(name)) + name + struct.pack(">i", partition)
    return Entry(offset, key, struct.pack(">qq", here, there))


@dataclass
class WorldLog:
    """The standby. It counts its answers by kind, so that a wrong answer can be given in one of them only."""

    world: World
    reported: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._present = [present(partition) for partition in self.world.partitions]
        self._records = [
            [
                LogRecord(
                    offset=row.offset,
                    timestamp_ms=EPOCH_MS + row.time,
                    digest=digest(row.payload),
                    append_time=self.world.append_time,
                    leader_epoch=0,
                    uncommitted=row.state in (ABORTED, OPEN),
                )
                for row in rows
                if row.state != MARKER
            ]
            for rows in self._present
        ]
        pairs = [
            (number, pair)
            for number, part in enumerate(self.world.partitions)
            for pair in offset_syncs(part, self.world.sync_lag)[self.world.syncs_lost :]
        ]
        self._syncs = [_entry(offset, number, *pair) for offset, (number, pair) in enumerate(pairs)]

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        """The one topic that there is."""
        stamps = "LogAppendTime" if self.world.append_time else "CreateTime"
        facts = PartitionFacts(leader=0, leader_epoch=0, replicas=(0,), in_sync=(0,))
        found = TopicFacts(
            name=TOPIC,
            topic_id="primary" if self.world.same_id else "standby",
            partitions=dict.fromkeys(range(len(self.world.partitions)), facts),
            timestamp_type=stamps if self.world.knows_type else None,
            cleanup_policy="compact" if self.world.compacted else "delete",
        )
        return {TOPIC: found} if TOPIC in topics else {}

    def names(self, *, timeout: float) -> Collection[str]:
        """Of all topics."""
        return (TOPIC,)

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        """One look-up per partition, as a broker answers it, or as the lie has it."""
        return {key: self._look(key, time, read_committed) for key, time in times.items()}

    def fetch(
        self,
        starts: Mapping[TopicPartition, tuple[int, int]],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:
        """Records from an offset on; a fetch never lies."""
        return {
            key: self._read(key, offset, size, (until or {}).get(key), read_committed)
            for key, (offset, size) in starts.items()
        }

    def segments(
        self, times: Mapping[TopicPartition, int], *, limit: int = 1, timeout: float
    ) -> Mapping[TopicPartition, Segments]:
        """As Kafka 4, which does not know this question, or as before: ``fetchOffsetsBefore`` of ``kafka.log``."""
        error = PartitionError(name="UNSUPPORTED_VERSION", text="no segment-level search", retriable=False)
        if self.world.segment_rows is None:
            return dict.fromkeys(times, Segments(offsets=(), error=error))
        found = {key: self._segments(self._of(key), time - EPOCH_MS) for key, time in times.items()}
        return {key: Segments(offsets=offsets[:limit], error=None) for key, offsets in found.items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int], *, timeout: float) -> Mapping[TopicPartition, EpochEnd]:
        """One epoch, that ends at the log's end."""
        return {key: EpochEnd(leader_epoch=0, end_offset=self._of(key).kept_end) for key in epochs}

    def entries(self, partition: TopicPartition, start: tuple[int, int], *, timeout: float) -> Entries:
        """The offset syncs, all in one partition."""
        some = tuple(self._syncs[start[0] :][: self.world.per_fetch]) if partition.topic == SYNCS else ()
        return Entries(records=some, next_offset=start[0] + len(some))

    def _segments(self, part: Partition, time: int) -> tuple[int, ...]:
        """Newest first: where segments begin that were last written by that time, by the clock of the standby.

        That clock shows no earlier time than a record that it has, and is a millisecond late. It is the records' own
        time where it stamps them.
        """
        size, written = self.world.segment_rows or 1, dict[int, int]()
        newest = 0
        for row in part.kept:
            newest = max(newest, row.time + (not self.world.append_time))
            written[row.offset // size * size] = newest
        old = [
            max(base, part.kept_begin) for base, at in written.items() if at <= time and base + size > part.kept_begin
        ]
        return (*([part.kept_end] if self.world.now <= time else []), *reversed(old))

    def _of(self, key: TopicPartition) -> Partition:
        return self.world.partitions[key.partition]

    def _lies(self, key: TopicPartition, kinds: Collection[str]) -> str:
        """The kind of lie that this answer is, or nothing."""
        lie = self.world.lie
        if lie is None or lie.kind not in kinds or lie.partition != key.partition:
            return ""
        number = self.reported[lie.kind]
        self.reported[lie.kind] += 1
        return lie.kind if lie.only in (None, number) else ""

    def _look(self, key: TopicPartition, time: int, committed: bool) -> OffsetAnswer:
        if key.topic == SYNCS:
            return _answer({Spec.LATEST: len(self._syncs), Spec.EARLIEST: 0}.get(Spec(time)))
        part, lie = self._of(key), self.world.lie
        amount = lie.amount if lie is not None else 0
        end = part.stable if committed and part.stable is not None else part.kept_end
        if time == Spec.LATEST:
            kind = self._lies(key, ("stale-end", "end-ahead"))
            return _answer({"stale-end": max(part.kept_begin, end - amount), "end-ahead": end + amount}.get(kind, end))
        if time == Spec.EARLIEST:
            stale = self._lies(key, ("stale-begin",))
            return _answer(max(0, part.kept_begin - amount) if stale else part.kept_begin)
        if time == Spec.MAX_TIMESTAMP:
            return self._newest(key, end, amount)
        return self._first_since(key, time - EPOCH_MS, end, amount)

    def _newest(self, key: TopicPartition, end: int, amount: int) -> OffsetAnswer:
        kind = self._lies(key, _NEWEST)
        if kind == "no-newest":
            return _answer(None)
        rows = [row for row in self._present[key.partition] if row.offset < end - (amount if kind else 0)]
        found = max(rows, key=lambda row: (row.time, -row.offset), default=None)
        return _answer(None) if found is None else _answer(found.offset, found.time)

    def _first_since(self, key: TopicPartition, time: int, end: int, amount: int) -> OffsetAnswer:
        rows = self._present[key.partition]
        index = next((n for n, row in enumerate(rows) if row.time >= time), len(rows))
        kind = self._lies(key, _TIMES)
        if kind == "time-none":
            return _answer(None)
        if kind:
            index = max(0, index + (amount if kind == "time-late" else -amount))
        if index >= len(rows) or rows[index].offset >= end:
            return _answer(None)
        return _answer(rows[index].offset, rows[index].time)

    def _read(self, key: TopicPartition, offset: int, size: int, until: int | None, committed: bool) -> Fetched:
        part = self._of(key)
        if not part.kept_begin <= offset <= part.kept_end:
            error = PartitionError(name="OFFSET_OUT_OF_RANGE", text="the log has no such offset", retriable=False)
            return Fetched(records=(), next_offset=offset, high_watermark=None, log_start=None, error=error)
        end = part.stable if committed and part.stable is not None else part.kept_end
        end = end if until is None else min(end, until)
        ahead = [
            record
            for record in self._records[key.partition]
            if offset <= record.offset < end and not (committed and record.uncommitted)
        ]
        given = ahead[: min(size // _BYTES, self.world.per_fetch)]
        more = len(given) < len(ahead)
        return Fetched(
            records=tuple(given),
            next_offset=(given[-1].offset + 1 if given else offset) if more else max(offset, end),
            high_watermark=part.kept_end,
            log_start=part.kept_begin,
            needs_bytes=_BYTES if more and not given else 0,
        )


def _answer(offset: int | None, time: int | None = None) -> OffsetAnswer:
    stamp = None if time is None else EPOCH_MS + time
    return OffsetAnswer(offset=offset, timestamp_ms=stamp, leader_epoch=None if offset is None else 0)
