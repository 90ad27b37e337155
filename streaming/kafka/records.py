"""Record batches (magic 2) reduced to fingerprints, without building a record object of keys, values and headers.

The library's own reader makes an object of every field of every record; alignment and tracking need an offset, a
time and a digest, and often only of the last few records of a batch.
"""

import gzip
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c
from kafka import codec

from streaming.log import LogRecord, PartitionError

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and largest time,
# producer id and epoch, base sequence, record count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_CONTROL_KEY = struct.Struct(">hh")
_PREFIX = 12  # base offset and length: what the length does not count
_MAGIC_AT = 16
_CRC_FROM = 21
_COMPRESSION, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_ABORT = 0
_UNKNOWN_NEED = 1 << 16

_DECOMPRESS = {1: gzip.decompress, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}


@dataclass(frozen=True, kw_only=True, slots=True)
class Decoded:
    """What a fetched stretch of a log holds."""

    records: tuple[LogRecord, ...]
    next_offset: int
    """After the last whole batch, 0 when there is none."""
    needs_bytes: int
    """Size of the batch that was cut off at the end, 0 when none was."""
    error: PartitionError | None


def digest(key: bytes | None, value: bytes | None) -> bytes:
    """Return the record's identity: blake2b-16 of key and value; a null is not an empty byte string."""
    named = b"-" if key is None else b"+%d:%b" % (len(key), key)
    return hashlib.blake2b(named + (b"-" if value is None else b"+" + value), digest_size=16).digest()


def decode(buffer: bytes, *, wanted: int, aborted: Sequence[tuple[int, int]] = ()) -> Decoded:
    """Read the data records from offset ``wanted`` on; a broker starts at the batch that holds it.

    ``aborted`` lists ``(producer id, first offset)`` as a read_committed fetch returns them; their records are left
    out. Control batches hold no data and only move ``next_offset``.
    """
    records: list[LogRecord] = []
    transactions = _Aborted(aborted)
    position, size, next_offset, needs, error = 0, len(buffer), 0, 0, None
    while position < size and error is None:
        if size - position <= _MAGIC_AT:
            needs = _UNKNOWN_NEED
            break
        end = position + _PREFIX + _LENGTH.unpack_from(buffer, position + 8)[0]
        if end > size:
            needs = end - position
            break
        error = _unreadable(buffer, position, end)
        if error is None:
            batch = _Batch(buffer, position, end)
            if not transactions.hide(batch) and batch.next_offset > wanted:
                batch.read(wanted, records)
            next_offset, position = batch.next_offset, end
    return Decoded(records=tuple(records), next_offset=next_offset, needs_bytes=needs, error=error)


def _unreadable(buffer: bytes, start: int, end: int) -> PartitionError | None:
    magic = buffer[start + _MAGIC_AT]
    if magic != 2:
        return PartitionError(
            name="UNSUPPORTED_FOR_MESSAGE_FORMAT",
            text=f"the log holds message format {magic}; only format 2 (Kafka 0.11 and later) is read",
            retriable=False,
        )
    stored = _LENGTH.unpack_from(buffer, start + 17)[0] & 0xFFFFFFFF
    if crc32c.crc32c(memoryview(buffer)[start + _CRC_FROM : end]) != stored:
        offset = struct.unpack_from(">q", buffer, start)[0]
        return PartitionError(
            name="CORRUPT_MESSAGE", text=f"the batch at offset {offset} fails its checksum", retriable=True
        )
    return None


class _Batch:
    """One whole batch, its header read."""

    __slots__ = ("_buffer", "_count", "_end", "_first_time", "_largest_time", "_start", "attributes", "base",
                 "leader_epoch", "next_offset", "producer")  # fmt: skip

    def __init__(self, buffer: bytes, start: int, end: int) -> None:
        (self.base, _, self.leader_epoch, _, _, self.attributes, last, self._first_time, self._largest_time,
         self.producer, _, _, self._count) = _HEADER.unpack_from(buffer, start)  # fmt: skip
        self._buffer, self._start, self._end = buffer, start + _HEADER.size, end
        self.next_offset = self.base + last + 1

    def aborts(self) -> bool:
        """Whether this control batch ends its producer's transaction by an abort."""
        body = self._body()
        _, position = _varint(body, 0)
        position += 1
        for _ in range(3):  # time delta, offset delta, key length
            _, position = _varint(body, position)
        return bool(_CONTROL_KEY.unpack_from(body, position)[1] == _ABORT)

    def read(self, wanted: int, into: list[LogRecord]) -> None:
        """Append the records from ``wanted`` on; the others are stepped over unread.

        The one loop that costs: a tracker reads thousands of records per batch of its query. Lengths and deltas are
        mostly below 64, one byte, so that byte is looked at here and only longer ones go through ``_varint``.
        """
        body, position, base, first_time = self._body(), 0, self.base, self._first_time
        append_time = bool(self.attributes & _APPEND_TIME)
        epoch = self.leader_epoch if self.leader_epoch >= 0 else None
        for _ in range(self._count):
            length, position = _varint(body, position)
            end = position + length
            time, position = _varint(body, position + 1)
            byte = body[position]
            if byte < 0x80:
                delta, position = byte >> 1, position + 1  # never negative
            else:
                delta, position = _varint(body, position)
            if base + delta >= wanted:
                key, position = _bytes(body, position)
                value, _ = _bytes(body, position)
                timestamp = self._largest_time if append_time else first_time + time
                into.append(LogRecord(base + delta, timestamp, digest(key, value), append_time, epoch))
            position = end

    def _body(self) -> bytes:
        body = self._buffer[self._start : self._end]
        compression = self.attributes & _COMPRESSION
        return _DECOMPRESS[compression](body) if compression else body


class _Aborted:
    """Kafka's own rule for read_committed: from an aborted transaction's first offset to its marker, nothing counts."""

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._to_come = sorted(transactions, key=lambda pair: pair[1], reverse=True)
        self._open: set[int] = set()

    def hide(self, batch: _Batch) -> bool:
        """Whether a reader must not see this batch: it is a marker, or belongs to an aborted transaction."""
        while self._to_come and self._to_come[-1][1] < batch.next_offset:
            self._open.add(self._to_come.pop()[0])
        if batch.attributes & _CONTROL:
            if batch.producer in self._open and batch.aborts():
                self._open.discard(batch.producer)
            return True
        return bool(batch.attributes & _TRANSACTIONAL) and batch.producer in self._open


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
