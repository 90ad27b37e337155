"""What a query's tracking has left behind in a world: rings in pieces, gaps, and samples of the old partition's end."""

import random
from dataclasses import dataclass

from state.model.fingerprints import LIMIT
from tests.worlds.apart import GAP, NO_SAMPLE
from tests.worlds.world import COMMITTED, Sample
from tests.worlds.writing import Source

_TAIL = 32
"""Records that are read before the end of each batch."""
_STOPPED = 0.2
"""How often tracking is behind the checkpoint."""


@dataclass(frozen=True)
class Reading:
    """See the fields of the same name of ``Partition``."""

    remembered: tuple[tuple[int, int], ...]
    ring_at: int | None
    seen: tuple[tuple[int, int], ...]
    proves: bool
    sample: Sample | None


def reading(
    chance: random.Random, source: Source, position: int, *, committed: bool, plain: bool, apart: str
) -> Reading:
    """One query's."""
    if plain:
        at = position - 5 if apart == GAP else position
        ranges: tuple[tuple[int, int], ...] = ((max(source.begin, at - LIMIT), at),)
        sample = None if apart == NO_SAMPLE else _sample(chance, source, position, plain=True)
        return Reading(ranges, at, ((source.begin, position),), True, sample)
    ring_at: int | None = position
    if chance.random() < _STOPPED:
        ring_at = max(source.begin, position - chance.randint(1, chance.choice((3, 12, 60))))
    if position == source.begin or ring_at == source.begin or chance.random() < 0.05:
        ring_at = None
    given = [each.offset for each in source.records if each.state == COMMITTED or not committed]
    seen = [] if ring_at is None else _batches(chance, given, source.begin, ring_at)
    ranges = _merged(seen) if ring_at is not None else ()
    return Reading(
        remembered=ranges,
        ring_at=ring_at,
        seen=_merged(seen),
        proves=chance.random() < 0.8,
        sample=_sample(chance, source, position, plain=False),
    )


def _batches(chance: random.Random, given: list[int], begin: int, end: int) -> list[tuple[int, int]]:
    """The last records of each batch; perhaps the query was tracked only since some of them.

    A reader that finds too few steps back to where the batch began: so it is by records, not by offsets.
    """
    last = max((offset for offset in given if offset < end), default=begin)
    first = begin if chance.random() < 0.7 else chance.randint(begin, last)
    size, tail = chance.choice((1_000, 64, 10, 3)), chance.choice((_TAIL, _TAIL, LIMIT, 5))
    found, at = [], first
    while at < end:
        until = min(end, at + chance.randint(1, size))
        read = [offset for offset in given if at <= offset < until][-tail:]
        if read:
            found.append((read[0], until))
        at = until
    return found


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for begin, end in ranges:
        if merged and merged[-1][1] == begin:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return tuple(merged)


def _sample(chance: random.Random, source: Source, position: int, *, plain: bool) -> Sample | None:
    """Mostly of the very end, sometimes of before."""
    draw = chance.random()
    if not plain and draw < 0.08:
        return None
    end = source.end
    if draw > 0.75:
        end = chance.randint(position if plain else source.begin, source.end)
    begin = source.begin
    before = [time for offset, time in source.appended.items() if offset < end]
    after = [time for offset, time in source.appended.items() if offset >= end]
    at = max(before, default=0)
    if after:
        return Sample(end, chance.randint(at, max(at, min(after))), begin)
    return Sample(end, at + chance.choice((0, 200, 30_000)), begin)
