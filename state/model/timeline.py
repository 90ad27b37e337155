"""What a query had read at which time: moments of what it had consumed, packed by the stretch.

One row for each step and partition, as an index file of a broker has its entries, would take hundreds of megabytes for
a day of 3,500 partitions. Here a *stretch* of moments is one value: all partitions of a query, up to some hours.
Offsets are kept as differences from a steady pace, times of moments and of records as distances from a steady beat. All
are split into planes of bytes (the high ones are nearly all zero), and each plane is deflated by a table of its own. A
partition that did not move costs next to nothing.

What a moment says was consumed when it was taken, so an answer never lies after the truth. It may lie before it by as
much as was read within one step.
"""

import json
import struct
import sys
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import accumulate, count, groupby, islice, starmap
from operator import sub
from typing import NamedTuple, Self

from state.errors import Damaged

NO_TIME = -1
"""In place of a timestamp: nothing before the offset could be read, or it had none."""
PRECISION = 100
"""Times are kept to this many parts of a step, and to this many milliseconds at the finest: 600 ms at minute steps,
100 ms at second steps. A single busy partition at second steps would else take half as much again."""

_SHAPE = 1
_HEAD = struct.Struct("<BIIII")
_LARGEST = 1 << 62
_NOT_KNOWN, _KNOWN, _AS_BEFORE = range(3)
_WORD = 8
_SIGN = 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SourcePartition(NamedTuple):
    """A partition as one source of a query reads it."""

    source: str
    topic: str
    partition: int


class Moment(NamedTuple):
    """How far every lane of a query was consumed at one time; the columns stand in the order of the lanes."""

    at_ms: int
    """When it was taken, by the runner's clock."""
    offsets: Sequence[int]
    """Next offsets to read."""
    timestamps: Sequence[int]
    """The largest time, in milliseconds, among the last few records before the offset; ``NO_TIME`` where not known."""
    disorders: Sequence[int]
    """By how many milliseconds the time of one of them lies before the largest until then; 0 if they are in order."""


class Steps(NamedTuple):
    """What a stretch holds, unpacked."""

    lanes: tuple[SourcePartition, ...]
    moments: tuple[Moment, ...]

    def at(self, time_ms: int) -> Moment | None:
        """The last moment that is not after a time; None where the stretch begins later."""
        index = bisect_right(self.moments, time_ms, key=lambda moment: moment.at_ms)
        return self.moments[index - 1] if index else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """Some moments in a row of one query, under one epoch on one cluster: its offsets are of that cluster alone."""

    query: str
    epoch: int
    cluster: str
    begin: datetime
    """Of the first moment."""
    until: datetime
    """Of the last moment."""
    packed: bytes

    @classmethod
    def of(
        cls,
        query: str,
        epoch: int,
        cluster: str,
        lanes: Sequence[SourcePartition],
        moments: Sequence[Moment],
        *,
        precision_ms: int,
    ) -> Self:
        """Pack moments; see ``pack``."""
        packed = pack(lanes, moments, precision_ms=precision_ms)
        begin, until = (instant_of(moment.at_ms) for moment in (moments[0], moments[-1]))
        return cls(query=query, epoch=epoch, cluster=cluster, begin=begin, until=until, packed=packed)

    def steps(self) -> Steps:
        """Its moments. Raises ``Damaged``."""
        return unpack(self.packed)

    @property
    def precision_ms(self) -> int:
        """To how many milliseconds its times are kept. Raises ``Damaged``."""
        try:
            head = zlib.decompressobj().decompress(self.packed, _HEAD.size)
            precision_ms: int = _HEAD.unpack(head)[1]
        except (zlib.error, struct.error) as error:
            raise Damaged(f"a stretch of a timeline cannot be read: {error}") from error
        return precision_ms


