"""A query that writes to Delta is carried with a batch in flight: Delta knows by ``txnVersion`` what it has."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lab import cluster
from lab.world import CLUSTERS, Options, World
from tests.ports import free_base_port

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("delta")]

Told = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """What the table held at the end, per case."""
    directory = tmp_path_factory.mktemp("delta")
    world = World(directory=directory / "world", options=Options(base_port=free_base_port()))
    world.directory.mkdir()
    parts = [part for name in CLUSTERS for part in world.parts(name)]
    try:
        cluster.start(world, parts, print)
        bootstraps = [world.bootstrap(name)[0] for name in CLUSTERS]
        done = subprocess.run(
            [sys.executable, "-m", "tests.real.delta_story", *bootstraps, str(directory)],
            capture_output=True, text=True, timeout=540, check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        yield json.loads(done.stdout.splitlines()[-1])
    finally:
        world.end(parts, 0.0)


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
