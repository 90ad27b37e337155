"""Worlds behind another partitioner: the copies of each old partition lie in several of the standby's.

It places each record by its payload, as a partitioner does by the key, and reads the old partitions side by side. So
each of the standby's partitions has the records of all of them, each in its order.
"""

from dataclasses import dataclass, replace
from heapq import merge
from itertools import accumulate
from zlib import crc32

from state.model.fingerprints import back
from tests.worlds.question import ring
from tests.worlds.truth import Truth, consumed, is_shown, time_known, unread
from tests.worlds.world import ABORTED, COMMITTED, Kept, Partition, World, Written

ENOUGH = 16
"""So many remembered records of which some lie elsewhere show another partitioner."""


def placed(payload: str, count: int) -> int:
    """The partition that the partitioner chooses."""
    return crc32(payload.encode()) % count


def respread(partitions: tuple[Partition, ...]) -> tuple[Partition, ...]:
    """The same partitions behind such a partitioner; no payload is in two of them."""
    parts = [_named(number, part) for number, part in enumerate(partitions)]
    rows: list[list[Kept]] = [[] for _ in parts]
    lanes = [_lane(number, part) for number, part in enumerate(parts)]
    for _, _, number, row in merge(*lanes):
        home = number if row.of is None else placed(row.payload, len(parts))
        rows[home].append(replace(row, offset=len(rows[home]), by=None if row.of is None else number))
    return tuple(
        replace(
            part,
            kept=tuple(kept),
            kept_end=len(kept),
            kept_begin=round(len(kept) * part.kept_begin / part.kept_end) if part.kept_end else 0,
        )
        for part, kept in zip(parts, rows, strict=True)
    )


def _named(number: int, part: Partition) -> Partition:
    names = {each.payload for each in part.written}
    new = {name: f"{name}.{number}" for name in names}
    return replace(
        part,
        written=tuple(replace(each, payload=new[each.payload]) for each in part.written),
        kept=tuple(replace(row, payload=new.get(row.payload, row.payload)) for row in part.kept),
    )


def _lane(number: int, part: Partition) -> list[tuple[int, int, int, Kept]]:
    """What comes of one old partition, in its order, by when it may have come."""
    tops = accumulate((row.time for row in part.kept), max)
    return [(top, index, number, row) for index, (top, row) in enumerate(zip(tops, part.kept, strict=True))]


def truth_of(world: World, number: int) -> Truth:
    """What is true of one of the standby's partitions."""
    part = world.partitions[number]
    return SpreadTruth(part, world, number) if world.spread else Truth(part, world)


def is_evident(world: World) -> bool:
    """Whether the standby shows the partitioner: a partition that has their times lacks some of the records read last.

    A handful may look right, so may partitions that all lag, or of which retention has left a part (``docs/places.md``,
    what cannot be promised). Records that were not committed when they were read show nothing: a replicator may have
    left them out. Nor do equal records with equal times, for one that lies here may seem to be one that lies elsewhere.
    Nor does the time of a marker, which is no record: what was read may be yet to come.
    """
    lied = None if world.lie is None else world.lie.partition
    return any(_is_evident(world, number, part) for number, part in enumerate(world.partitions) if number != lied)


def _is_evident(world: World, number: int, part: Partition) -> bool:
    last = [each for each in ring(part, world) if each.state == COMMITTED][-ENOUGH:]
    elsewhere = any(placed(each.payload, len(world.partitions)) != number for each in last)
    times = [row.time for row in part.kept if is_shown(row, part, world)]
    lags = not times or not last or max(times) <= max(each.time for each in last)
    distinct = {(each.payload, each.time) for each in last}
    return len(distinct) == ENOUGH and elsewhere and not lags and part.kept_begin == 0


@dataclass(frozen=True)
class SpreadTruth(Truth):
    """One of the standby's partitions, with what belongs there of all old ones; a record is named by both numbers."""

    number: int = 0

    def sides(self) -> tuple[dict[int, Written], dict[int, Written]]:
        """What was read and what was not, of all that belongs here."""
        read: dict[int, Written] = {}
        ahead: dict[int, Written] = {}
        for number, part in enumerate(self.world.partitions):
            for side, records in ((read, consumed(part, self.world)), (ahead, unread(part, self.world))):
                side |= {self._name(number, each.offset): each for each in records if self._is_here(each)}
        return read, ahead

    def original(self, row: Kept) -> int | None:
        """By old partition and offset."""
        return None if row.of is None else self._name(self.number if row.by is None else row.by, row.of)

    def was_passed(self, of: int) -> bool:
        """By the position in the partition that it is of."""
        part, offset = self._part(of)
        return offset < part.position

    def was_sampled(self, of: int) -> bool:
        """By the sample of the partition that it is of."""
        part, offset = self._part(of)
        return offset < (part.written_end if part.sample is None else part.sample.end)

    def time_known(self) -> int | None:
        """The smallest T of all: one partition cannot say what of another one was read."""
        times = [time_known(part, self.world) for part in self.world.partitions]
        known = [time for time in times if time is not None]
        return min(known) if len(known) == len(times) else None

    def is_in_order(self) -> bool:
        """Whether times go back here by no more than the buffer: else times promise nothing."""
        return back(row.time for row in self.partition.kept) <= self.world.buffer_ms

    def to_come(self) -> list[int]:
        """What the replicator has yet to append here."""
        reached = [part.next_copy for part in self.world.partitions]
        for row in (row for part in self.world.partitions for row in part.kept if row.of is not None):
            by = self.number if row.by is None else row.by
            reached[by] = max(reached[by], (row.of or 0) + 1)
        return [
            of
            for of, record in self.read.items()
            if self._part(of)[1] >= reached[of % len(reached)] and self._part(of)[1] not in self._part(of)[0].filtered
            if record.state == COMMITTED or (record.state == ABORTED and not self.world.copies_committed)
        ]

    def _is_here(self, record: Written) -> bool:
        return placed(record.payload, len(self.world.partitions)) == self.number

    def _name(self, number: int, offset: int) -> int:
        return offset * len(self.world.partitions) + number

    def _part(self, of: int) -> tuple[Partition, int]:
        count = len(self.world.partitions)
        return self.world.partitions[of % count], of // count
