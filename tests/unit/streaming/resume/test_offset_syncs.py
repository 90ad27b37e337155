"""Offset syncs: which count, where they lead, and what they can never do: skip an unread record.

The tables hold the cases of Kafka's own ``OffsetSyncStoreTest`` (offset translation, no sync, past offsets, rewound and
reset offsets). Where the answer differs from Kafka's the row says why; it is then earlier, or there is none.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.resume.offset_syncs import Sync, Syncs
from tests.thorough import tries
from tests.unit.streaming.replicator import Replicated, replicate


def of(*pairs: tuple[int, int]) -> Syncs:
    return Syncs.of(Sync(*pair) for pair in pairs)


KAFKA = [
    # syncs in their order, requested offset, Kafka's answer, ours
    ("above a sync never more than one further", [(100, 200)], 150, 201, 201),
    ("at a sync", [(100, 200)], 100, 200, 200),
    ("at the newer of two", [(100, 200), (150, 250)], 150, 250, 250),
    ("before any sync", [(100, 200)], 5, None, None),
    ("no sync at all", [], 0, None, None),
    ("the standby's topic was made anew", [(100, 200), (150, 250), (200, 10)], 200, 10, 10),
    ("made anew: what was said before is void", [(100, 200), (150, 250), (200, 10)], 160, None, None),
    ("20 is known, 23 is asked", [(20, 200)], 23, 201, 201),
    # 51 records lie between 50 old offsets: one of them is there twice, and may be one that was unread at 150.
    ("more records than old offsets", [(100, 200), (150, 251)], 150, 251, 201),
    # Records up to 200 lie before 20 of the standby; if nothing more is sent, 21 and later are found only there.
    ("the old offsets went back", [(200, 10), (20, 20)], 20, 20, None),
]


@pytest.mark.parametrize(("case", "syncs", "requested", "kafka", "ours"), KAFKA)
def test_known_cases_of_kafkas_offset_sync_store(
    case: str, syncs: list[tuple[int, int]], requested: int, kafka: int | None, ours: int | None
) -> None:
    """``OffsetSyncStoreTest``: testOffsetTranslation, testNoTranslationIfNoOffsetSync, testPastOffsetTranslation."""
    assert of(*syncs).translate(requested) == ours
    assert ours is None or (kafka is not None and ours <= kafka)


@pytest.mark.parametrize(
    ("requested", "place"),
    [(-1, None), (0, 0), (1, 1), (999, 991), (4840, 4840), (4839, 4831), (4841, 4841), (10_050, 10_001)],
)
def test_past_offsets_are_found_as_near_as_syncs_were_written(requested: int, place: int | None) -> None:
    """``OffsetSyncStoreTest.testPastOffsetTranslation`` keeps few syncs in memory and forgets what it read at start."""
    syncs = of(*((offset, offset) for offset in range(0, 10_001, 10)))
    assert syncs.translate(requested) == place


def test_a_rewound_replicator_is_not_followed_until_it_has_sent_all_again() -> None:
    """``OffsetSyncStoreTest.testPastOffsetTranslation`` ends with old offsets going back to 1500."""
    first = [(offset, offset) for offset in range(0, 10_001, 10)]
    rewound = of(*first, (1500, 11_000))
    assert [rewound.translate(offset) for offset in (1499, 1500, 2000)] == [1491, 1500, 2000]
    under_way = [(1500 + done, 11_000 + done) for done in range(0, 9_490, 10)]
    assert of(*first, *under_way).front[-1] == Sync(10_000, 10_000)
    over = [(1500 + done, 11_000 + done) for done in range(0, 9_510, 10)]
    assert of(*first, *over).translate(11_000) == 20_500


def test_the_same_sync_twice_changes_nothing() -> None:
    assert of((5, 7), (5, 7), (9, 11)) == of((5, 7), (9, 11))


@pytest.mark.parametrize(
    ("syncs", "requested", "repeats"),
    [
        ([(20, 200)], 20, 0),
        ([(20, 200)], 21, 0),
        ([(20, 200)], 23, 2),
        ([(20, 200), (500, 205)], 400, 4),
        ([(0, 0), (100, 100), (50, 101)], 60, None),
    ],
)
def test_repeats_have_an_upper_bound_unless_a_resend_followed(
    syncs: list[tuple[int, int]], requested: int, repeats: int | None
) -> None:
    assert of(*syncs).repeats(requested) == repeats


def judge(world: Replicated, requested: int) -> None:
    syncs = Syncs.of(world.syncs)
    place = syncs.translate(requested)
    if place is None:
        return
    assert world.skipped(requested, place) == set(), f"late: {requested} -> {place}, {syncs}"
    bound = syncs.repeats(requested)
    if bound is not None:
        assert world.repeated(requested, place) <= bound, f"forecast too low: {requested} -> {place}, {syncs}"


@given(st.integers(min_value=0))
@settings(max_examples=tries(400), deadline=None)
def test_resuming_at_a_sync_never_skips_an_unread_record(seed: int) -> None:
    rnd = random.Random(seed)
    world = replicate(rnd)
    for requested in rnd.sample(range(world.end + 2), min(20, world.end + 2)):
        judge(world, requested)


def test_the_syncs_that_count_grow_in_both_offsets() -> None:
    for seed in range(300):
        front = Syncs.of(replicate(random.Random(seed)).syncs).front
        assert list(front) == sorted(set(front))
        assert [sync.downstream for sync in front] == sorted({sync.downstream for sync in front})


def test_most_positions_near_the_front_are_answered_and_near() -> None:
    """The rule would be worth nothing if it were only careful."""
    answered, far = 0, []
    for seed in range(300):
        world = replicate(random.Random(seed))
        place = Syncs.of(world.syncs).translate(world.end)
        if place is not None:
            answered += 1
            far.append(world.repeated(world.end, place))
    assert answered > 290
    assert sorted(far)[len(far) // 2] <= 12
