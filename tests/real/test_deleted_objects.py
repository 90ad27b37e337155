"""Objects of a checkpoint are deleted on a store of the S3 protocol: the next start is refused, or continues right."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.world import CLUSTERS, World
from streaming.spark.checkpoint.files import join
from tests.object_store import ObjectStore, module_store, spark_on  # noqa: F401 - module_store is a fixture
from tests.real.deleted import Losing, began, judged, moved
from tests.streams import ALL, COMMITTED, PLANNED, SETTINGS, Cluster

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.jars("s3a")]
FIRST, MORE = 20, 10
REFUSED_KINDS = ("metadata", "commits", "both logs", "the newest offsets", "the newest commit", "everything")
OTHERS = ("everything of Tideover", "the sources")


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    with spark_on(store, **SETTINGS) as session:
        yield session


def test_a_start_without_an_object_is_refused_or_right(
    spark: SparkSession, pair: World, store: ObjectStore, tmp_path: Path
) -> None:
    east, west = (Cluster(pair.bootstrap(name)[0]) for name in CLUSTERS)
    move = Losing.between(east, west, spark.newSession(), tmp_path)
    move.base = join(store.url, tmp_path.name)
    began(move, FIRST, COMMITTED)
    assert list(judged(move, "east", COMMITTED, (*REFUSED_KINDS, "nothing"), print)) == []
    moved(move, PLANNED)
    assert list(judged(move, "west", ALL, (*REFUSED_KINDS, "everything of Tideover"), print)) == []
    move.west.extend(move.topic, ALL + MORE)
    assert list(judged(move, "west", ALL + MORE, ("the newest batch", *OTHERS), print)) == []
