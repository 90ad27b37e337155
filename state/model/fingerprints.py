"""The fingerprints remembered of a partition, in one piece of memory.

A runner remembers hundreds of records of every partition and hands them to the store with every batch. As objects they
would cost it a hundred megabytes at a thousand partitions, and a walk of the collector through them all. Packed, they
are cut, joined and stored by copying bytes, and become objects only for who looks at them.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from struct import Struct
from typing import NoReturn, Self, overload

from state.model.entities import Fingerprint

LIMIT = 256
"""Records that a position remembers."""

_RECORD = Struct("<qq16s")
RECORD_BYTES = _RECORD.size
_OFFSET = Struct("<q")
_TIMESTAMP = "8xq16x"
_DIGEST = "16x16s"
_DIGEST_BYTES = 16
_DIGEST_AT = _RECORD.size - _DIGEST_BYTES
_COUNT = Struct("<HB")
_TAG = 1


@cache
def _of_all(one: str, records: int) -> Struct:
    """Takes one thing of each record at once, which is five times as fast as one after the other."""
    return Struct("<" + one * records)


def back(timestamps: Iterable[int], clock_ms: int | None = None) -> int:
    """By how many milliseconds the times of some records, oldest first, went back at most.

    A time ahead of the clock counts as the clock's, if that is given; negative ones are none.
    """
    top = most = 0
    for time in timestamps:
        if time >= top:
            top = time if clock_ms is None else max(top, min(time, clock_ms))
        elif time >= 0:
            most = max(most, top - time)
    return most


class Fingerprints(Sequence[Fingerprint]):
    """What is known of the newest records before an offset, oldest first, each offset once; never changes.

    Chunks of it may lie apart, where a long batch was read at its end only: a fingerprint keeps its offset, so nothing
    is claimed about what lies between.
    """

    __slots__ = ("packed", "uncommitted")

    packed: bytes
    """32 bytes a record, little-endian: offset, timestamp, digest."""
    uncommitted: frozenset[int]
    """Offsets of records that a read_uncommitted query read and whose transaction was aborted, or had not ended as far
    as was read. A replicator that copies only what is committed may leave them out."""

    def __init__(self, packed: bytes = b"", uncommitted: frozenset[int] = frozenset()) -> None:
        if len(packed) % _RECORD.size:
            raise ValueError(f"{len(packed)} bytes are no whole number of fingerprints")
        self.packed = packed
        self.uncommitted = uncommitted

    @classmethod
    def of(cls, records: Iterable[tuple[int, int, bytes]], uncommitted: Collection[int] = ()) -> Self:
        """Pack fingerprints. Raises ``ValueError`` unless their offsets ascend and each digest has 16 bytes."""
        if isinstance(records, cls):
            return cls(records.packed, frozenset(uncommitted)) if uncommitted else records
        pack, last, pieces = _RECORD.pack, -1, []
        for offset, timestamp, digest in records:
            if offset <= last or len(digest) != _DIGEST_BYTES:
                raise ValueError("a ring holds ascending offsets and digests of 16 bytes")
            pieces.append(pack(offset, timestamp, digest))
            last = offset
        return cls(b"".join(pieces), frozenset(uncommitted))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """What ``to_bytes`` gave. Raises ``ValueError`` for anything else."""
        if not len(stored) % _RECORD.size:
            return cls(stored)
        if len(stored) < _COUNT.size:
            raise ValueError(f"{len(stored)} bytes are no ring")
        count, tag = _COUNT.unpack_from(stored, len(stored) - _COUNT.size)
        end = len(stored) - _COUNT.size - count * _OFFSET.size
        if tag != _TAG or end < 0:
            raise ValueError(f"{len(stored)} bytes are no ring")
        offsets = (offset for (offset,) in _OFFSET.iter_unpack(stored[end : -_COUNT.size]))
        return cls(stored[:end], frozenset(offsets))

    def to_bytes(self) -> bytes:
        """How a store keeps it: the records, and behind them the offsets of those not committed, if there are any."""
        if not self.uncommitted:
            return self.packed
        kept = [each.offset for each in self if each.offset in self.uncommitted]
        if not kept:
            return self.packed
        return self.packed + b"".join(map(_OFFSET.pack, kept)) + _COUNT.pack(len(kept), _TAG)

    def merged(self, newer: "Fingerprints", *, limit: int = LIMIT) -> "Fingerprints":
        """With another's records added, the newest ``limit`` kept; what is in both is taken from the other."""
        if not newer:
            return self[-limit:]
        uncommitted = self._uncommitted_with(newer)
        at = self._index(newer.first) * _RECORD.size
        common = self.packed[at:]
        if newer.packed.startswith(common):  # as nearly always: the newer one begins within this one or after it
            whole = self.packed[:at] + newer.packed
            return (
                Fingerprints(whole, uncommitted)[-limit:]
                if uncommitted
                else Fingerprints(whole[-limit * _RECORD.size :])
            )
        known = {each.offset: each for each in self}
        known |= {each.offset: each for each in newer}
        return Fingerprints.of((known[offset] for offset in sorted(known)[-limit:]), uncommitted)

    def _uncommitted_with(self, newer: "Fingerprints") -> frozenset[int]:
        """Of the records of both; one that is in both was read again, and may have been committed in between."""
        if not self.uncommitted or not self:
            return newer.uncommitted
        oldest, again = self.first, {each.offset for each in newer}
        return newer.uncommitted | {each for each in self.uncommitted if each >= oldest and each not in again}

    def before(self, offset: int, *, limit: int = LIMIT) -> "Fingerprints":
        """The newest ``limit`` records before an offset."""
        end = self._index(offset)
        return self[max(0, end - limit) : end]

    def after(self, offset: int) -> "Fingerprints":
        """The records from an offset on."""
        return self[self._index(offset) :]

    def covers(self, begin: int, end: int) -> bool:
        """Whether every offset of ``[begin, end)`` held a record that is in the ring."""
        return begin <= end and self._index(end) - self._index(begin) == end - begin

    @property
    def first(self) -> int:
        """The first record's offset. Raises ``struct.error`` on an empty ring."""
        return self._offset(0)

    @property
    def newest_timestamp(self) -> int | None:
        """The largest timestamp, which need not be the last record's."""
        return max(self.timestamps, default=None)

    @property
    def timestamps(self) -> tuple[int, ...]:
        """The timestamps, oldest record first."""
        return _of_all(_TIMESTAMP, len(self)).unpack(self.packed)

    @property
    def digests(self) -> tuple[bytes, ...]:
        """The digests, oldest record first."""
        return _of_all(_DIGEST, len(self)).unpack(self.packed)

    def alike(self, digest: bytes, *, first: int | None = None) -> int:
        """How many records have this content, of the ``first`` so many or of all."""
        end = len(self.packed) if first is None else first * _RECORD.size
        found, at = 0, self.packed.find(digest, 0, end)
        while at >= 0:
            found += at % _RECORD.size == _DIGEST_AT
            at = self.packed.find(digest, at + 1, end)
        return found

    @property
    def unbroken(self) -> int:
        """How many of the last records have consecutive offsets."""
        if not self.packed:
            return 0
        newest = len(self) - 1
        last = self._offset(newest)
        return bisect_left(range(newest + 1), True, key=lambda back: self._offset(newest - back) != last - back)

    def at(self, index: int) -> tuple[int, int, bytes]:
        """Offset, timestamp and digest of one record, counted from the oldest; quicker than the ring's ``[index]``."""
        found: tuple[int, int, bytes] = _RECORD.unpack_from(self.packed, index * RECORD_BYTES)
        return found

    def _index(self, offset: int) -> int:
        """How many records lie before an offset."""
        length = len(self)
        if not length or self._offset(length - 1) < offset:
            return length
        return bisect_left(range(length), offset, key=self._offset)

    def _offset(self, index: int) -> int:
        offset: int = _OFFSET.unpack_from(self.packed, index * _RECORD.size)[0]
        return offset

    def __len__(self) -> int:
        return len(self.packed) // _RECORD.size

    def __iter__(self) -> Iterator[Fingerprint]:
        return map(Fingerprint._make, _RECORD.iter_unpack(self.packed))

    @overload
    def __getitem__(self, index: int) -> Fingerprint: ...

    @overload
    def __getitem__(self, index: slice) -> "Fingerprints": ...

    def __getitem__(self, index: int | slice) -> "Fingerprint | Fingerprints":
        if isinstance(index, int):
            at = range(len(self))[index] * _RECORD.size
            return Fingerprint._make(_RECORD.unpack_from(self.packed, at))
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise ValueError("a ring is cut in one piece")
        cut = Fingerprints(self.packed[start * _RECORD.size : stop * _RECORD.size])
        if self.uncommitted and cut:
            here = range(cut.first, cut[-1].offset + 1)
            cut.uncommitted = frozenset(each for each in self.uncommitted if each in here)
        return cut

    def __eq__(self, other: object) -> bool:
        """Also to a tuple of the same fingerprints."""
        if isinstance(other, Fingerprints):
            return self.to_bytes() == other.to_bytes()
        return tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Ring.of({list(self)})"


def timestamps_of(records: Sequence[Fingerprint]) -> list[int]:
    """The timestamps of remembered records, in their order; a ring is not unpacked for it."""
    return list(records.timestamps if isinstance(records, Fingerprints) else (each.timestamp_ms for each in records))


def digests_of(records: Sequence[Fingerprint]) -> list[bytes]:
    """The digests of remembered records, in their order; a ring is not unpacked for it."""
    return list(records.digests if isinstance(records, Fingerprints) else (each.digest for each in records))


class Counted(Sequence[Fingerprint]):
    """A ring of which the store returned the length alone; to look into it is a mistake, and raises ``LookupError``.

    Twelve batches of 3,500 partitions hold 340 MB of rings, and a look-up goes by one batch of them.
    """

    __slots__ = ("_length",)

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Fingerprint: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Fingerprint]: ...

    def __getitem__(self, index: int | slice) -> NoReturn:
        raise LookupError(f"these {self._length} fingerprints were counted, and not read")
