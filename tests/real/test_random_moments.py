"""Applications of every kind at a random moment of a fault under load. Many such moments: ``tests/long``."""

import random
from pathlib import Path

import pytest

from tests.moments import KINDS, Moment, play
from tests.world import RATE_BESIDE_OTHERS

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("kinds", [KINDS[:3], KINDS[3:]], ids="-".join)
def test_each_kind_of_application_is_exact_at_a_random_moment(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}: {Moment.drawn(seed)}")
    play(tmp_path, kinds, Moment.drawn(seed), RATE_BESIDE_OTHERS)
