"""Worlds by chance against the resolver: no place skips a record in silence, and no number is too small.

The same worlds each time, so that one that fails is the work of a change; ``tests/long/test_worlds.py`` plays new ones.
``WORLDS=n`` changes how many, ``SEED=n`` which ones. One alone, made small: ``python -m tests.worlds --seed N``.
"""

import os
from itertools import islice

from tests.worlds.generate import world_of
from tests.worlds.play import play, smallest

_SHOWN = 3


def test_no_world_has_a_wrong_place_or_a_false_forecast() -> None:
    count = int(os.environ.get("WORLDS", "2000"))
    first = int(os.environ.get("SEED", "0"))
    print(f"SEED={first} WORLDS={count}")
    tally = play(range(first, first + count))
    print(tally.rates())
    for seed in islice(tally.found, _SHOWN):
        print(f"\npython -m tests.worlds --seed {seed}\n{smallest(world_of(seed))}")
    assert tally.wrong_places == {}
    assert tally.wrong_numbers == {}
