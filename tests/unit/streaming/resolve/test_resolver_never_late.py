"""Resuming at the resolver's answer never skips an unread record, whatever the log, the position and the disorder.

``TIDEOVER_WORLDS`` sets how many seeded worlds are tried (default 2,000, and a part of them in a quick run);
``TIDEOVER_SEED`` where they begin.
"""

import os
import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from state.settings.keys import MethodName
from streaming.resume import notes
from tests.memory_log import MemoryCluster
from tests.thorough import WHOLE, tries
from tests.unit.streaming.replication import World, deal, draw
from tests.unit.streaming.standby import T0, found, one, rules, want

WORLDS = int(os.environ.get("TIDEOVER_WORLDS", tries(2000)))
TOPICS = 250
"""So many show whether few of a hundred are late; a part of them would not."""
SEED = int(os.environ.get("TIDEOVER_SEED", "0")) or random.SystemRandom().randrange(10**9)


def judged(world: World, seed: int) -> str:
    """Resolve one world and hold its answer against the serial numbers; the method and quality, for the counts."""
    (target,) = found(world.log, world.want, world.rules).targets
    name = f"world {seed}: {target}"
    assert target.target_offset is not None, name
    if not world.shows_order and world.skipped(target):
        return "another order, not shown"
    assert world.skipped(target) == set(), f"late, {name}"
    repeated = world.repeated(target)
    if world.lookalikes:
        return "lookalikes"
    if target.exact:
        assert repeated == 0 or (world.resent and not world.shown(target)), f"not exact, {name}"
        return "exact"
    reported = target.method == "exact" and notes.UNPROVEN_BOUND not in target.note
    if (
        target.replay_records is not None
        and reported
        and world.distinctive
        and world.want.ring_offset == world.want.offset
    ):
        assert repeated <= target.replay_records, f"forecast too low, {name}"
    return f"{target.method}, {'early' if repeated else 'no repeat'}"


def test_thousands_of_seeded_worlds_are_never_late_and_exact_means_exact() -> None:
    print(f"TIDEOVER_SEED={SEED} TIDEOVER_WORLDS={WORLDS}")
    counts = Counter(judged(world, seed) for seed in range(SEED, SEED + WORLDS) if (world := draw(seed)) is not None)
    print(dict(counts))
    assert counts["exact"] > WORLDS / (40 if WHOLE else 150), counts  # one of 24 is
    assert counts["another order, not shown"] <= 1 + WORLDS / 10_000, counts


@given(st.integers(min_value=0))
@settings(max_examples=tries(300))
def test_any_world_is_never_late_and_exact_means_exact(seed: int) -> None:
    world = draw(seed)
    if world is not None:
        judged(world, seed)


def test_topics_dealt_by_another_hash_are_late_in_under_one_of_a_hundred() -> None:
    """Never is not to be had: compaction may leave too little to show it, or every partition may seem to lag."""
    print(f"TIDEOVER_SEED={SEED}")
    methods: Counter[str | None] = Counter()
    late = 0
    for seed in range(SEED, SEED + TOPICS):
        dealt = deal(seed)
        targets = found(dealt.log, dealt.wants, rules(buffer_ms=1000)).targets
        if any(target.target_offset is None for target in targets):
            assert any(want.offset == 0 for want in dealt.wants), f"topic {seed}: {targets}"  # then it has no time
            continue
        late += dealt.skipped(targets) != set()
        methods.update(target.method for target in targets)
    print(dict(methods), late)
    assert late <= 1 + TOPICS / 100, methods
    assert methods["timestamp"] > TOPICS / 2, methods


@given(st.integers(min_value=0))
@settings(max_examples=tries(300))
def test_a_segment_never_begins_behind_a_record_that_came_after_the_time(seed: int) -> None:
    """Whatever the records' own times, the lengths of segments, and what retention has left."""
    rnd = random.Random(seed)
    log, written, count = MemoryCluster("west"), [T0], rnd.randint(1, 60)
    log.create("orders")
    for offset in range(count):
        if offset and rnd.random() < 0.2:
            log.roll("orders", 0, written[-1])
        written.append(written[-1] + rnd.randint(0, 5))
        log.append("orders", 0, T0 + rnd.randint(-(10**6), 10**6), b"")
    log.retain("orders", 0, rnd.choice([0, 0, rnd.randint(0, count)]))
    time = rnd.randint(T0 - 1, written[-1] + 1)
    target = one(log, want([], offset=count, timestamp_ms=time), rules(MethodName.SEGMENT, buffer_ms=0))
    first = next((offset for offset, at in enumerate(written[1:]) if at > time), count)
    assert target.method == "segment"
    assert target.target_offset is not None
    assert target.target_offset <= max(first, log.partition("orders", 0).begin)
