"""A first start on a busy host: the cluster answers later than one time-out, and the query waits for it."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab import faults
from lab.world import World
from state.settings.keys import Spark, Tideover
from streaming.spark.query.kafka_options import read_source, source_options
from streaming.spark.query.session import session_conf
from tests.jars import connector_jars
from tests.streams import Cluster
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.shared]

RECORDS = 40


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    conf = session_conf(Spark(), jars=[], partitions=2, cores=2, extra={"spark.jars": connector_jars()})
    known = SparkSession.builder.config(map={**conf, "spark.jars": connector_jars()}).getOrCreate()
    known.sparkContext.setLogLevel("OFF")
    yield known
    known.stop()


def options(bootstrap: str, topic: str) -> dict[str, str]:
    """What the runner gives a source, with nothing of the user's."""
    settings = Tideover.model_validate(
        {
            "store": "sqlite:///:memory:",
            "clusters": {"east": {"bootstrap": [bootstrap]}, "west": {"bootstrap": ["127.0.0.1:1"]}},
            "runners": {"a": {}},
            "queries": {
                "q": {
                    "pipeline": "a:b", "sources": {"orders": {"topics": [topic]}}, "clusters": ["east", "west"],
                    "runners": ["a"], "checkpoint": "c",
                }
            },
        }
    )  # fmt: skip
    return source_options(settings, settings.queries["q"], "orders", "east", None)


@pytest.mark.parametrize(("planned", "seconds"), [(False, 2.5), (True, 2.0)])
def test_a_first_start_outlasts_a_cluster_that_answers_late(
    pair: World, session: SparkSession, tmp_path: Path, planned: bool, seconds: float
) -> None:
    """``planned``: the cluster is slow once the first batch is planned, so that tasks wait and not the driver."""
    east, topic = Cluster(pair.bootstrap("east")[0]), f"orders-{uuid.uuid4().hex[:8]}"
    east.make(topic, foreign=False)
    east.extend(topic, RECORDS)
    frozen = threading.Event()

    def slow(_frame: object, _batch: int) -> None:
        if planned and not frozen.is_set():
            freeze()
        counted.append(_frame.count())  # type: ignore[attr-defined] # a DataFrame

    def freeze() -> None:
        faults.freeze(pair, "east", print)
        frozen.set()
        threading.Timer(seconds, lambda: faults.thaw(pair, "east", print)).start()

    counted: list[int] = []
    frame = read_source(session, options(east.bootstrap, topic))
    writer = frame.writeStream.foreachBatch(slow).option("checkpointLocation", (tmp_path / "c").as_uri())
    if not planned:
        freeze()
    query = writer.start()
    try:
        until(lambda: counted or not query.isActive)
        assert query.exception() is None
        assert counted == [RECORDS]
    finally:
        query.stop()
