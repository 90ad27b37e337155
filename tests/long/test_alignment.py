"""The whole matrix on one real world; writes ``docs/reports/alignment.md``.

``POSITIONS=n`` changes how many positions are drawn per case (60), ``SEED=n`` what is drawn.
"""

import os
import random
from pathlib import Path

import pytest

from bench.surroundings import commit, machine
from tests.alignment.cases import CASES
from tests.alignment.matrix import measured
from tests.alignment.pair import running_pair
from tests.alignment.report import to_page

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "docs" / "reports" / "alignment.md"


@pytest.mark.timeout(1800)
def test_no_place_of_any_case_is_late_and_as_many_are_exact_as_can_be(tmp_path: Path) -> None:
    count = int(os.environ.get("POSITIONS", "60"))
    seed = int(os.environ.get("SEED", str(random.SystemRandom().randrange(10**6))))
    print(f"SEED={seed}")
    with running_pair(tmp_path) as pair:
        matrix = measured(pair, CASES, records=3000, kills=3, burst_seconds=4.0, positions=count, seed=seed)
    about = machine()
    facts = {
        "command": "python -m pytest -m long tests/long/test_alignment.py",
        "seed": seed,
        "commit": commit(ROOT),
        "seconds": matrix.seconds,
        "machine": f"{about['cores']} cores, {about['memory']}, {about['processor']}",
    }
    REPORT.write_text(to_page(matrix.rows, facts), encoding="utf-8")
    assert [problem for row in matrix.rows for problem in row.problems] == []
