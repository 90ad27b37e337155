"""Checkpoints on a store of the S3 protocol: whole counts of races, a stale driver, and a query carried there and back.

A real server decides (``tests/object_store.py``); what Spark's own managers do on it is printed beside ours.
"""

import contextlib
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lab.world import CLUSTERS
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.batch_news import RunName, follow
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.checkpoint.log_fence import plant, plant_epoch
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.checkpoint.read import newest_commit
from streaming.spark.jvm import java_context, java_view
from tests.object_store import ObjectStore, keys, module_store, spark_on  # noqa: F401 - module_store is a fixture
from tests.races import Race, entries_against_plants, load_race
from tests.real.pipelines import kept, kept_sums, sums_of
from tests.real.stale_driver import Driver
from tests.real.theatre import sides_of
from tests.scene import Stage, one_query
from tests.streams import position
from tests.waiting import until
from tests.world import running_clusters

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROUNDS, WRITERS = 150, 8
ORDERS, BATCH = "orders", 200


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    with spark_on(store, **{"spark.sql.shuffle.partitions": "1"}) as session:
        yield session


@pytest.fixture(scope="module")
def race(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    return load_race(spark, tmp_path_factory.mktemp("race"))


@pytest.fixture
def folder(store: ObjectStore, tmp_path: Path) -> str:
    return join(store.url, tmp_path.name)


def test_of_eight_writers_exactly_one_gets_the_name(race: Race, store: ObjectStore, folder: str) -> None:
    for manager in (race.ours, *race.sparks):
        began = time.monotonic()
        outcome = race(manager, folder, ROUNDS, WRITERS, store.conf())
        seconds = time.monotonic() - began
        print(f"{manager}: two winners in {outcome[0]} of {ROUNDS} rounds, {seconds / ROUNDS * 1000:.0f} ms a round")
        assert (outcome == (0, 0, 0)) is (manager == race.ours), f"{manager}: {outcome}"


def test_of_an_entry_and_a_plant_exactly_one_gets_the_name(race: Race, spark: SparkSession, folder: str) -> None:
    counted = entries_against_plants(race, HadoopFiles(spark), folder, ROUNDS)
    print(f"{counted.entries} entries and {counted.plants} plants won, {counted.wrong} rounds went wrong")
    assert counted.wrong == 0
    assert counted.entries + counted.plants == ROUNDS


def test_a_driver_that_thaws_and_one_started_again_write_nothing(
    spark: SparkSession, store: ObjectStore, tmp_path: Path, folder: str
) -> None:
    files, checkpoint = HadoopFiles(spark), join(folder, "checkpoint")
    frozen = Driver(tmp_path, checkpoint, 3, "frozen", store.spark_conf())
    try:
        until(lambda: len(frozen.given()) >= 3)
        frozen.hold.touch()
        until(frozen.held.exists)
        flying = frozen.given()[-1]
        frozen.signal(signal.SIGSTOP)
        planted = plant(files, checkpoint, operation="op", epoch=4, knows=lambda _: True)
        assert planted == (flying + 1, flying + 2)
        plant_epoch(files, checkpoint, Fence(4, "op"))
        fenced = files.walk(checkpoint)
        frozen.hold.unlink()
        frozen.signal(signal.SIGCONT)
        assert f"revenue with epoch 3 is over: operation op took {checkpoint} with epoch 4, so " in frozen.end()
        assert files.walk(checkpoint) == fenced
        again = Driver(tmp_path, checkpoint, 3, "again", store.spark_conf())
        assert "revenue with epoch 3 is over" in again.end()
        assert files.walk(checkpoint) == fenced
        assert not (tmp_path / "again").exists(), "its sink was given the batch in flight"
    finally:
        with contextlib.suppress(ProcessLookupError):
            frozen.signal(signal.SIGKILL)
        frozen.process.wait()


def test_a_batch_costs_few_requests(spark: SparkSession, folder: str) -> None:
    """A query with state and one shuffle partition; the counts are those of ``docs/companion.md``."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1).load()
    counts = rows.selectExpr("value % 3 AS key").groupBy("key").count()
    checkpoint, files = join(folder, "checkpoint"), HadoopFiles(spark)
    assert follow(spark, RunName("revenue", 1, checkpoint)) is not None
    writer = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="200 milliseconds").start()
    until(lambda: (newest_commit(files, checkpoint) or 0) >= 3)
    first, before = newest_commit(files, checkpoint) or 0, requests(spark, folder)
    until(lambda: last_batch(query) >= first + 30)
    after, batches = requests(spark, folder), last_batch(query) - first
    query.stop()
    reported = {name: round((after[name] - before.get(name, 0)) / batches, 1) for name in after}
    print({name: count for name, count in reported.items() if count})
    assert reported["object_put_request"] < 8


def last_batch(query: StreamingQuery) -> int:
    """The last one in its progress."""
    progress = query.lastProgress
    return -1 if progress is None else progress.batchId


def requests(spark: SparkSession, folder: str) -> dict[str, int]:
    """How many requests of each kind the driver's client has made."""
    jvm, conf = java_view(spark), java_context(spark).hadoopConfiguration()
    client = jvm.org.apache.hadoop.fs.Path(folder).getFileSystem(conf)
    text = str(jvm.org.apache.hadoop.fs.statistics.IOStatisticsLogging.ioStatisticsToString(client.getIOStatistics()))
    counted = {name: int(count) for name, count in re.findall(r"\((\w+_request)=(\d+)\)", text)}
    return {name: count for name, count in counted.items() if name.startswith("object")}


def test_a_query_whose_checkpoint_is_there_goes_to_the_standby_and_back(store: ObjectStore, tmp_path: Path) -> None:
    """The primary is killed; the state comes along, every order is counted once, and so it is on the way home."""
    east, west = CLUSTERS
    url, folder = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "scene"
    with running_clusters(tmp_path / "world") as world, closing(open_store(url)) as kept_store:
        settings = one_query(world, url, folder, "sums", "sums_by_batch")
        settings["queries"]["sums"]["checkpoint"] = join(store.url, "failover", "sums")
        settings["spark"]["conf"] |= keys(store, tmp_path)
        settings["routes"].append({"from": west, "to": east})
        with closing(Stage(folder, kept_store, settings, sides_of(world), world=world)) as scene:
            scene.make(ORDERS)
            scene.extend(ORDERS, BATCH)
            scene.run()
            scene.until("the orders are counted on east", partial(is_read, scene, east, BATCH))
            scene.kill(east)
            assert scene.failover("sums", west, "--consent", "loss").end().code == 0
            scene.heal()
            scene.extend(ORDERS, 2 * BATCH)
            scene.until("the orders are counted on west", partial(is_read, scene, west, 2 * BATCH))
            assert scene.failover("sums", east).end().code == 0
            scene.extend(ORDERS, 3 * BATCH)
            scene.until("the orders are counted at home", partial(is_read, scene, east, 3 * BATCH))
            assert kept_sums(folder / "sums") == sums_of(3 * BATCH)
            batches = [each["batch"] for each in kept(folder / "sums")]
            assert batches == list(range(len(batches)))
            made = [path.name for path in (store.folder / "failover").glob("**/epoch-*")]
            assert len(made) == 2, made
            for each in scene.store.operations(query="sums"):
                print(each.kind, each.measured)


def is_read(scene: Stage, cluster: str, end: int) -> bool:
    """Whether the query has counted so many orders, and their places are known."""
    ends = position(end, topic=ORDERS, shifted=cluster != CLUSTERS[0])[ORDERS]
    last = {str(row.partition): row.ring[-1].offset + 1 for row in scene.store.positions("sums") if row.ring}
    return last == ends and sum(count for count, _ in kept_sums(scene.folder / "sums").values()) == end
