"""Real queries are carried between two real clusters: every record once, whatever became of batch N + 1."""

import os
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession, functions

from lab import cluster
from lab.world import CLUSTERS, Options, World
from state.protocol import PrepareRequest, ReleaseRequest, SinkState, Treatment
from streaming.spark.carry import prepare
from streaming.spark.checkpoint import read_checkpoint
from streaming.spark.hadoop import HadoopFiles
from streaming.spark.operators import UNNAMED
from streaming.spark.plant import plant, release
from tests.jars import connector_jars
from tests.ports import free_base_port
from tests.streams import ALL, COMMITTED, PLANNED, Cluster, Ledger, Move, Parquet, position, read, run, uncommit

pytestmark = [pytest.mark.real, pytest.mark.matrix]

NAMES_OPERATORS = int(pyspark.__version__.split(".")[0]) >= 4
"""Whether this Spark writes what its stateful operators are."""

_STORE = "spark.sql.streaming.stateStore"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STORES = {
    "hdfs": {},
    "archives": {f"{_STORE}.providerClass": _ROCKSDB, f"{_STORE}.rocksdb.compactOnCommit": "true"},
    "changelogs": {f"{_STORE}.providerClass": _ROCKSDB, f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true"},
    "format-2": {
        f"{_STORE}.providerClass": _ROCKSDB,
        f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_STORE}.checkpointFormatVersion": "2",
    },
}


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    world = World(directory=tmp_path_factory.mktemp("world"), options=Options(base_port=free_base_port()))
    parts = [part for name in CLUSTERS for part in world.parts(name)]
    try:
        cluster.start(world, parts, print)
        east, west = (Cluster(world.bootstrap(name)[0]) for name in CLUSTERS)
        yield east, west
    finally:
        world.end(parts, 0.0)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        f"{_STORE}.maintenanceInterval": "500ms",
        f"{_STORE}.minDeltasForSnapshot": "2",
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def move(spark: SparkSession, clusters: tuple[Cluster, Cluster], tmp_path: Path) -> Move:
    east, west = clusters
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    east.make(topic, foreign=False)
    west.make(topic, foreign=True)
    west.extend(topic, ALL)
    session = spark.newSession()
    return Move(session, HadoopFiles(session), east, west, tmp_path, topic, "move")


def committed_twice(move: Move, sink: Ledger | Parquet, **options: str) -> None:
    """Two committed batches from east."""
    for end in (COMMITTED - 20, COMMITTED):
        move.east.extend(move.topic, end)
        assert run(sink.writer(read(move.session, move.east, move.topic, **options)), move.old) is None


@pytest.mark.parametrize(
    ("treatment", "sink_has", "version"),
    [
        (Treatment.NONE, None, 1),
        (Treatment.REPLAN, True, 2),
        (Treatment.REPLAN, False, 1),
        (Treatment.PROMOTE, True, 1),
        (Treatment.BRIDGE, False, 2),
        (Treatment.BRIDGE, True, 1),
    ],
)
def test_a_file_sink_gets_every_record(move: Move, treatment: Treatment, sink_has: bool | None, version: int) -> None:
    move.with_settings({"spark.sql.streaming.offsetLog.formatVersion": str(version)})
    sink = Parquet(move.folder / "out")
    committed_twice(move, sink)
    if sink_has is not None:
        move.east.extend(move.topic, PLANNED)
        assert run(sink.writer(read(move.session, move.east, move.topic)), move.old) is None
        batch = uncommit(Path(move.old))
        if not sink_has:
            sink.forget(batch)
    report = move.inspect(sink.folder)
    assert report.log_version == version
    assert report.offsets == {"orders": position(COMMITTED, topic=move.topic)}
    if sink_has is None:
        assert report.planned is None
    else:
        assert report.planned is not None
        assert report.planned.offsets == {"orders": position(PLANNED, topic=move.topic)}
        assert report.planned.sink is (SinkState.HAS if sink_has else SinkState.HAS_NOT)
    data_batch = move.carry(treatment, report)
    assert run(sink.writer(read(move.session, move.west, move.topic)), move.new) is None
    delivered = sink.ids(move.session)
    repeated = {number for number, count in delivered.items() if count > 1}
    assert set(delivered) == set(range(ALL))
    assert repeated == (set(range(COMMITTED, PLANNED)) if treatment is Treatment.BRIDGE and sink_has else set())
    assert data_batch in move.commits()


