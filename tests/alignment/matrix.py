"""Cases taken together on one world."""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.alignment.cases import Case
from tests.alignment.pair import Pair
from tests.alignment.report import Row
from tests.alignment.world import Filled


@dataclass(frozen=True)
class Matrix:
    """What came of all cases."""

    rows: Sequence[Row]
    seconds: float


def measured(
    pair: Pair, cases: Sequence[Case], *, records: int, kills: int, burst_seconds: float, positions: int, seed: int
) -> Matrix:
    """Fill one world and take ``positions`` of each case."""
    began = time.monotonic()
    world = Filled(pair, random.Random(seed))
    world.fill(cases, records=records, kills=kills, burst_seconds=burst_seconds)
    rows = [Row(case, world.answers(case, positions)) for case in cases]
    return Matrix(rows, time.monotonic() - began)
