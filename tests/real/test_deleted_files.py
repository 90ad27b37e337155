"""Each kind of file of a checkpoint is deleted, on a local disk: the next start is refused, or continues right."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.world import CLUSTERS, World
from tests.jars import local_spark
from tests.real.deleted import KINDS, Losing, began, judged, moved
from tests.streams import ALL, COMMITTED, PLANNED, SETTINGS, Cluster

pytestmark = [pytest.mark.real, pytest.mark.shared]
FIRST, MORE = 20, 10


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark(SETTINGS) as session:
        yield session


@pytest.fixture
def move(spark: SparkSession, pair: World, tmp_path: Path) -> Losing:
    east, west = (Cluster(pair.bootstrap(name)[0]) for name in CLUSTERS)
    found = Losing.between(east, west, spark.newSession(), tmp_path)
    found.base = str(tmp_path)
    return found


def test_a_start_without_a_file_before_a_move_is_refused_or_right(move: Losing) -> None:
    began(move, FIRST, COMMITTED)
    assert list(judged(move, "east", COMMITTED, KINDS, print)) == []
    move.east.extend(move.topic, COMMITTED + MORE)
    assert list(judged(move, "east", COMMITTED + MORE, KINDS, print)) == []


def test_a_start_without_a_file_after_a_move_is_refused_or_right(move: Losing) -> None:
    began(move, FIRST, COMMITTED)
    moved(move, PLANNED)
    assert list(judged(move, "west", ALL, KINDS, print)) == []
    move.west.extend(move.topic, ALL + MORE)
    assert list(judged(move, "west", ALL + MORE, KINDS, print)) == []