@pytest.mark.parametrize(
    ("treatment", "fails", "store", "version"),
    [
        (Treatment.NONE, None, "hdfs", 2),
        (Treatment.NONE, None, "archives", 1),
        (Treatment.REPLAN, "after", "changelogs", 1),
        (Treatment.REPLAN, "before", "format-2", 2),
        (Treatment.PROMOTE, "after", "hdfs", 1),
        (Treatment.PROMOTE, "after", "format-2", 1),
        (Treatment.PROMOTE, "after", "archives", 2),
        (Treatment.BRIDGE, "after", "archives", 1),
        (Treatment.BRIDGE, "after", "format-2", 1),
        (Treatment.BRIDGE, "before", "hdfs", 2),
        (Treatment.BRIDGE, "before", "changelogs", 1),
    ],
)
def test_sums_without_deduplication_stay_exact(
    move: Move, treatment: Treatment, fails: str | None, store: str, version: int
) -> None:
    move.with_settings(STORES[store] | {"spark.sql.streaming.offsetLog.formatVersion": str(version)})
    sink = Ledger()
    committed_twice(move, sink)
    if fails is not None:
        move.east.extend(move.topic, PLANNED)
        sink.failing = fails
        assert run(sink.writer(read(move.session, move.east, move.topic)), move.old)
        sink.failing = None
    report = move.inspect()
    assert (report.state_provider, report.log_version) == ("hdfs" if store == "hdfs" else "rocksdb", version)
    name = "stateStoreSave" if NAMES_OPERATORS else UNNAMED
    assert [(one.name, one.partitions) for one in report.operators] == [(name, 2)]
    assert (report.planned is None) == (fails is None)
    data_batch = move.carry(treatment, report)
    sink.batches.clear()
    assert run(sink.writer(read(move.session, move.west, move.topic)), move.new) is None
    assert sink.rows == Ledger.truth(ALL)
    assert data_batch in move.commits()
    assert (report.batch or 0) + 1 in sink.batches or treatment is Treatment.PROMOTE


@pytest.mark.parametrize(("store", "full"), [("hdfs", "snapshot"), ("changelogs", "zip"), ("format-2", "zip")])
def test_a_long_line_of_batches_is_carried_from_its_newest_snapshot(move: Move, store: str, full: str) -> None:
    move.with_settings(STORES[store])
    sink = Ledger()
    state = Path(move.old) / "state"
    deadline = time.monotonic() + 60
    for end in range(6, COMMITTED - 1, 4):
        move.east.extend(move.topic, end)
        assert run(sink.writer(read(move.session, move.east, move.topic)), move.old) is None
    while not all(any(state.glob(f"0/{partition}/*.{full}")) for partition in (0, 1)):
        assert time.monotonic() < deadline, "no snapshot was written"
        time.sleep(0.1)
    move.east.extend(move.topic, COMMITTED)
    assert run(sink.writer(read(move.session, move.east, move.topic)), move.old) is None
    move.carry(Treatment.BRIDGE, move.inspect())
    old, new = move.files.walk(str(state)), move.files.walk(str(Path(move.new) / "state"))
    assert any(path.endswith(full) for path in new)
    assert len(new) < len(old)
    assert run(sink.writer(read(move.session, move.west, move.topic)), move.new) is None
    assert sink.rows == Ledger.truth(ALL)


@pytest.mark.parametrize("version", [1, 2])
def test_a_join_of_two_topics_is_carried_although_one_is_renamed(move: Move, version: int) -> None:
    move.with_settings(STORES["changelogs"] | {"spark.sql.streaming.offsetLog.formatVersion": str(version)})
    other, renamed = f"{move.topic}-b", f"east.{move.topic}-b"
    move.east.make(other, foreign=False)
    move.west.make(renamed, foreign=True)
    move.west.extend(renamed, ALL)
    pairs: list[int] = []

    def writer(left: Cluster, right: Cluster, right_topic: str) -> object:
        first = read(move.session, left, move.topic).withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id"])
        second = read(move.session, right, right_topic).withWatermark("at", "1 hour").dropDuplicates(["id", "at"])
        joined = second.join(first, ["id", "at"]).select("id")
        return joined.writeStream.outputMode("append").foreachBatch(
            lambda rows, _: pairs.extend(row["id"] for row in rows.collect())
        )

    for end, ahead in ((20, 30), (COMMITTED, COMMITTED)):
        move.east.extend(move.topic, end)
        move.east.extend(other, ahead)
        assert run(writer(move.east, move.east, other), move.old) is None
    sources = {"orders": [move.topic], "refunds": [other]}
    report = read_checkpoint(move.files, move.old, sources)
    both = {"orders": position(COMMITTED, topic=move.topic), "refunds": position(COMMITTED, topic=other)}
    assert report.offsets == both
    assert report.deduplicates_ahead is NAMES_OPERATORS
    plant(move.files, move.old, operation="move", epoch=2, knows=lambda _: True)
    request = PrepareRequest(
        checkpoint=move.old,
        target=move.new,
        operation="move",
        epoch=2,
        resume="carry",
        batch=report.batch,
        offsets=report.offsets,
        target_offsets={
            "orders": position(COMMITTED, topic=move.topic, shifted=True),
            "refunds": position(COMMITTED, topic=renamed, shifted=True),
        },
    )
    prepare(move.files, request, sources)
    assert run(writer(move.west, move.west, renamed), move.new) is None
    assert sorted(pairs) == list(range(ALL))


