"""The whole matrix on one real world; the report ``alignment``.

``POSITIONS=n`` changes how many positions are drawn per case (60), ``SEED=n`` what is drawn.
"""

import os
import random
from pathlib import Path

import pytest

from reports.origin import origin
from tests.alignment.cases import CASES
from tests.alignment.matrix import measured
from tests.alignment.pair import running_pair
from tests.alignment.report import section
from tests.long.notes import conclude

pytestmark = pytest.mark.long


@pytest.mark.timeout(1800)
def test_no_place_of_any_case_is_late_and_as_many_are_exact_as_can_be(tmp_path: Path) -> None:
    on = origin()
    count = int(os.environ.get("POSITIONS", "60"))
    seed = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**6))))
    print(f"SEED={seed}")
    with running_pair(tmp_path) as pair:
        matrix = measured(pair, CASES, records=3000, kills=3, burst_seconds=4.0, positions=count, seed=seed)
    command = f"SEED={seed} POSITIONS={count} make reports ONLY=alignment"
    conclude(
        on, "alignment", [section(matrix.rows)], command=command,
        count=sum(len(row.answers) for row in matrix.rows), wrong=sum(len(row.problems) for row in matrix.rows),
        data={"seconds": matrix.seconds},
    )  # fmt: skip
    assert [problem for row in matrix.rows for problem in row.problems] == []
