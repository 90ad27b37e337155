"""The judge of ``tests/worlds`` finds each mistake that is planted in a right target, and nothing in the right one."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from streaming.resume.model import Target
from tests.worlds.generate import world_of
from tests.worlds.honest import dishonest
from tests.worlds.judge import judge
from tests.worlds.show import to_python
from tests.worlds.shrink import shrunk
from tests.worlds.spread import is_evident, respread, truth_of
from tests.worlds.truth import Truth
from tests.worlds.world import ABORTED, MARKER, SOURCE, TOPIC, Kept, Lie, Partition, Sample, World, Written

_SEEDS = 800


def right(truth: Truth, number: int = 0) -> Target:
    """The target that names the right offset, and each number as it is."""
    place = truth.ideal()
    lacking = truth.lacking(also_expired=True)
    return Target(
        source=SOURCE,
        topic=TOPIC,
        partition=number,
        offset=truth.partition.position,
        timestamp_ms=None,
        buffer_ms=truth.world.buffer_ms,
        target_topic=TOPIC,
        target_partition=number,
        target_offset=place,
        method="exact",
        exact=not truth.skipped(place) and not truth.first_read_from(place) and not truth.expired(),
        begin=truth.partition.kept_begin,
        end=truth.visible_end,
        replay_records=truth.repeated(place, truth.visible_end) + truth.withheld(place, truth.visible_end),
        replay_later_records=len(truth.to_come()),
        exposure_records=len(lacking),
        exposure_seconds=None,
        note="unread records may have been skipped" if truth.skipped(place) else "",
        expired=bool(truth.expired()),
    )


@cache
def worlds() -> list[tuple[World, Truth, Target]]:
    """Worlds of one partition each, with their right targets."""
    made = [world_of(seed) for seed in range(_SEEDS)]
    truths = [Truth(world.partitions[0], world) for world in made if len(world.partitions) == 1]
    return [(truth.world, truth, right(truth)) for truth in truths]


def kinds(world: World, target: Target) -> set[str]:
    return {finding.kind for finding in judge(world, [target])}


def changed(target: Target, field: str, value: Any) -> Target:
    return replace(target, **{field: value})


def test_each_generated_world_can_be() -> None:
    assert [(seed, reason) for seed in range(_SEEDS) if (reason := dishonest(world_of(seed)))] == []


def test_a_seed_gives_the_same_world_again() -> None:
    assert [world_of(seed) for seed in range(50)] == [world_of(seed) for seed in range(50)]


def test_nothing_is_found_in_a_right_target() -> None:
    assert [(to_python(world), found) for world, _, target in worlds() if (found := judge(world, [target]))] == []


def test_a_later_offset_is_found_where_it_skips_an_unread_record() -> None:
    planted = 0
    for world, truth, target in worlds():
        place = truth.ideal()
        skipped = [of for of in truth.skipped(place + 1) if of not in truth.skipped(place)]
        if skipped and place < truth.visible_end:
            planted += 1
            later = replace(target, target_offset=place + 1, note="", expired=False)
            assert "lost" in kinds(world, later)
            assert {"lost", "exact"} <= kinds(world, replace(later, exact=True))
    assert planted > 100


def test_a_loss_that_the_target_admits_is_not_found() -> None:
    world, _, target = next(each for each in worlds() if each[1].skipped(each[1].ideal() + 1) and each[2].exact)
    later = replace(target, target_offset=(target.target_offset or 0) + 1, exact=False)
    assert kinds(world, later) >= {"lost"}
    assert "lost" not in kinds(world, replace(later, expired=True))
    assert "lost" not in kinds(world, replace(later, note="unread records may have been skipped"))
    assert "lost" not in kinds(world, replace(later, method="latest"))
    assert "lost" in kinds(world, replace(later, method="synced"))


def test_an_exact_flag_is_found_where_the_offset_is_too_early() -> None:
    planted = 0
    for world, truth, target in worlds():
        place = max(truth.ideal() - 1, truth.partition.kept_begin)
        if truth.first_read_from(place):
            planted += 1
            assert "exact" in kinds(world, replace(target, target_offset=place, exact=True))
    assert planted > 100


@pytest.mark.parametrize(
    ("field", "kind", "enough"),
    [
        ("replay_records", "replay", 20),
        ("replay_later_records", "later", 50),
        ("exposure_records", "exposure", 50),
    ],
)
def test_a_number_that_is_one_too_small_is_found(field: str, kind: str, enough: int) -> None:
    planted = 0
    for world, truth, target in worlds():
        number = getattr(target, field)
        lacking = len(truth.lacking(also_expired=not target.expired))
        known = {"exposure_records": -1 if truth.seems_copied() else lacking}
        known["replay_records"] = truth.repeated(truth.ideal(), truth.visible_end)
        if number and known.get(field, number) == number:
            planted += 1
            for wrong in (number - 1, 0):
                assert kind in kinds(world, changed(target, field, wrong))
            assert kind not in kinds(world, changed(target, field, None))
    assert planted > enough


def test_expired_records_are_found_where_the_target_is_silent() -> None:
    planted = 0
    for world, truth, target in worlds():
        if truth.expired():
            planted += 1
            assert "expired" in kinds(world, replace(target, expired=False))
    assert planted > 10


def test_an_offset_behind_the_visible_end_is_found() -> None:
    for world, truth, target in worlds()[:50]:
        assert "bounds" in kinds(world, replace(target, target_offset=truth.visible_end + 1))


def test_a_refusal_is_of_no_use_in_a_plain_world_alone() -> None:
    refused = [kinds(world, replace(target, target_offset=None, method=None)) for world, _, target in worlds()]
    assert set().union(*refused) == {"useless"}
    assert 60 < sum(bool(found) for found in refused) < len(refused) / 3


@pytest.mark.parametrize(
    ("here", "others", "to_come"),
    [("ABB", "", 0), ("BB", "", 0), ("ABAB", "", 1), ("AB", "", 1), ("AB", "B", 0), ("AB", "C", 1), ("", "", 1)],
)
def test_an_equal_record_may_be_the_copy_of_one_that_is_to_come(here: str, others: str, to_come: int) -> None:
    """The old log is A, B, B, and the replicator has not copied the last record, whatever is on the standby."""
    records = tuple(Written(at, 0, payload) for at, payload in enumerate("ABB"))
    kept = [Kept(at, 0, payload, of="AB".index(payload)) for at, payload in enumerate(here)]
    kept += [Kept(at, 0, payload) for at, payload in enumerate(others, len(here))]
    truth = Truth(Partition(records, 3, tuple(kept), len(kept), position=3, next_copy=2), World((), 0))
    assert len(truth.to_come()) == to_come


def test_another_partitioner_that_the_note_names_excuses_no_loss() -> None:
    """Three records in two partitions are too few to show it; the place is the end, behind the unread ones."""
    old = [Partition(tuple(Written(at, at, f"{name}{at}") for at in range(3)), 3, (), 0, 0, 3) for name in "ab"]
    kept = [tuple(Kept(each.offset, each.time, each.payload, each.offset) for each in part.written) for part in old]
    parts = [replace(part, kept=rows, kept_end=3) for part, rows in zip(old, kept, strict=True)]
    world = World(respread(tuple(parts)), 10, spread=True)
    targets = [
        replace(right(truth_of(world, at), at), target_offset=part.kept_end, method="timestamp", exact=False)
        for at, part in enumerate(world.partitions)
    ]
    assert judge(world, targets) == []
    seen = [replace(each, note="partition 0 does not hold the records it held on the old cluster") for each in targets]
    assert "lost" in {finding.kind for finding in judge(world, seen)}


def spread_over_two(*read: Written) -> World:
    """A partition of which these were read, and three more were not; another partitioner put all in two."""
    unread = [Written(at, 10 * at, f"r{at}") for at in range(len(read), len(read) + 3)]
    written = (*read, *unread)
    kept = tuple(Kept(each.offset, each.time, each.payload, each.offset) for each in written)
    size, end = len(read), len(written)
    full = Partition(written, end, kept, end, position=size, next_copy=end, remembered=((0, size),), ring_at=size)
    return World(respread((full, Partition((), 0, (), 0, 0, 0))), 1_000, spread=True)


def test_records_not_committed_or_alike_show_no_other_partitioner() -> None:
    """Sixteen records were read; without one of them it takes one more."""
    read = [Written(at, 10 * at, f"r{at}") for at in range(16)]
    assert is_evident(spread_over_two(*read))
    assert not is_evident(spread_over_two(replace(read[0], state=ABORTED), *read[1:]))
    assert not is_evident(spread_over_two(*read[:15], replace(read[14], offset=15)))
    assert not is_evident(spread_over_two(*read[1:]))


def test_a_marker_shows_no_other_partitioner() -> None:
    """Its time is newer than the records read last, but only a record proves that these should be there."""
    world = spread_over_two(*(Written(at, 10 * at, f"r{at}") for at in range(16)))
    first, other = world.partitions
    old = tuple(row for row in first.kept if row.time < 150)
    marked = replace(first, kept=(*old, Kept(first.kept_end, 500, "", state=MARKER)), kept_end=first.kept_end + 1)
    assert not is_evident(replace(world, partitions=(marked, other)))


def test_as_many_records_as_a_gap_has_may_be_its_copies() -> None:
    """The contents of a gap are unknown, so where numbers and times fit, another writer's record counts as one."""
    old = tuple(Written(at, 10 * at, f"r{at}") for at in range(10))
    kept = tuple(Kept(each.offset, each.time, each.payload, each.offset) for each in old[:9])
    part = Partition(
        old, 10, (*kept, Kept(9, 90, "x9")), 10, position=10, next_copy=9, remembered=((0, 7),), ring_at=7,
        sample=Sample(10, 100),
    )  # fmt: skip

    def found(part: Partition) -> set[str]:
        world = World((part,), 100)
        return kinds(world, replace(right(Truth(part, world)), target_offset=10, exact=True, replay_later_records=0))

    assert found(part) == set()
    assert {"lost", "later"} <= found(replace(part, sample=None))
    assert {"lost", "later"} <= found(replace(part, sample=Sample(9, 85)))
    assert {"lost", "later"} <= found(replace(part, kept=(*kept, Kept(9, 89, "x9"))))
    assert {"lost", "later"} <= found(replace(part, kept=(*kept, Kept(9, 90, "r3"), Kept(10, 90, "x9"))))


