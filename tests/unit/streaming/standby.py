"""A standby of plain lists behind the port ``streaming.cluster_log.ClusterLog``, and builders of positions."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from state.model.entities import EndSample, Fingerprint, TopicPartition
from state.model.fingerprints import Fingerprints
from state.settings.keys import MethodName
from streaming.cluster_log import (
    ClusterLog,
    Entries,
    Entry,
    Fetched,
    LogRecord,
    OffsetAnswer,
    PartitionError,
    PartitionFacts,
    Spec,
    TopicFacts,
)
from streaming.resolve.resolver import resolve
from streaming.resume.model import Resolution, Rules, Target, Want

NOW = datetime(2026, 1, 1, tzinfo=UTC)
T0 = 1_700_000_000_000

Record = tuple[int, int, str]
"""Offset, time and value."""
Records = list[Record]


def digest(value: str) -> bytes:
    return hashlib.blake2b(value.encode(), digest_size=16).digest()


@dataclass
class Slot:
    """One partition: records (offset, time, value), begin and ends."""

    records: Records
    begin: int = 0
    end: int | None = None
    stable: int | None = None
    append_time: bool = False
    error: PartitionError | None = None
    answers: list[LogRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.end is None:
            self.end = self.records[-1][0] + 1 if self.records else self.begin
        self.answers = [
            LogRecord(offset=o, timestamp_ms=t, digest=digest(v), append_time=self.append_time)
            for o, t, v in self.records
            if o >= self.begin
        ]


@dataclass
class Standby:
    """An in-memory cluster that answers a few records at a time and remembers what was requested."""

    slots: dict[TopicPartition, Slot]
    per_fetch: int = 7
    cleanup: str = "delete"
    knows_type: bool = True
    fails: dict[tuple[TopicPartition, int], PartitionError] = field(default_factory=dict)
    requested: list[str] = field(default_factory=list)
    fetched: int = 0
    topic_id: str | None = None
    written: Sequence[Entry] = ()
    """What lies in the topic ``syncs`` besides."""
    names: ClassVar[Any] = None
    segments: ClassVar[Any] = None
    epoch_ends: ClassVar[Any] = None

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        self.requested.append("describe")
        facts = {}
        for topic in topics:
            slots = {key.partition: slot for key, slot in self.slots.items() if key.topic == topic}
            if slots:
                stamped = any(slot.append_time for slot in slots.values())
                facts[topic] = TopicFacts(
                    name=topic,
                    topic_id=self.topic_id,
                    partitions={
                        n: PartitionFacts(leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,)) for n in slots
                    },
                    timestamp_type=("LogAppendTime" if stamped else "CreateTime") if self.knows_type else None,
                    cleanup_policy=self.cleanup,
                )
        return facts

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        self.requested += [Spec(time).name if time < 0 else "TIME" for time in dict.fromkeys(times.values())]
        return {key: self._look(key, time, read_committed) for key, time in times.items()}

    def entries(self, partition: TopicPartition, start: tuple[int, int], *, timeout: float) -> Entries:
        some = tuple(entry for entry in self.written if entry.offset >= start[0])[: self.per_fetch]
        return Entries(records=some, next_offset=some[-1].offset + 1 if some else start[0])

    def _look(self, key: TopicPartition, time: int, committed: bool) -> OffsetAnswer:
        slot = self.slots[key]
        error = self.fails.get((key, min(0, time)), slot.error)
        if error is not None:
            return OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=error)
        end = slot.stable if committed and slot.stable is not None else slot.end
        assert end is not None
        kept = [record for record in slot.answers if record.offset < end]
        if time == Spec.LATEST:
            return OffsetAnswer(offset=end, timestamp_ms=None, leader_epoch=0)
        if time == Spec.EARLIEST:
            return OffsetAnswer(offset=slot.begin, timestamp_ms=None, leader_epoch=0)
        found = (
            max(kept, key=lambda r: r.timestamp_ms, default=None)
            if time == Spec.MAX_TIMESTAMP
            else next((r for r in kept if r.timestamp_ms >= time), None)
        )
        if found is None:
            return OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None)
        return OffsetAnswer(offset=found.offset, timestamp_ms=found.timestamp_ms, leader_epoch=0)

    def fetch(
        self,
        starts: Mapping[TopicPartition, tuple[int, int]],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:
        self.fetched += 1
        out = {}
        for key, (offset, _) in starts.items():
            slot = self.slots[key]
            assert slot.end is not None
            last = (until or {}).get(key, slot.end)
            some = [record for record in slot.answers if offset <= record.offset < last][: self.per_fetch]
            reached = some[-1].offset + 1 if len(some) == self.per_fetch else max(offset, min(slot.end, last))
            out[key] = Fetched(
                records=tuple(some),
                next_offset=reached,
                high_watermark=slot.end,
                log_start=slot.begin,
                error=slot.error,
            )
        return out


def ring(records: Iterable[Record], last: int = 256) -> Fingerprints:
    return Fingerprints.of(Fingerprint(offset, time, digest(value)) for offset, time, value in records)[-last:]


def want(
    consumed: Sequence[Record],
    *,
    partition: int = 0,
    offset: int | None = None,
    untracked: int = 0,
    dense: bool | None = None,
    source: str = "orders",
    timestamp_ms: int | None = None,
    begin_known: int | None = 0,
    remembered: int = 256,
) -> Want:
    """A position right after ``consumed``; the last ``untracked`` of them were committed but not remembered."""
    known = list(consumed[: len(consumed) - untracked])
    place = known[-1][0] + 1 if known else 0
    end = consumed[-1][0] + 1 if consumed else 0
    newest = max((time for _, time, _ in known[-remembered:]), default=None)
    return Want(
        source=source,
        topic="orders",
        partition=partition,
        target_topic="orders",
        offset=end if offset is None else offset,
        ring=ring(known, remembered),
        ring_offset=place if known else None,
        dense=dense,
        begin_known=begin_known,
        timestamp_ms=newest if timestamp_ms is None else timestamp_ms,
    )


def sample(end: int, newest: int | None, partition: int = 0, at: datetime = NOW) -> dict[TopicPartition, EndSample]:
    key = TopicPartition("orders", partition)
    return {
        key: EndSample(
            cluster="east",
            topic="orders",
            partition=partition,
            begin=0,
            end=end,
            newest_timestamp_ms=newest,
            leader_epoch=0,
            topic_id=None,
            sampled_at=at,
        )
    }


def rules(*methods: MethodName, buffer_ms: int = 0, **more: Any) -> Rules:
    return Rules(
        methods=methods or (MethodName.EXACT, MethodName.TIMESTAMP),
        buffer_ms=buffer_ms,
        **more,
    )


def standby(*slots: Slot, **more: Any) -> Standby:
    keyed = {TopicPartition("orders", number): slot for number, slot in enumerate(slots)}
    return Standby(keyed, **more)


def found(
    log: ClusterLog,
    wants: Sequence[Want] | Want,
    using: Rules | None = None,
    old_ends: Mapping[TopicPartition, EndSample] | None = None,
    **more: float,
) -> Resolution:
    several = [wants] if isinstance(wants, Want) else wants
    return resolve(log, several, using or rules(), old_ends=old_ends or {}, now=NOW, timeout=60, **more)


def one(
    log: ClusterLog,
    position: Want,
    using: Rules | None = None,
    old_ends: Mapping[TopicPartition, EndSample] | None = None,
) -> Target:
    (target,) = found(log, position, using, old_ends).targets
    return target


def shows(target: Target, **wanted: Any) -> None:
    assert {name: getattr(target, name) for name in wanted} == wanted, target


def stream(first: int, count: int, *, step_ms: int = 10, name: str = "r") -> Records:
    """``count`` records of the old cluster from offset ``first`` on, one every ``step_ms``."""
    return [(i, T0 + i * step_ms, f"{name}{i}") for i in range(first, first + count)]


def copied(records: Iterable[Record], base: int = 0) -> Records:
    """The records as a replicator appends them: dense offsets from ``base`` on."""
    return [(base + i, time, value) for i, (_, time, value) in enumerate(records)]
