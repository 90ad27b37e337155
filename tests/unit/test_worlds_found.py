"""Worlds in which the resolver was wrong once, as the fuzzer of ``tests/worlds`` made them small."""

import pytest

from tests.worlds.honest import dishonest
from tests.worlds.play import findings
from tests.worlds.show import report
from tests.worlds.world import Kept, Lie, Partition, Sample, World, Written

WORLDS = {
    "a stale end of one partition": World(
        partitions=(
            Partition(
                written=(Written(0, 0, "r0"), Written(1, 10, "r1")),
                written_end=2,
                kept=(Kept(0, 0, "r0", of=0), Kept(1, 0, "r0", of=0), Kept(2, 10, "r1", of=1)),
                kept_end=3,
                position=2,
                next_copy=2,
                remembered=((0, 2),),
                ring_at=2,
            ),
            Partition(written=(), written_end=0, kept=(), kept_end=10, position=0, next_copy=0),
        ),
        now=20,
        committed=True,
        lie=Lie(kind="stale-end", partition=1, only=0),
    ),
    "one topic id and other records": World(
        partitions=(
            Partition(
                written=(Written(1, 10, "r1"),),
                written_end=15,
                kept=(Kept(1, 10, "r1", of=1), Kept(2, 0, "x2")),
                kept_end=36,
                position=13,
                next_copy=15,
                sample=Sample(end=15, at=10),
            ),
        ),
        now=20,
        methods=("identity", "exact", "timestamp"),
        keeps_offsets=True,
        same_id=True,
    ),
    "a time ahead before deleted records": World(
        partitions=(
            Partition(
                written=(
                    Written(0, 5, "r0"),
                    Written(1, 3600006, "r1"),
                    Written(2, 3600016, "r2"),
                    Written(3, 16, "r3"),
                ),
                written_end=4,
                kept=(Kept(0, 3600016, "r2", of=2), Kept(1, 16, "r3", of=3)),
                kept_end=2,
                position=2,
                next_copy=4,
                kept_begin=1,
                remembered=((0, 2),),
                ring_at=2,
            ),
        ),
        now=3600016,
    ),
    "a sync whose records are deleted": World(
        partitions=(
            Partition(
                written=(Written(12, 3616000, "p3"), Written(13, 3617000, "p3")),
                written_end=24,
                kept=(Kept(0, 3617000, "p3", of=13), Kept(1, 29000, "x14")),
                kept_end=2,
                position=13,
                next_copy=24,
                kept_begin=1,
                remembered=((0, 13),),
                ring_at=13,
            ),
        ),
        now=3617000,
        methods=("synced",),
        sync_lag=10,
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_that_was_found_once_stays_mended(name: str) -> None:
    world = WORLDS[name]
    targets, found = findings(world)
    assert not dishonest(world)
    assert not found, report(world, targets, found)