@pytest.mark.parametrize(
    ("others", "end", "found"),
    [(25, 4, False), (31, 4, True), (19, 4, True), (25, 3, True)],
    ids=["between", "newer than the sample", "older", "nothing followed"],
)
def test_an_unread_record_may_show_that_aborted_ones_are_left_out(others: int, end: int, found: bool) -> None:
    old = (Written(0, 0, "r0"), Written(1, 10, "r1", ABORTED), Written(2, 20, "r2", ABORTED), Written(3, 30, "r3"))
    part = Partition(
        old, 4, (Kept(0, 0, "r0", of=0), Kept(1, others, "x1")), 2, position=3, next_copy=1, remembered=((0, 3),),
        ring_at=3, sample=Sample(end, 100),
    )  # fmt: skip
    world = World((part,), 100)
    target = replace(right(Truth(part, world)), target_offset=1, exact=True, replay_later_records=0)
    assert ("later" in kinds(world, target)) == found


def test_seconds_shorter_than_what_is_lacking_are_found() -> None:
    records = tuple(Written(each, 1_000 * each, f"r{each}") for each in range(4))
    part = Partition(records, 4, (Kept(0, 0, "r0", of=0),), 1, position=1, next_copy=1, sample=Sample(4, 9_000))
    world = World((part,), 10_000)
    target = right(Truth(part, world))
    assert "seconds" in kinds(world, replace(target, exposure_seconds=1.9))
    assert "seconds" not in kinds(world, replace(target, exposure_seconds=2.0))


def test_the_shrinker_keeps_what_was_looked_for_and_little_else() -> None:
    def skips(world: World) -> bool:
        truth = Truth(world.partitions[0], world)
        place = truth.partition.kept_end
        return bool(truth.skipped(place)) and "lost" in kinds(
            world, replace(right(truth), target_offset=place, note="")
        )

    world = next(
        world for world, truth, _ in worlds() if world.lie and len(truth.partition.written) > 60 and skips(world)
    )
    small = shrunk(world, skips)
    (part,) = small.partitions
    assert (len(part.written), len(part.kept), small.lie) == (1, 1, None)
    assert not dishonest(small)


def test_a_world_as_python_is_the_same_world() -> None:
    names = {each.__name__: each for each in (World, Partition, Written, Kept, Sample, Lie)}
    for seed in range(60):
        assert eval(to_python(world_of(seed)), names) == world_of(seed)
