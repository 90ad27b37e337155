"""A query that ends on its own continues from its own checkpoint on another cluster: each record once, under its id."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lab.world import CLUSTERS, World
from streaming.spark.query.kafka_options import SWITCHING, switching_options
from tests.jars import local_spark
from tests.streams import ALL, COMMITTED, PLANNED, SETTINGS, Cluster, Ledger, Move, read

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.shared]
LIMIT = 16
"""Records of a batch, from both partitions."""
FIRST = 20


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark(SETTINGS) as session:
        yield session


@pytest.fixture
def move(spark: SparkSession, pair: World, tmp_path: Path) -> Move:
    east, west = (Cluster(pair.bootstrap(name)[0]) for name in CLUSTERS)
    return Move.between(east, west, spark.newSession(), tmp_path)


def records(move: Move, cluster: str, placed: int) -> DataFrame:
    """The topic on a cluster, by the companion's source."""
    side = move.east if cluster == "east" else move.west
    ours = switching_options(cluster, placed, timedelta())
    return read(move.session, side, move.topic, source=SWITCHING, maxOffsetsPerTrigger=str(LIMIT), **ours)


def end(writer: DataStreamWriter, trigger: str, checkpoint: str) -> str:
    """Run a query until it has ended on its own; its id."""
    ends = writer.trigger(availableNow=True) if trigger == "availableNow" else writer.trigger(once=True)
    query = ends.option("checkpointLocation", checkpoint).start()
    assert query.awaitTermination(120), "it did not end"
    return str(query.id)


@pytest.mark.parametrize(("trigger", "version"), [("availableNow", 2), ("once", 1)])
def test_a_query_with_an_end_of_its_own_moves_with_each_record_once(move: Move, trigger: str, version: int) -> None:
    move.with_settings({"spark.sql.streaming.offsetLog.formatVersion": str(version)})
    sink = Ledger()
    for written in (FIRST, COMMITTED):  # a second run: of the first one Spark 4.2.0 cannot replay a batch by log v2
        move.east.extend(move.topic, written)
        at_home = end(sink.writer(records(move, "east", 0)), "availableNow", move.old)
    assert len(sink.batches) == -(-FIRST // LIMIT) - (-(COMMITTED - FIRST) // LIMIT), "the rate limit holds"
    assert sink.rows == Ledger.truth(COMMITTED)
    move.east.extend(move.topic, PLANNED)
    sink.failing = "after"
    with pytest.raises(StreamingQueryException, match="the driver is gone"):
        end(sink.writer(records(move, "east", 0)), trigger, move.old)
    sink.failing = None
    move.switch()
    flying = sink.batches[-1]
    sink.batches.clear()
    assert end(sink.writer(records(move, "west", 2)), trigger, move.old) == at_home
    assert sink.batches[0] == flying, "the batch in flight has its id"
    if trigger == "once":
        end(sink.writer(records(move, "west", 2)), trigger, move.old)
    assert sink.rows == Ledger.truth(ALL)
    newest = max(Path(move.old).joinpath("offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    first, *_, last = newest.read_text(encoding="utf-8").splitlines()
    assert (first, "@west" in last) == (f"v{version}", True)
