"""Makes a world smaller while the judge still finds the same kind of mistake in it.

Every step takes something away: partitions, settings, records with their copies, copies alone, holes, and distances
in time. What the resolver is given follows from the rest, so a smaller world is as honest as the one it came from.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.worlds.honest import dishonest
from tests.worlds.world import COMMITTED, OPEN, Kept, Partition, World

Fails = Callable[[World], bool]
_STEPS = 2_000
"""Worlds tried at most."""


def shrunk(world: World, fails: Fails, *, steps: int = _STEPS) -> World:
    """The smallest world found for which ``fails`` still holds; ``world`` itself must be one."""
    tried, again = 0, True
    while again:
        again = False
        for smaller in _candidates(world):
            if tried >= steps:
                return world
            tried += 1
            if smaller != world and not dishonest(smaller) and fails(smaller):
                world, again = smaller, True
                break
    return world


def _candidates(world: World) -> Iterator[World]:
    yield from _settings(world)
    if world.spread:
        yield from _of_spread(world)
    else:
        yield from _without_partitions(world)
    for index, part in enumerate(world.partitions):
        for smaller in _claims(part) if world.spread else _smaller(part):
            yield _with(world, index, smaller)
    yield from _times(world)


def _with(world: World, index: int, part: Partition) -> World:
    return replace(world, partitions=(*world.partitions[:index], part, *world.partitions[index + 1 :]))


def _of_spread(world: World) -> Iterator[World]:
    """Fewer records with their copies, wherever these are, and fewer copies; names and numbers stay."""
    for index, part in enumerate(world.partitions):
        for first, last in _chunks(len(part.written)):
            gone = {each.offset for each in part.written[first:last]}
            rest = _with(world, index, replace(part, written=part.written[:first] + part.written[last:]))
            yield replace(
                rest,
                partitions=tuple(
                    replace(each, kept=tuple(row for row in each.kept if not (row.by == index and row.of in gone)))
                    for each in rest.partitions
                ),
            )
        for first, last in _chunks(len(part.kept)):
            yield _with(world, index, replace(part, kept=part.kept[:first] + part.kept[last:]))


def _settings(world: World) -> Iterator[World]:
    plain = World(partitions=(), now=0)
    names = ("lie", "committed", "copies_committed", "append_time", "compacted", "buffer_ms", "methods", "on_no_match")
    for name in (
        *names,
        "knows_type",
        "per_fetch",
        "keeps_offsets",
        "same_id",
        "sync_lag",
        "syncs_lost",
        "segment_rows",
    ):
        if getattr(world, name) != getattr(plain, name):
            simpler = replace(world, **{name: getattr(plain, name)})
            yield _dated(simpler) if name == "append_time" else simpler
    if world.lie is not None:
        if world.lie.only is not None:
            yield replace(world, lie=replace(world.lie, only=None))
        for amount in (1, world.lie.amount // 2):
            if 0 < amount < world.lie.amount:
                yield replace(world, lie=replace(world.lie, amount=amount))


def _dated(world: World) -> World:
    """Each copy with the time of its original."""
    parts = []
    for part in world.partitions:
        times = {each.offset: each.time for each in part.written}
        rows = (row if row.of is None else replace(row, time=times[row.of]) for row in part.kept)
        parts.append(replace(part, kept=tuple(rows)))
    return replace(world, partitions=tuple(parts))


def _without_partitions(world: World) -> Iterator[World]:
    if len(world.partitions) < 2:
        return
    for index in range(len(world.partitions)):
        rest = (*world.partitions[:index], *world.partitions[index + 1 :])
        lie = world.lie
        if lie is not None:
            lie = replace(lie, partition=min(len(rest) - 1, lie.partition - (lie.partition > index)))
        yield replace(world, partitions=rest, lie=lie)


def _smaller(part: Partition) -> Iterator[Partition]:
    yield from _claims(part)
    for first, last in _chunks(len(part.written)):
        gone = {each.offset for each in part.written[first:last]}
        kept = tuple(row for row in part.kept if row.of not in gone)
        yield _stabled(replace(part, written=part.written[:first] + part.written[last:], kept=kept))
    for first, last in _chunks(len(part.kept)):
        yield _stabled(replace(part, kept=part.kept[:first] + part.kept[last:]))
    yield _closed_here(part)
    yield _closed_there(part)
    yield replace(part, written=tuple(replace(each, state=COMMITTED) for each in part.written))
    yield replace(
        part, stable=None, kept=tuple(replace(r, state=COMMITTED) if r.state == OPEN else r for r in part.kept)
    )
    yield _renamed(part)


def _stabled(part: Partition) -> Partition:
    return replace(part, stable=next((row.offset for row in part.kept if row.state == OPEN), None))


def _claims(part: Partition) -> Iterator[Partition]:
    """Simpler memories and samples."""
    if part.ring_at is not None:
        whole = ((max(0, part.ring_at - 256), part.ring_at),)
        yield replace(part, ring_at=part.position, remembered=((max(0, part.position - 256), part.position),), seen=())
        yield replace(part, remembered=whole, seen=())
    yield replace(part, seen=())
    yield replace(part, filtered=())
    yield replace(part, proves=True)
    yield replace(part, kept_begin=0)
    yield replace(part, next_copy=part.written_end)
    if part.sample is not None:
        yield replace(part, sample=replace(part.sample, end=part.written_end))
        yield replace(part, sample=None)


def _chunks(length: int) -> Iterator[tuple[int, int]]:
    """Halves, quarters and so on down to single ones, the last ones first."""
    size = length
    while size > 0:
        for last in range(length, 0, -size):
            yield max(0, last - size), last
        size //= 2


def _closed_here(part: Partition) -> Partition:
    """Without holes in the old log's offsets."""
    known = sorted(each.offset for each in part.written)
    new = _numbering(known)
    return replace(
        part,
        written=tuple(replace(each, offset=new(each.offset)) for each in part.written),
        written_end=len(known),
        kept=tuple(row if row.of is None else replace(row, of=new(row.of)) for row in part.kept),
        position=new(part.position),
        next_copy=new(part.next_copy),
        remembered=_ranges(part.remembered, new),
        seen=_ranges(part.seen, new),
        ring_at=None if part.ring_at is None else new(part.ring_at),
        filtered=tuple(sorted({new(each) for each in part.filtered if each in known})),
        sample=None if part.sample is None else replace(part.sample, begin=0, end=new(part.sample.end)),
    )


