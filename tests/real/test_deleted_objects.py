"""Objects of a checkpoint are deleted on a store of the S3 protocol: the next start is refused, or continues right."""

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from lab.world import CLUSTERS, World
from streaming.companion.jar import line_of
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.files import join
from tests.jars import local_spark
from tests.object_store import ObjectStore, running_store
from tests.real.deleted import Losing, began, judged, moved
from tests.streams import ALL, COMMITTED, PLANNED, SETTINGS, Cluster

pytestmark = [pytest.mark.real, pytest.mark.shared, pytest.mark.jars("s3a")]
FIRST, MORE = 20, 10
REFUSED_KINDS = ("metadata", "commits", "both logs", "the newest offsets", "the newest commit", "everything")
OTHERS = ("everything of Tideover", "the sources")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with running_store(tmp_path_factory.mktemp("objects") / "kept") as store:
        yield store


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    line = line_of(pyspark.__version__)
    assert line is not None
    settings = {
        **SETTINGS,
        MANAGER: line.manager,
        **store.spark_conf(),
    }
    with local_spark(settings) as session:
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
