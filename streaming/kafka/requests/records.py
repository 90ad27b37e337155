"""Record batches (magic 2) reduced to fingerprints, without building a record object of keys, values and headers.

The library's own reader makes an object of every field of every record. Alignment and tracking need an offset, a
time and a digest, and often only of the last few records of a batch.
"""

import gzip
import hashlib
import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

import crc32c
from kafka import codec
from kafka.record import MemoryRecords

from streaming.cluster_log import Entry, LogRecord, PartitionError

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and largest time,
# producer id and epoch, base sequence, record count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_CONTROL_KEY = struct.Struct(">hh")
_PREFIX = 12  # base offset and length: what the length does not count
_MAGIC_AT = 16
_CRC_FROM = 21
_COMPRESSION, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_SPECIAL = _TRANSACTIONAL | _CONTROL
_ABORT = 0
_UNKNOWN_NEED = 1 << 16
_NULL = 1
"""A length of -1 as a zigzag varint."""

_DECOMPRESS = {1: gzip.decompress, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}


class Decoded(NamedTuple):
    """What a fetched stretch of a log holds."""

    records: tuple[LogRecord, ...]
    next_offset: int
    """After the last whole batch, 0 when there is none."""
    needs_bytes: int = 0
    """Size of the batch that was cut off at the end, 0 when none was."""
    error: PartitionError | None = None


def digest(key: bytes | None, value: bytes | None) -> bytes:
    """Return the record's identity: blake2b-16 of key and value; a null is not an empty byte string."""
    named = b"-" if key is None else b"+%d:%b" % (len(key), key)
    return hashlib.blake2b(named + (b"-" if value is None else b"+" + value), digest_size=16).digest()


def in_full(buffer: bytes, offsets: Collection[int]) -> tuple[Entry, ...]:
    """Read the records at these offsets with everything in them, by the library's own reader.

    ``decode`` has been through the same bytes before, so what is cut off or broken is known.
    """
    found, batches = [], MemoryRecords(buffer)
    while (batch := batches.next_batch() if batches.has_next() else None) is not None:
        if not batch.is_control_batch:
            found += [
                Entry(each.offset, each.key, each.value, each.timestamp, tuple(each.headers))
                for each in batch
                if each.offset in offsets
            ]
    return tuple(found)


