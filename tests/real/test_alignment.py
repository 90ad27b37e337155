"""One short case of each kind: a place found through a real MirrorMaker 2 is never late, and exact where it can be."""

import random
from collections.abc import Iterator, Mapping

import pytest

from tests.alignment.cases import CASES
from tests.alignment.matrix import measured
from tests.alignment.pair import running_pair
from tests.alignment.report import Row

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Row]]:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    wanted = {item.name for item in request.session.items if item.path == request.path}
    cases = [case for case in CASES if any(name.endswith(f"[{case.name}]") for name in wanted)]
    with running_pair(tmp_path_factory.mktemp("pair")) as pair:
        matrix = measured(pair, cases, records=600, kills=1, burst_seconds=1.5, positions=20, seed=seed)
        yield {row.case.name: row for row in matrix.rows}


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_a_place_is_never_late_and_costs_no_more_than_forecast(rows: Mapping[str, Row], name: str) -> None:
    assert rows[name].problems == []
