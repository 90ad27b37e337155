"""How much a test tries: all of it in ``make test-all`` and continuous integration, a drawn part of it in other runs.

``TIDEOVER_TESTS=all`` requests all of it. What a quick run leaves out is drawn again in each run, by the seed that the
run prints.
"""

import os
import random
from collections.abc import Iterator
from itertools import count

WHOLE = os.environ.get("TIDEOVER_TESTS") == "all"
_PART, _LEAST = 6, 10


def tries(whole: int) -> int:
    """How many random cases to try, of so many."""
    return whole if WHOLE else max(whole // _PART, min(whole, _LEAST))


def moments() -> Iterator[int]:
    """At which write to strike: at 1, 2, 3 and so on, or at each sixth from a drawn one on."""
    return count(1) if WHOLE else count(random.randint(1, _PART), _PART)
