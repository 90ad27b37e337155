"""Real queries are carried between two real clusters: every record once, whatever became of batch N + 1."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import pyspark
import pytest
from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lab.world import CLUSTERS, World
from state.messages import PrepareRequest, ReleaseRequest, SinkState, UncommittedBatch
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.checkpoint.log_fence import plant, release
from streaming.spark.checkpoint.operators import UNNAMED
from streaming.spark.checkpoint.read import read_checkpoint
from streaming.spark.checkpoint.retained import read_retained
from tests.jars import local_spark
from tests.streams import (
    ALL,
    COMMITTED,
    PLANNED,
    SETTINGS,
    Cluster,
    Files,
    Ledger,
    Move,
    Parquet,
    position,
    read,
    run,
    uncommit,
)
from tests.waiting import PROCESS_SECONDS, until

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.shared]

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


@pytest.fixture
def clusters(pair: World) -> tuple[Cluster, Cluster]:
    east, west = (Cluster(pair.bootstrap(name)[0]) for name in CLUSTERS)
    return east, west


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = {
        **SETTINGS,
        f"{_STORE}.maintenanceInterval": "500ms",
        f"{_STORE}.minDeltasForSnapshot": "2",
    }
    with local_spark(settings) as session:
        yield session


@pytest.fixture
def move(spark: SparkSession, clusters: tuple[Cluster, Cluster], tmp_path: Path) -> Move:
    return Move.between(*clusters, spark.newSession(), tmp_path)


def committed_twice(move: Move, sink: Ledger | Parquet, **options: str) -> None:
    """Two committed batches from east."""
    for end in (COMMITTED - 20, COMMITTED):
        move.east.extend(move.topic, end)
        assert run(sink.writer(read(move.session, move.east, move.topic, **options)), move.old) is None


@pytest.mark.parametrize(
    ("treatment", "sink_has", "version"),
    [
        (UncommittedBatch.NONE, None, 1),
        (UncommittedBatch.REPLAN, True, 2),
        (UncommittedBatch.REPLAN, False, 1),
        (UncommittedBatch.PROMOTE, True, 1),
        (UncommittedBatch.BRIDGE, False, 2),
        (UncommittedBatch.BRIDGE, True, 1),
    ],
)
def test_a_file_sink_gets_every_record(
    move: Move, treatment: UncommittedBatch, sink_has: bool | None, version: int
) -> None:
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
    assert repeated == (set(range(COMMITTED, PLANNED)) if treatment is UncommittedBatch.BRIDGE and sink_has else set())
    assert data_batch in move.commits()


@pytest.mark.parametrize(
    ("treatment", "fails", "store", "version"),
    [
        pytest.param(UncommittedBatch.NONE, None, "hdfs", 2, marks=pytest.mark.long),
        (UncommittedBatch.NONE, None, "archives", 1),
        (UncommittedBatch.REPLAN, "after", "changelogs", 1),
        (UncommittedBatch.REPLAN, "before", "format-2", 2),
        (UncommittedBatch.PROMOTE, "after", "hdfs", 1),
        pytest.param(UncommittedBatch.PROMOTE, "after", "format-2", 1, marks=pytest.mark.long),
        pytest.param(UncommittedBatch.PROMOTE, "after", "archives", 2, marks=pytest.mark.long),
        (UncommittedBatch.BRIDGE, "after", "archives", 1),
        pytest.param(UncommittedBatch.BRIDGE, "after", "format-2", 1, marks=pytest.mark.long),
        (UncommittedBatch.BRIDGE, "before", "hdfs", 2),
        pytest.param(UncommittedBatch.BRIDGE, "before", "changelogs", 1, marks=pytest.mark.long),
    ],
)
def test_sums_without_deduplication_stay_exact(
    move: Move, treatment: UncommittedBatch, fails: Literal["before", "after"] | None, store: str, version: int
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
    assert (report.batch or 0) + 1 in sink.batches or treatment is UncommittedBatch.PROMOTE


@pytest.mark.parametrize(("store", "full"), [("hdfs", "snapshot"), ("changelogs", "zip"), ("format-2", "zip")])
def test_a_long_line_of_batches_is_carried_from_its_newest_snapshot(move: Move, store: str, full: str) -> None:
    move.with_settings(STORES[store])
    sink = Ledger()
    state = Path(move.old) / "state"

    def is_written() -> bool:
        return all(any(state.glob(f"0/{partition}/*.{full}")) for partition in (0, 1))

    move.east.extend(move.topic, 5)
    query = sink.writer(read(move.session, move.east, move.topic)).option("checkpointLocation", move.old).start()
    try:
        for end in range(10, COMMITTED, 5):
            move.east.extend(move.topic, end)
            query.processAllAvailable()
        until(is_written, "Spark writes a snapshot in the background, while a run holds its state loaded")
    finally:
        query.stop()
    move.east.extend(move.topic, COMMITTED)
    assert run(sink.writer(read(move.session, move.east, move.topic)), move.old) is None
    move.carry(UncommittedBatch.BRIDGE, move.inspect())
    old, new = move.files.walk(str(state)), move.files.walk(str(Path(move.new) / "state"))
    assert any(path.endswith(full) for path in new)
    assert len(new) < len(old)
    assert run(sink.writer(read(move.session, move.west, move.topic)), move.new) is None
    assert sink.rows == Ledger.truth(ALL)


@pytest.mark.parametrize("store", ["hdfs", "format-2"])
def test_a_query_that_goes_back_ends_as_if_it_never_went_further(move: Move, store: str) -> None:
    move.with_settings(STORES[store])
    sink, declared = Ledger(), {"orders": [move.topic]}
    for end in range(10, COMMITTED + 1, 10):
        move.east.extend(move.topic, end)
        assert run(sink.writer(read(move.session, move.east, move.topic)), move.old) is None
    report = move.inspect()
    assert report.batch is not None
    back = report.batch - 2
    entry = (Path(move.old) / "offsets" / str(back)).read_text()
    then = int(json.loads(entry.splitlines()[1])["batchTimestampMs"])
    retained = read_retained(move.files, move.old, declared, then)
    assert retained.batch is not None
    assert (retained.batch.batch, retained.batch.offsets) == (back, {"orders": position(30, topic=move.topic)})
    plant(move.files, move.old, operation="move", epoch=2, knows=lambda _: True)
    request = PrepareRequest(
        checkpoint=move.old, target=move.new, operation="move", epoch=2, resume="carry", batch=report.batch,
        offsets=report.offsets, target_offsets=retained.batch.offsets, back_to=back,
    )  # fmt: skip
    assert prepare(move.files, request, declared).data_batch == back + 1
    sink.rows = Ledger.truth(30)
    move.east.extend(move.topic, ALL)
    assert run(sink.writer(read(move.session, move.east, move.topic)), move.new) is None
    assert sink.rows == Ledger.truth(ALL)
    assert move.commits()[:2] == [back, back + 1]


@pytest.mark.skipif(pyspark.__version__.startswith("3.4."), reason="dropDuplicatesWithinWatermark came with Spark 3.5")
@pytest.mark.parametrize("version", [1, 2])
def test_a_join_of_two_topics_is_carried_although_one_is_renamed(move: Move, version: int) -> None:
    move.with_settings(STORES["changelogs"] | {"spark.sql.streaming.offsetLog.formatVersion": str(version)})
    other, renamed = f"{move.topic}-b", f"east.{move.topic}-b"
    move.east.make(other, foreign=False)
    move.west.make(renamed, foreign=True)
    move.west.extend(renamed, ALL)
    pairs: list[int] = []

    def writer(left: Cluster, right: Cluster, right_topic: str) -> DataStreamWriter:
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


def test_a_topic_that_a_query_reads_twice_is_carried_at_both_of_its_places(move: Move) -> None:
    """A union of one frame with itself: one declared source, two lines in the offset log."""
    sink = Parquet(move.folder / "out")

    def twice(cluster: Cluster) -> DataStreamWriter:
        records = read(move.session, cluster, move.topic)
        return sink.writer(records.union(records.withColumn("id", functions.expr("id + 1000"))))

    for end in (30, COMMITTED):
        move.east.extend(move.topic, end)
        assert run(twice(move.east), move.old) is None
    sources = {"orders": [move.topic]}
    report = read_checkpoint(move.files, move.old, sources)
    here, there = (position(COMMITTED, topic=move.topic, shifted=shifted) for shifted in (False, True))
    assert report.offsets == {"orders": here, "orders#2": here}
    request = PrepareRequest(
        checkpoint=move.old,
        target=move.new,
        operation="move",
        epoch=2,
        resume="carry",
        batch=report.batch,
        offsets=report.offsets,
        target_offsets={"orders": there, "orders#2": there},
    )
    prepare(move.files, request, sources)
    move.west.extend(move.topic, ALL)
    assert run(twice(move.west), move.new) is None
    expected = {*range(ALL), *range(1000, 1000 + ALL)}
    assert sink.ids(move.session) == dict.fromkeys(expected, 1)


def test_one_of_two_sources_moves_and_the_other_continues_where_it_was(move: Move) -> None:
    other = f"{move.topic}-b"
    move.east.make(other, foreign=False)
    sink = Parquet(move.folder / "out")

    def both(first: Cluster) -> DataStreamWriter:
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
        treatment=UncommittedBatch.BRIDGE,
    )
    prepare(move.files, request, sources)
    move.east.extend(other, ALL)
    assert run(both(move.west), move.new) is None
    expected = {*range(ALL), *range(1000, 1000 + ALL)}
    assert sink.ids(move.session) == dict.fromkeys(expected, 1)


@pytest.mark.parametrize(
    ("treatment", "sink_has", "version", "first"),
    [
        pytest.param(UncommittedBatch.NONE, None, 1, "kafka", marks=pytest.mark.long),
        (UncommittedBatch.NONE, None, 2, "files"),
        (UncommittedBatch.REPLAN, False, 1, "files"),
        pytest.param(UncommittedBatch.REPLAN, True, 2, "kafka", marks=pytest.mark.long),
        (UncommittedBatch.PROMOTE, True, 1, "kafka"),
        pytest.param(UncommittedBatch.BRIDGE, True, 1, "files", marks=pytest.mark.long),
    ],
)
def test_a_file_source_beside_kafka_continues_where_it_was(
    move: Move, treatment: UncommittedBatch, sink_has: bool | None, version: int, first: str
) -> None:
    move.with_settings({"spark.sql.streaming.offsetLog.formatVersion": str(version)})
    sink, files = Parquet(move.folder / "out"), Files(move.folder / "in")

    def writer(cluster: Cluster) -> DataStreamWriter:
        frames = [read(move.session, cluster, move.topic).select("id"), files.read(move.session)]
        one, other = frames if first == "kafka" else reversed(frames)
        return sink.writer(one.union(other))

    for end, ids in ((COMMITTED - 20, ()), (COMMITTED - 10, (1000, 1001)), (COMMITTED, (1010, 1011))):
        move.east.extend(move.topic, end)
        if ids:
            files.add(*ids)
        assert run(writer(move.east), move.old) is None
    if sink_has is not None:
        move.east.extend(move.topic, PLANNED)
        files.add(1020, 1021)
        assert run(writer(move.east), move.old) is None
        batch = uncommit(Path(move.old))
        if not sink_has:
            sink.forget(batch)
    files.add(1030)
    report = move.inspect(sink.folder)
    assert report.other_sources == 1
    assert sink_has is None or (report.planned is not None and report.planned.others_read)
    move.carry(treatment, report)
    assert run(writer(move.west), move.new) is None
    files.add(1040)
    assert run(writer(move.west), move.new) is None
    delivered = sink.ids(move.session)
    repeated = {number for number, count in delivered.items() if count > 1}
    assert set(delivered) == {*range(ALL), 1000, 1001, 1010, 1011, 1020, 1021, 1030, 1040} - (
        set() if sink_has is not None else {1020, 1021}
    )
    assert repeated == ({*range(COMMITTED, PLANNED), 1020, 1021} if treatment is UncommittedBatch.BRIDGE else set())


def test_a_rate_source_beside_kafka_continues_its_count(move: Move) -> None:
    sink = Parquet(move.folder / "out")

    def deliver(cluster: Cluster, checkpoint: str, least: int, ids_below: int) -> set[int]:
        """Run until so many of the rate source's values, which count from 1000 on, and all ids of the topic are there.

        What a run reads in one batch is chance: each source may be behind the other.
        """
        rate = move.session.readStream.format("rate").option("rowsPerSecond", "20").load()
        ids = read(move.session, cluster, move.topic).select("id").union(rate.selectExpr("value + 1000 as id"))
        query = sink.writer(ids).option("checkpointLocation", checkpoint).start()
        deadline = time.monotonic() + PROCESS_SECONDS
        try:
            while True:
                known = set(delivered())
                found = {number for number in known if number >= 1000}
                if len(found) >= least and known - found >= set(range(ids_below)):
                    return found
                assert time.monotonic() < deadline, f"{len(found)} of the rate source, {len(known - found)} ids"
                time.sleep(0.2)
        finally:
            query.stop()

    def delivered() -> Mapping[int, int]:
        return sink.ids(move.session) if (sink.folder / "_spark_metadata").exists() else {}

    move.east.extend(move.topic, COMMITTED)
    before = len(deliver(move.east, move.old, 20, COMMITTED))
    report = move.inspect(sink.folder)
    move.carry(UncommittedBatch.NONE if report.planned is None else UncommittedBatch.BRIDGE, report)
    after = deliver(move.west, move.new, before + 20, ALL)
    assert after == set(range(1000, 1000 + len(after)))
    assert {number for number, count in delivered().items() if count > 1} <= after
    assert {number for number in delivered() if number < 1000} == set(range(ALL))


def test_a_fenced_checkpoint_stops_its_query_until_it_is_released(move: Move) -> None:
    sink = Parquet(move.folder / "out")
    move.east.extend(move.topic, 30)
    writer = sink.writer(read(move.session, move.east, move.topic)).trigger(processingTime="100 milliseconds")
    query = writer.option("checkpointLocation", move.old).start()
    query.processAllAvailable()
    planted = plant(move.files, move.old, operation="move", epoch=7, knows=lambda _: True)
    batch = move.inspect().batch
    move.east.extend(move.topic, COMMITTED)
    with pytest.raises(Exception, match=r"CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming (queries|jobs)"):
        query.awaitTermination(int(PROCESS_SECONDS))
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


def test_a_state_file_purged_while_it_is_copied_restarts_the_copy(move: Move) -> None:
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
    move.carry(UncommittedBatch.NONE, report)
    assert move.files.attempts == 2
    assert run(sink.writer(read(move.session, move.west, move.topic)), move.new) is None
    assert sink.rows == Ledger.truth(ALL)
