"""A replicator as MirrorMaker 2 is: it copies in order, writes syncs by its own rule, dies, and begins again earlier.

``OffsetSyncWriter``: a sync is written for the first record of a life, after a hole of the old offsets, and when the
last one lies ``offset.lag.max`` records back; others wait for the next commit of the worker, and are lost if it dies.
"""

import random
from dataclasses import dataclass, field

from streaming.resume.offset_syncs import Sync


@dataclass
class Replicated:
    """What lies on the standby, and the syncs that were written of it."""

    end: int
    """Of the old log."""
    copies: list[tuple[int, int]] = field(default_factory=list)
    """(standby's offset, old offset), in order."""
    syncs: list[Sync] = field(default_factory=list)

    def skipped(self, requested: int, place: int) -> set[int]:
        """Unread records that the standby holds, but not at or after the place."""
        after = {old for here, old in self.copies if here >= place}
        return {old for _, old in self.copies if old >= requested} - after

    def repeated(self, requested: int, place: int) -> int:
        """Copies of read records at or after the place."""
        return sum(old < requested for here, old in self.copies if here >= place)


def replicate(rnd: random.Random) -> Replicated:
    """A random log, and some lives of a replicator, the last of which may end before it has sent all again."""
    old, at = [], rnd.choice([0, 0, 50])
    holes = rnd.choice([0.0, 0.0, 0.02, 0.3])
    for _ in range(rnd.randint(1, 300)):
        old.append(at)
        at += 1 + (rnd.randint(1, 8) if rnd.random() < holes else 0)
    world = Replicated(end=old[-1] + 1)
    lag_max, here, first = rnd.choice([1, 10, 40]), rnd.choice([0, 37]), 0
    for _ in range(rnd.choice([1, 1, 2, 3, 4])):
        last = min(len(old), first + rnd.randint(1, 200))
        here = _live(rnd, world, old[first:last], here, lag_max)
        first = rnd.randint(max(0, last - 60), last)
        if first >= len(old):
            break
    return world


def _live(rnd: random.Random, world: Replicated, records: list[int], here: int, lag_max: int) -> int:
    synced, before, delayed = None, None, None
    for old in records:
        world.copies.append((here, old))
        if synced is None or here - (synced + 1) >= lag_max or before is None or old - before != 1:
            world.syncs.append(Sync(old, here))
            synced, delayed = here, None
        else:
            delayed = Sync(old, here)
            if rnd.random() < 0.1:  # the worker commits
                world.syncs.append(delayed)
                delayed = None
        before, here = old, here + 1
    return here
