"""What records, brokers and replicators do to a log: one case each, written to the primary in its own way."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.alignment.pair import PARTITIONS
from tests.alignment.records import Writer

_REMEMBERED = 256

_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "segment.bytes": "1048576",
}
_FAR_MS = 100_000_000_000


Write = Callable[[Writer, int, int], None]
"""Writes so many records to each partition, from a time in milliseconds on."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of the matrix."""

    name: str
    """In words; its topic is called after it."""
    write: Write
    share: float = 1.0
    """Of the positions, so much must be found exactly."""
    primary: Mapping[str, str] = field(default_factory=dict)
    standby: Mapping[str, str] = field(default_factory=dict)
    producer: Mapping[str, str] = field(default_factory=dict)
    read_committed: bool = True
    """Whether the query reads so; it remembers only what it saw."""
    killed: bool = False
    """Whether the replicator is killed while the records are on their way."""
    late: int = 0
    """Records per partition that a lagging standby does not get."""
    behind: tuple[int, int] | None = None
    """How many of the late ones a query has read, at least and at most; None: it is anywhere."""
    most: int = 3000
    """Records per partition, at most."""
    compacted: bool = False
    first: int = 1
    """No position before this one is drawn."""

    @property
    def topic(self) -> str:
        """Name of its topic on both sides."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name)


def _partitions(write_one: Callable[[Writer, int, int, int], None]) -> Write:
    """Write record by record, partition by partition: ``(writer, partition, index, time)``."""

    def write(writer: Writer, count: int, start_ms: int) -> None:
        for partition in range(PARTITIONS):
            for _ in range(count):
                write_one(writer, partition, writer.written[partition], start_ms)

    return write


def _beat(writer: Writer, index: int) -> bytes:
    """Nineteen records of twenty are the same."""
    return b"beat" if writer.chance.random() < 0.95 else b"v%d" % index


@_partitions
def plain(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    at = start_ms + 10 * index + writer.chance.choice([0, 1, 7])
    writer.put(partition, b"k%d" % writer.chance.randrange(50), b"v%d" % index, at)


@_partitions
def crowded(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"k", b"v%d" % index, start_ms + index // 500)


@_partitions
def disordered(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"k", b"v%d" % index, start_ms + 10 * index + writer.chance.randint(-5000, 5000))


@_partitions
def backwards(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"k", b"v%d" % index, start_ms - 10 * index)


@_partitions
def far_ahead(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    ahead = _FAR_MS if index % 1200 == 200 else 0
    writer.put(partition, b"k", b"v%d" % index, start_ms + 10 * index + ahead)


@_partitions
def repeating(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"beat", _beat(writer, index), start_ms + index)


@_partitions
def crowded_repeating(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"beat", _beat(writer, index), start_ms + index // 30)


@_partitions
def current(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"k", b"v%d" % index, _now_ms())


@_partitions
def current_repeating(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"beat", _beat(writer, index), _now_ms())


@_partitions
def ahead_of_the_standby(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"k", b"v%d" % index, _now_ms() + 3_600_000)


@_partitions
def odd(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    """Tombstones, no keys and empty ones, and now and then 900 kB that no codec shortens."""
    draw = writer.chance.random()
    value = None if draw < 0.2 else os.urandom(900_000 if draw < 0.24 and partition < 2 else 30)
    writer.put(partition, None if writer.chance.random() < 0.3 else b"", value, start_ms + 3 * index)


@_partitions
def compressible(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    writer.put(partition, b"k%d" % index, b"v%d" % index * 20, start_ms + index)


@_partitions
def overwritten(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    """Seven records of ten belong to forty keys; one of ten is a tombstone."""
    _overwrite(writer, partition, index, start_ms + index)


@_partitions
def overwritten_disordered(writer: Writer, partition: int, index: int, start_ms: int) -> None:
    _overwrite(writer, partition, index, start_ms + 10 * index + writer.chance.randint(-5000, 5000))


def _overwrite(writer: Writer, partition: int, index: int, at: int) -> None:
    chance = writer.chance
    key = b"k%d" % (chance.randrange(40) if chance.random() < 0.7 else index + 1000)
    writer.put(partition, key, os.urandom(4000) if chance.random() < 0.9 else None, at)


def in_transactions(writer: Writer, count: int, start_ms: int) -> None:
    """Of three transactions one is aborted; the markers of all take offsets that the standby does not have."""
    writer.producer.init_transactions()
    index = 0
    while index < count * PARTITIONS:
        writer.producer.begin_transaction()
        for _ in range(writer.chance.randint(5, 40)):
            index += 1
            writer.put(writer.chance.randrange(PARTITIONS), b"k", b"v%d" % index, start_ms + index)
        writer.flush()
        if writer.chance.random() < 0.35:
            writer.producer.abort_transaction()
        else:
            writer.producer.commit_transaction()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


CASES: tuple[Case, ...] = (
    Case(name="plain", write=plain),
    Case(name="500 records per millisecond", write=crowded),
    Case(name="times out of order by 5 s", write=disordered),
    Case(name="time running backwards", write=backwards),
    Case(name="single records of the far future", write=far_ahead),
    Case(name="identical payloads, times differ", write=repeating),
    Case(name="identical payloads, 30 per millisecond", write=crowded_repeating, share=53 / 60),
    Case(name="LogAppendTime on the standby", write=current, standby=_APPEND_TIME),
    Case(name="LogAppendTime, identical payloads", write=current_repeating, standby=_APPEND_TIME, share=32 / 60),
    Case(
        name="LogAppendTime, standby's clock an hour behind",
        write=ahead_of_the_standby,
        standby=_APPEND_TIME,
        share=0.9,
    ),
    Case(name="replicator killed", write=current, killed=True),
    Case(  # what is sent again may equal a record that was not read: no place is called exact then
        name="replicator killed, identical payloads",
        write=current_repeating,
        killed=True,
        share=0.9,
    ),
    Case(name="compacted standby", write=overwritten, standby=_COMPACTED, most=1500, compacted=True),
    Case(name="compacted primary", write=overwritten, primary=_COMPACTED, most=1500, compacted=True),
    Case(
        name="compacted standby, times out of order by 5 s",
        write=overwritten_disordered,
        standby=_COMPACTED,
        most=1500,
        compacted=True,
        share=0.9,
    ),
    Case(
        name="transactions, aborted ones too",
        write=in_transactions,
        producer={"transactional.id": "committed"},
        most=400,
        first=40,  # a handful of records that were read, and as many aborted ones between, show no place
    ),
    Case(
        name="the same, read uncommitted",
        write=in_transactions,
        producer={"transactional.id": "uncommitted"},
        most=400,
        read_committed=False,
    ),
    Case(name="tombstones, no keys, 900 kB, headers", write=odd, most=150),
    *(
        Case(
            name=f"compressed, {codec}",
            write=compressible,
            producer={"compression.type": codec, "linger.ms": "50"},
            standby={"compression.type": codec},
            most=600,
        )
        for codec in ("gzip", "lz4", "zstd", "snappy")
    ),
    Case(name="standby lags by up to 255 records", write=plain, late=400, behind=(1, _REMEMBERED - 1), most=600),
    Case(name="standby lags by 256 to 900 records", write=plain, late=900, behind=(_REMEMBERED, 900), most=600),
)
