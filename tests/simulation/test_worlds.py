"""Worlds by chance against the resolver: silent losses and false numbers stay as rare as they are, on the way to none.

``WORLDS=n`` changes how many, ``SEED=n`` which ones. One alone, made small: ``python -m tests.worlds --seed N``.
"""

import os
import random
from itertools import islice

from tests.worlds.generate import world_of
from tests.worlds.play import play, smallest

_SHOWN = 3
_KNOWN_PLACES = 0.003
"""Share of worlds in which a place may still be wrong: it was 0 of 3,000 to 2 of 2,000. It is to become 0."""
_KNOWN = 0.01
"""Share of worlds in which a forecast may still be too small: a replicator stopped while it sent records again, equal
records sent twice, or what the standby's retention deleted. It is to become 0."""


def test_worlds_with_a_wrong_place_or_a_false_forecast_stay_rare() -> None:
    count = int(os.environ.get("WORLDS", "2000"))
    first = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**9))))
    print(f"SEED={first} WORLDS={count}")
    tally = play(range(first, first + count))
    print(tally.rates())
    for seed in islice(tally.found, _SHOWN):
        print(f"\npython -m tests.worlds --seed {seed}\n{smallest(world_of(seed))}")
    print(tally.wrong_places)
    assert len(tally.wrong_places) <= _KNOWN_PLACES * count
    assert len(tally.wrong_numbers) <= _KNOWN * count, tally.wrong_numbers