def precision_of(step: timedelta) -> int:
    """Milliseconds to which times are kept at these steps."""
    return max(PRECISION, step // timedelta(milliseconds=1) // PRECISION)


def instant_of(at_ms: int) -> datetime:
    """Milliseconds since the epoch as a time in UTC, exactly."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def pack(lanes: Sequence[SourcePartition], moments: Sequence[Moment], *, precision_ms: int) -> bytes:
    """Moments in the order of their times, as few bytes.

    Timestamps are rounded down to ``precision_ms`` and disorders up, so that neither looks too good; the rest is
    kept exactly. Raises ``ValueError`` where times of moments do not ascend by multiples of it, a column has another
    length than the lanes, or an offset is negative or beyond 2^62.
    """
    _check(lanes, moments, precision_ms)
    units = [moment.at_ms // precision_ms for moment in moments]
    pauses = sorted(map(sub, units[1:], units))
    beat = pauses[len(pauses) // 2] if pauses else 0
    beats = list(_beats(units[0], beat, len(units)))
    moves: list[int] = []
    for column in zip(*(moment.offsets for moment in moments), strict=True):
        pace = (column[-1] - column[0]) // max(1, len(column) - 1)
        moves += (column[0], pace)
        moves += [move - pace for move in map(sub, column[1:], column)]
    states, lags, drops = bytearray(), list[int](), list[int]()
    stamps = zip(
        zip(*(moment.timestamps for moment in moments), strict=True),
        zip(*(moment.disorders for moment in moments), strict=True),
        strict=True,
    )
    for timestamps, disorders in stamps:
        before: tuple[int, int] | None = None
        for due, *stamp in zip(beats, timestamps, disorders, strict=True):
            timestamp, disorder = stamp
            if timestamp < 0:
                before = None
                states.append(_NOT_KNOWN)
            elif (timestamp, disorder) == before:
                states.append(_AS_BEFORE)
            else:
                before = (timestamp, disorder)
                states.append(_KNOWN)
                lags.append(due - timestamp // precision_ms)
                drops.append(-(-disorder // precision_ms))
    lanes_text = json.dumps(_grouped(lanes), separators=(",", ":")).encode()
    at = [units[0], beat, *map(sub, units[1:], beats[1:])]
    head = _HEAD.pack(_SHAPE, precision_ms, len(lanes_text), len(moments), len(lags))
    columns = (*_planes(at), *_planes(moves), bytes(states), *_planes(lags), *_planes(drops))
    return _deflated((head + lanes_text, *columns))


def unpack(packed: bytes) -> Steps:
    """What was packed. Raises ``Damaged``."""
    try:
        body = BytesIO(zlib.decompress(packed))
        shape, precision_ms, text, moments, known = _HEAD.unpack(body.read(_HEAD.size))
        if shape != _SHAPE:
            raise Damaged(f"a stretch of a timeline has the shape {shape}; this program reads {_SHAPE}")
        lanes = tuple(_lanes(json.loads(body.read(text))))
        marks = moments * len(lanes)
        first, beat, *strays = _words(body, moments + 1)
        beats = list(_beats(first, beat, moments))
        offsets = _offsets(_words(body, marks + len(lanes)), moments)
        states = body.read(marks)
        stamps = _stamps(states, beats, _words(body, known), _words(body, known), precision_ms)
        timestamps, disorders = zip(*stamps, strict=True)
    except (ValueError, TypeError, KeyError, StopIteration, zlib.error, struct.error) as error:
        raise Damaged(f"a stretch of a timeline cannot be read: {error}") from error
    times = [(due + stray) * precision_ms for due, stray in zip(beats, [0, *strays], strict=True)]
    columns = (_turned(each, moments) for each in (offsets, timestamps, disorders))
    return Steps(lanes, tuple(starmap(Moment, zip(times, *columns, strict=True))))


def _check(lanes: Sequence[SourcePartition], moments: Sequence[Moment], precision_ms: int) -> None:
    if not lanes or not moments:
        raise ValueError("a stretch has at least one lane and one moment")
    last = -1
    for moment in moments:
        if moment.at_ms <= last or moment.at_ms % precision_ms:
            raise ValueError(f"moments ascend by multiples of {precision_ms} ms; {moment.at_ms} follows {last}")
        last = moment.at_ms
        if {len(moment.offsets), len(moment.timestamps), len(moment.disorders)} != {len(lanes)}:
            raise ValueError(f"a moment has as many offsets, timestamps and disorders as there are lanes: {len(lanes)}")
        if min(moment.offsets) < 0 or max(moment.offsets) >= _LARGEST or min(moment.disorders) < 0:
            raise ValueError("an offset lies between 0 and 2^62, and a disorder is not negative")


def _beats(first: int, beat: int, length: int) -> Iterator[int]:
    """When moments would have been taken by a reader that is never late."""
    return islice(count(first, beat), length)


def _grouped(lanes: Sequence[SourcePartition]) -> list[tuple[str, str, list[int]]]:
    """Neighbours of one source and topic share its names."""
    runs = groupby(lanes, key=lambda lane: (lane.source, lane.topic))
    return [(source, topic, [lane.partition for lane in run]) for (source, topic), run in runs]


def _lanes(grouped: Iterable[tuple[str, str, list[int]]]) -> Iterator[SourcePartition]:
    for source, topic, partitions in grouped:
        for partition in partitions:
            yield SourcePartition(source, topic, partition)


def _planes(numbers: Iterable[int]) -> Iterator[bytes]:
    """Signed numbers of 64 bits, sign last, cut into planes: all lowest bytes, all second ones, and the higher ones."""
    words = array("Q", [(number << 1) ^ (number >> _SIGN) for number in numbers])
    if sys.byteorder == "big":
        words.byteswap()
    raw = words.tobytes()
    planes = [raw[plane::_WORD] for plane in range(_WORD)]
    yield from (planes[0], planes[1], b"".join(planes[2:]))


def _deflated(pieces: Iterable[bytes]) -> bytes:
    """One stream, whose checksum covers it all; a flush between two pieces gives each its own table of codes."""
    deflate = zlib.compressobj()
    parts = [deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH) for piece in pieces]
    return b"".join([*parts, deflate.flush()])


def _words(body: BytesIO, count: int) -> list[int]:
    """How many numbers from planes. Raises ``ValueError`` where there are fewer."""
    raw = bytearray(count * _WORD)
    for plane in range(_WORD):
        raw[plane::_WORD] = body.read(count)  # another length does not fit, which is a ValueError
    words = array("Q", bytes(raw))
    if sys.byteorder == "big":
        words.byteswap()
    return [(word >> 1) ^ -(word & 1) for word in words]


def _offsets(moves: Sequence[int], moments: int) -> list[int]:
    """Offsets, lane by lane: of each the first one, its pace, and how far each step kept from that."""
    found: list[int] = []
    for start in range(0, len(moves), moments + 1):
        first, pace, *strays = moves[start : start + moments + 1]
        found += accumulate((pace + stray for stray in strays), initial=first)
    return found


def _stamps(
    states: bytes, beats: Sequence[int], lags: Iterable[int], drops: Iterable[int], precision_ms: int
) -> Iterator[tuple[int, int]]:
    """Timestamps and disorders, lane by lane."""
    known, stamp = zip(lags, drops, strict=True), (NO_TIME, 0)
    for index, state in enumerate(states):
        if state == _KNOWN:
            lag, drop = next(known)
            stamp = ((beats[index % len(beats)] - lag) * precision_ms, drop * precision_ms)
        yield (NO_TIME, 0) if state == _NOT_KNOWN else stamp


def _turned(column: Sequence[int], moments: int) -> Iterator[tuple[int, ...]]:
    """Values that stand lane by lane, moment by moment."""
    return zip(*(column[start : start + moments] for start in range(0, len(column), moments)), strict=True)