def decode(
    buffer: bytes,
    *,
    wanted: int,
    until: int | None = None,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> Decoded:
    """Read the data records from offset ``wanted`` on; a broker starts at the batch that holds it.

    Records from ``until`` on are left unread, and may be requested next. ``aborted`` lists ``(producer id, first
    offset)`` as a read_committed fetch returns them; their records are left out. Without it the fetch was
    read_uncommitted: every record counts, and those of which no commit follows here are ``uncommitted``. Control
    batches hold no data and only move ``next_offset``.
    """
    records: list[LogRecord] = []
    transactions = _Unjudged(records) if aborted is None else _Aborted(aborted)
    view, size, position, next_offset, needs = memoryview(buffer), len(buffer), 0, 0, 0
    while position < size and (until is None or next_offset < until):
        if size - position <= _MAGIC_AT:
            needs = _UNKNOWN_NEED
            break
        end = position + _PREFIX + _LENGTH.unpack_from(buffer, position + 8)[0]
        if end > size:
            needs = end - position
            break
        if buffer[position + _MAGIC_AT] != 2:
            return Decoded(tuple(records), next_offset, error=_old_format(buffer[position + _MAGIC_AT]))
        (base, _, leader_epoch, _, checksum, attributes, last, first_time, largest_time,
         producer, _, _, count) = _HEADER.unpack_from(buffer, position)  # fmt: skip
        if crc32c.crc32c(view[position + _CRC_FROM : end]) != checksum:
            return Decoded(tuple(records), next_offset, error=_corrupt(base))
        next_offset = base + last + 1
        body, start = buffer, position + _HEADER.size
        position = end
        if attributes & _COMPRESSION:
            body, start = _DECOMPRESS[attributes & _COMPRESSION](buffer[start:end]), 0
        if attributes & _SPECIAL and transactions.hide(next_offset, attributes, producer, body, start):
            continue
        if next_offset > wanted:
            stamp = largest_time if attributes & _APPEND_TIME else None
            epoch = leader_epoch if leader_epoch >= 0 else None
            if count == last + 1 and base < wanted:  # no offset is missing, so the records need not be looked into
                count -= wanted - base
                start = _behind(body, start, wanted - base)
            upper = next_offset if until is None else min(next_offset, until)
            before = len(records)
            _read(body, start, count, (base, first_time, stamp, epoch), range(wanted, upper), records)
            if attributes & _TRANSACTIONAL:
                transactions.add(producer, before)
    transactions.close()
    return Decoded(tuple(records), next_offset if until is None else min(next_offset, until), needs)


def _old_format(magic: int) -> PartitionError:
    return PartitionError(
        name="UNSUPPORTED_FOR_MESSAGE_FORMAT",
        text=f"the log holds message format {magic}; only format 2 (Kafka 0.11 and later) is read",
        retriable=False,
    )


def _corrupt(offset: int) -> PartitionError:
    return PartitionError(
        name="CORRUPT_MESSAGE", text=f"the batch at offset {offset} fails its checksum", retriable=True
    )


def _read(
    body: bytes,
    position: int,
    count: int,
    batch: tuple[int, int, int | None, int | None],
    wanted: range,
    into: list[LogRecord],
) -> None:
    """Append the records whose offset is wanted; those before are stepped over unread, those after are not reached.

    Of the ``batch``: base offset, first time, the broker's own time if that counts, leader epoch. The one loop that
    costs: a tracker reads thousands of records per batch of its query. Deltas and lengths are mostly below 8192, so one
    byte or two, and those are looked at here; a call for each would take as long as all the rest.
    """
    base, first_time, stamp, epoch = batch
    first, last = wanted.start - base, wanted.stop - base
    for _ in range(count):
        byte = body[position]
        if byte < 0x80:
            end = position = position + 1
            end += byte >> 1  # never negative
        elif (second := body[position + 1]) < 0x80:
            end = position = position + 2
            end += ((byte & 0x7F) | second << 7) >> 1
        else:
            length, position = _varint(body, position)
            end = position + length
        byte = body[position + 1]  # behind the attributes, which no broker uses
        if byte < 0x80:
            time, position = (byte >> 1) ^ -(byte & 1), position + 2
        elif (second := body[position + 2]) < 0x80:
            raw = (byte & 0x7F) | second << 7
            time, position = (raw >> 1) ^ -(raw & 1), position + 3
        else:
            time, position = _varint(body, position + 1)
        byte = body[position]
        if byte < 0x80:
            delta, position = byte >> 1, position + 1  # never negative
        elif (second := body[position + 1]) < 0x80:
            delta, position = ((byte & 0x7F) | second << 7) >> 1, position + 2
        else:
            delta, position = _varint(body, position)
        if delta >= last:
            return
        if delta >= first:
            byte = body[position]
            if byte == _NULL:
                key, position = None, position + 1
            else:
                key, position = _bytes(body, position)
            byte = body[position]
            if byte >= 0x80 and (second := body[position + 1]) < 0x80 and not byte & 1:
                position += 2
                value: bytes | None = body[position : position + (((byte & 0x7F) | second << 7) >> 1)]
            else:
                value, _ = _bytes(body, position)
            timestamp = first_time + time if stamp is None else stamp
            into.append(LogRecord(base + delta, timestamp, digest(key, value), stamp is not None, epoch))
        position = end


def _behind(body: bytes, position: int, count: int) -> int:
    """The position behind this many records: of each only the length is read, one or two bytes as a rule."""
    for _ in range(count):
        byte = body[position]
        position += 1
        if byte < 0x80:
            position += byte >> 1  # never negative
            continue
        second = body[position]
        if second < 0x80:
            position += 1 + (((byte & 0x7F) | second << 7) >> 1)
        else:
            length, position = _varint(body, position - 1)
            position += length
    return position


class _Aborted:
    """Kafka's own rule for read_committed: from an aborted transaction's first offset to its marker, nothing counts."""

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._to_come = sorted(transactions, key=lambda pair: pair[1], reverse=True)
        self._open: set[int] = set()

    def hide(self, next_offset: int, attributes: int, producer: int, body: bytes, start: int) -> bool:
        """Whether a reader must not see this batch: it is a marker, or belongs to an aborted transaction."""
        while self._to_come and self._to_come[-1][1] < next_offset:
            self._open.add(self._to_come.pop()[0])
        if attributes & _CONTROL:
            if producer in self._open and _aborts(body, start):
                self._open.discard(producer)
            return True
        return producer in self._open

    def add(self, producer: int, first: int) -> None:
        """Committed, or it would be hidden."""

    def close(self) -> None:
        """Nothing is left open: no read_committed fetch goes beyond the last stable offset."""


class _Unjudged:
    """What a read_uncommitted reader sees of transactions: all records, and only later how each one ended."""

    def __init__(self, records: list[LogRecord]) -> None:
        self._records = records
        self._open: dict[int, list[int]] = {}
        """Per producer the places of its transaction's records among those read."""

    def hide(self, _next_offset: int, attributes: int, producer: int, body: bytes, start: int) -> bool:
        """Whether this batch is a marker, which ends its producer's transaction."""
        if attributes & _CONTROL:
            ended = self._open.pop(producer, [])
            if _aborts(body, start):
                self._mark(ended)
        return bool(attributes & _CONTROL)

    def add(self, producer: int, first: int) -> None:
        """The records from ``first`` on belong to the producer's open transaction."""
        self._open.setdefault(producer, []).extend(range(first, len(self._records)))

    def close(self) -> None:
        """What is still open may be aborted yet."""
        for places in self._open.values():
            self._mark(places)

    def _mark(self, places: Sequence[int]) -> None:
        for place in places:
            self._records[place] = self._records[place]._replace(uncommitted=True)


def _aborts(body: bytes, position: int) -> bool:
    """Whether a control batch ends its producer's transaction by an abort."""
    _, position = _varint(body, position)
    position += 1
    for _ in range(3):  # time delta, offset delta, key length
        _, position = _varint(body, position)
    return bool(_CONTROL_KEY.unpack_from(body, position)[1] == _ABORT)


def _varint(body: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint; return it and the position after it."""
    byte = body[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    raw, shift = byte & 0x7F, 7
    while True:
        byte = body[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7


def _bytes(body: bytes, position: int) -> tuple[bytes | None, int]:
    byte = body[position]
    if byte < 0x80:
        length, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        length, position = _varint(body, position)
    if length < 0:
        return None, position
    end = position + length
    return body[position:end], end
