"""A query that writes to Delta is carried with a batch in flight: Delta knows by ``txnVersion`` what it has."""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from lab.world import CLUSTERS, World

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("delta")]

Told = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def told(pair: World, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What the table held at the end, per case."""
    bootstraps = [pair.bootstrap(name)[0] for name in CLUSTERS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.real.delta_story", *bootstraps, str(tmp_path_factory.mktemp("delta"))],
        capture_output=True, text=True, timeout=540, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told: Told = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize("case", ["replan-has", "replan-has-not", "bridge-has-not"])
def test_a_batch_in_flight_reaches_delta_exactly_once(told: Told, case: str) -> None:
    assert told[case]["missing"] == []
    assert told[case]["repeated"] == []
    assert told[case]["foreign"] == []


def test_a_replanned_batch_keeps_its_id_so_that_delta_can_tell_it_has_it(told: Told) -> None:
    assert told["replan-has"]["planned"] == told["replan-has"]["batch"] + 1


def test_a_bridge_repeats_exactly_the_batch_that_delta_already_had(told: Told) -> None:
    """The price that the forecast names, and why a batch that can be replanned is never bridged."""
    assert told["bridge-has"]["missing"] == []
    assert told["bridge-has"]["repeated"] == list(range(80, 120))


def test_deltas_own_sink_knows_the_batch_of_a_query_that_switches(told: Told) -> None:
    """The checkpoint is kept, and with it the query id."""
    assert told["replan-has-by-format-switch"]["missing"] == []
    assert told["replan-has-by-format-switch"]["repeated"] == []
    assert told["replan-has-by-format-switch"]["planned"] == told["replan-has-by-format-switch"]["batch"] + 1


def test_deltas_own_sink_takes_the_batch_twice_and_is_known_to(told: Told) -> None:
    """It goes by query id and batch id, and a carried checkpoint has a new query id: the forecast counts the batch."""
    assert told["replan-has-by-format"]["missing"] == []
    assert told["replan-has-by-format"]["repeated"] == list(range(80, 120))
    assert told["replan-has-by-format"]["by_query_id"]
    assert not told["replan-has"]["by_query_id"]
