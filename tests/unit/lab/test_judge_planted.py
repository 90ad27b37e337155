"""Whatever is planted into what a query delivered is found, in hundreds of worlds; what is right is called right.

``TIDEOVER_SEED`` repeats what was drawn.
"""

import os
import random
from collections import Counter

from lab.judge import QueryVerdict
from tests.planted import IN_DELIVERIES, MISTAKES, Planted, world
from tests.thorough import tries

TRIALS = tries(500)
SEED = int(os.environ.get("TIDEOVER_SEED", "0")) or random.SystemRandom().randrange(10**9)


def drawn(number: int, seed: int = SEED) -> Planted:
    """Of three worlds in one the primary returns, and in one the query goes back."""
    return world(seed + number, returns=number % 3 == 0, goes_back=number % 3 == 1)


def is_right(verdict: QueryVerdict, planted: Planted) -> bool:
    """Nothing is lost, and nothing came twice but what the replicator brought late."""
    return not verdict.lost and verdict.duplicated == planted.repeats


def test_every_planted_mistake_is_found() -> None:
    print(f"TIDEOVER_SEED={SEED}")
    found = Counter[str]()
    for number in range(TRIALS):
        name = list(MISTAKES)[number % len(MISTAKES)]
        planted, chance, again = drawn(number), random.Random(SEED + number), 0
        while not MISTAKES[name](planted, chance):  # this world has no room for it
            again += 1
            planted = drawn(number + again * TRIALS)
        verdicts = [planted.by_sums(), *([planted.by_id()] if name in IN_DELIVERIES else [])]
        missed = [verdict for verdict in verdicts if not verdict.lost and verdict.duplicated <= planted.repeats]
        assert missed == [], f"{name}, world {planted.seed}"
        found[name] += 1
    assert min(found[name] for name in MISTAKES) == TRIALS // len(MISTAKES)


def test_every_right_outcome_is_called_right() -> None:
    print(f"TIDEOVER_SEED={SEED}")
    for number in range(TRIALS):
        planted = drawn(number)
        for verdict in (planted.by_sums(), planted.by_id()):
            assert is_right(verdict, planted), f"world {planted.seed}: {verdict}, announced {planted.repeats}"


def test_the_worlds_hold_what_makes_a_judge_err() -> None:
    worlds = [drawn(number, seed=0) for number in range(TRIALS)]
    verdicts = [planted.by_sums() for planted in worlds]
    assert {len({lane.key[0] for lane in planted.lanes}) for planted in worlds} == {1, 2, 3}
    assert {len({lane.key[1] for lane in planted.lanes}) for planted in worlds} == set(range(1, 9))
    assert {(planted.deduplicates, planted.is_dead) for planted in worlds} == {
        (False, False), (False, True), (True, False), (True, True),
    }  # fmt: skip
    assert min(sum(each > 0 for each in reported) for reported in (
        [verdict.exposed for verdict in verdicts], [verdict.resent for verdict in verdicts],
        [planted.repeats for planted in worlds],
    )) > TRIALS / 20  # fmt: skip