def test_one_of_two_sources_moves_and_the_other_goes_on_where_it_was(move: Move) -> None:
    other = f"{move.topic}-b"
    move.east.make(other, foreign=False)
    sink = Parquet(move.folder / "out")

    def both(first: Cluster) -> object:
        second = read(move.session, move.east, other).withColumn("id", functions.expr("id + 1000"))
        return sink.writer(read(move.session, first, move.topic).union(second))

    for end in (30, COMMITTED):
        move.east.extend(move.topic, end)
        move.east.extend(other, end)
        assert run(both(move.east), move.old) is None
    sources = {"orders": [move.topic], "refunds": [other]}
    report = read_checkpoint(move.files, move.old, sources)
    request = PrepareRequest(
        checkpoint=move.old,
        target=move.new,
        operation="move",
        epoch=2,
        resume="carry",
        batch=report.batch,
        offsets=report.offsets,
        target_offsets={"orders": position(COMMITTED, topic=move.topic, shifted=True)},
        treatment=Treatment.BRIDGE,
    )
    prepare(move.files, request, sources)
    move.east.extend(other, ALL)
    assert run(both(move.west), move.new) is None
    expected = {*range(ALL), *range(1000, 1000 + ALL)}
    assert sink.ids(move.session) == dict.fromkeys(expected, 1)


def test_a_fenced_checkpoint_stops_its_query_refuses_to_start_and_goes_on_after_release(move: Move) -> None:
    sink = Parquet(move.folder / "out")
    move.east.extend(move.topic, 30)
    writer = sink.writer(read(move.session, move.east, move.topic)).trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", move.old).start()
    query.processAllAvailable()
    planted = plant(move.files, move.old, operation="move", epoch=7, knows=lambda _: True)
    batch = move.inspect().batch
    move.east.extend(move.topic, COMMITTED)
    with pytest.raises(Exception, match=r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries"):
        query.awaitTermination(60)
    assert set(sink.ids(move.session)) == set(range(30))
    error = run(sink.writer(read(move.session, move.east, move.topic)), move.old)
    assert error is not None
    assert "malformed" in error.lower(), "the words differ between Spark 3.5 and 4"
    assert "fenced by tideover: epoch 7, operation move" in error
    report = move.inspect()
    assert (report.batch, report.planned) == (batch, None)
    undo = ReleaseRequest(checkpoint=move.old, planted=planted, prepared=None, operation="move")
    assert release(move.files, undo) == planted
    assert run(sink.writer(read(move.session, move.east, move.topic)), move.old) is None
    assert sink.ids(move.session) == dict.fromkeys(range(COMMITTED), 1)
    assert move.inspect().batch == (batch or 0) + 1


def test_a_state_file_purged_while_it_is_copied_starts_the_copy_anew(move: Move) -> None:
    sink = Ledger()
    committed_twice(move, sink)
    state = Path(move.old) / "state" / "0" / "0"

    class Purging(HadoopFiles):
        """The files of one store are gone for the length of the first copy."""

        attempts = 0

        def copy(self, pairs: Iterable[tuple[str, str]]) -> None:
            self.attempts += 1
            if self.attempts > 1:
                return super().copy(pairs)
            away = state.rename(move.folder / "away")
            try:
                return super().copy(pairs)
            finally:
                away.rename(state)

    move.files = Purging(move.session)
    report = move.inspect()
    move.carry(Treatment.NONE, report)
    assert move.files.attempts == 2
    assert run(sink.writer(read(move.session, move.west, move.topic)), move.new) is None
    assert sink.rows == Ledger.truth(ALL)
