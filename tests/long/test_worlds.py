"""Two hundred thousand worlds against the resolver.

``WORLDS=n`` sets how many, ``SEED=n`` the first seed, ``WORKERS=n`` the processes (default: one a core).
"""

import os
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

import pytest

from tests.worlds.generate import world_of
from tests.worlds.play import Tally, play, smallest

pytestmark = [pytest.mark.long, pytest.mark.timeout(14_400)]

_PIECE = 2_000
_SHOWN = 10


def test_no_target_of_very_many_worlds_claims_what_is_false() -> None:
    count = int(os.environ.get("WORLDS", "200000"))
    first = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**9))))
    print(f"SEED={first} WORLDS={count}")
    pieces = [range(at, min(at + _PIECE, first + count)) for at in range(first, first + count, _PIECE)]
    whole = Tally()
    with ProcessPoolExecutor(max_workers=int(os.environ.get("WORKERS", "0")) or None) as pool:
        for tally in pool.map(play, pieces):
            whole.add(tally)
    print(whole.rates())
    kinds = Counter(each.kind for found in whole.found.values() for each in found)
    for seed in islice(whole.found, _SHOWN):
        print(f"\npython -m tests.worlds --seed {seed}\n{smallest(world_of(seed))}")
    print(dict(kinds))
    assert whole.wrong_places == {}
    assert whole.wrong_numbers == {}
    assert whole.worlds == count
