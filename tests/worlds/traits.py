"""What is special about a world, by name: for the rates of exact places."""

from collections import Counter

from tests.worlds.plain import is_plain
from tests.worlds.world import COMMITTED, GONE, MARKER, OPEN, Partition, World


def traits(world: World) -> list[str]:
    """Of the whole world and of any of its partitions."""
    if world.lie is not None:
        return [f"lie {world.lie.kind}"]
    named = {
        "honest": True,
        "plain": is_plain(world),
        "read_committed": world.committed,
        "copies committed": world.copies_committed,
        "append time": world.append_time,
        "compacted": world.compacted,
        "several partitions": len(world.partitions) > 1,
        "spread": world.spread,
        "segments": world.segment_rows is not None,
    }
    found = [name for name, holds in named.items() if holds]
    return found + sorted({trait for part in world.partitions for trait in _of(part)})


def _of(part: Partition) -> list[str]:
    copies = Counter(row.of for row in part.kept if row.of is not None)
    last = max(copies, default=-1)
    named = {
        "nothing read": not any(each.offset < part.position for each in part.written),
        "nothing known": part.ring_at is None,
        "gap": part.ring_at is not None and part.ring_at < part.position,
        "lags": part.next_copy < part.position,
        "sent again": any(count > 1 for count in copies.values()),
        "left out": any(each.offset < last and each.offset not in copies for each in part.written),
        "other writers": any(row.of is None and row.state not in (MARKER, GONE) for row in part.kept),
        "markers": any(row.state == MARKER for row in part.kept),
        "open there": part.stable is not None,
        "deleted": part.kept_begin > 0,
        "transactions": any(each.state != COMMITTED for each in part.written),
        "open here": any(each.state == OPEN for each in part.written),
        "equal payloads": len({each.payload for each in part.written}) < len(part.written),
        "disorder": (times := [each.time for each in part.written]) != sorted(times),
        "no sample": part.sample is None,
    }
    return [name for name, holds in named.items() if holds]
