"""Worlds in which nothing speaks against an exact place: in them the resolver must give it, or it would be useless."""

from tests.worlds.truth import consumed
from tests.worlds.world import COMMITTED, Partition, World

_MOST_LAG = 200
_ENOUGH = 24
"""So many records were read at least, of which all or 256 are remembered."""


def is_plain(world: World) -> bool:
    """Whether all is in order: honest, distinct records, copied once each, by a replicator at most 200 behind."""
    settled = not (
        world.lie or world.spread or world.append_time or world.compacted or world.committed or world.copies_committed
    )
    return settled and world.methods[0] == "exact" and all(_is_plain(part, world) for part in world.partitions)


def _is_plain(part: Partition, world: World) -> bool:
    times = [each.time for each in part.written]
    payloads = {each.payload for each in part.written}
    ordered = times == sorted(times) and len(payloads) == len(part.written)
    whole = [each.offset for each in part.written] == list(range(part.written_end)) and all(
        each.state == COMMITTED for each in part.written
    )
    return ordered and whole and _is_copied_once(part) and _is_tracked(part, world)


def _is_copied_once(part: Partition) -> bool:
    copied = [row.of for row in part.kept]
    complete = copied == list(range(len(copied))) and part.kept_end == part.kept[-1].offset + 1 if copied else False
    untouched = part.kept_begin == 0 and part.stable is None and not part.filtered
    shown = all(row.state == COMMITTED for row in part.kept)
    lags = max(0, part.position - len(copied))
    return complete and untouched and shown and part.next_copy == len(copied) and lags <= _MOST_LAG


def _is_tracked(part: Partition, world: World) -> bool:
    read = consumed(part, world)
    known = (max(0, part.position - 256), part.position)
    sampled = part.sample is not None and part.sample.end >= part.position
    return sampled and len(read) >= _ENOUGH and part.ring_at == part.position and part.remembered == (known,)