def _closed_there(part: Partition) -> Partition:
    """Without holes in the standby's offsets."""
    new = _numbering([row.offset for row in part.kept])
    rows: tuple[Kept, ...] = tuple(replace(row, offset=new(row.offset)) for row in part.kept)
    stable = None if part.stable is None else new(part.stable)
    return replace(part, kept=rows, kept_end=len(rows), kept_begin=new(part.kept_begin), stable=stable)


def _numbering(known: list[int]) -> Callable[[int], int]:
    """From an old offset to how many records lie before it."""
    return lambda offset: bisect_left(known, offset)


def _ranges(ranges: tuple[tuple[int, int], ...], new: Callable[[int], int]) -> tuple[tuple[int, int], ...]:
    moved = ((new(begin), new(end)) for begin, end in ranges)
    return tuple((begin, end) for begin, end in moved if begin < end)


def _renamed(part: Partition) -> Partition:
    """Each payload that is written once is called by its offset."""
    names = [each.payload for each in part.written] + [row.payload for row in part.kept if row.of is None]
    if len(set(names)) < len(names):
        return part
    written = {each.offset: f"r{each.offset}" for each in part.written}
    return replace(
        part,
        written=tuple(replace(each, payload=written[each.offset]) for each in part.written),
        kept=tuple(
            replace(row, payload=f"x{row.offset}" if row.of is None else written[row.of])
            for row in part.kept
            if row.of is None or row.of in written
        ),
    )


def _times(world: World) -> Iterator[World]:
    """Times in the same order, one after the other."""
    for step in (10, 1_000):
        yield _retimed(world, step)
    if world.now != (now := _newest(world)):
        yield replace(world, now=now)


def _newest(world: World) -> int:
    return max(_dates(world), default=0)


def _dates(world: World) -> set[int]:
    written = {each.time for part in world.partitions for each in part.written}
    kept = {row.time for part in world.partitions for row in part.kept}
    return written | kept | {part.sample.at for part in world.partitions if part.sample is not None}


def _retimed(world: World, step: int) -> World:
    known = _dates(world) | {world.now}
    new = {time: number * step for number, time in enumerate(sorted(known))}
    parts = tuple(
        replace(
            part,
            written=tuple(replace(each, time=new[each.time]) for each in part.written),
            kept=tuple(replace(row, time=new[row.time]) for row in part.kept),
            sample=None if part.sample is None else replace(part.sample, at=new[part.sample.at]),
        )
        for part in world.partitions
    )
    return replace(world, partitions=parts, now=new[world.now])
