"""The companion inside real queries: a stale run writes nothing, and of several writers one gets the name."""

import contextlib
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from state.messages import ReleaseRequest
from streaming.spark.authority import restore_epoch
from streaming.spark.checkpoint.batch_news import MANAGER, BatchNews, PublishedEntry, RunName, follow
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.checkpoint.log_fence import plant, plant_epoch, release, unplant
from streaming.spark.checkpoint.log_text import Fence
from streaming.spark.jvm import java_query, root_cause
from tests.contract import samples
from tests.jars import local_spark, spark_line
from tests.races import Race, load_race
from tests.real.stale_driver import Driver
from tests.spark_cluster import standalone
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.matrix]

LINE = spark_line()
ROUNDS, WRITERS = 150, 8
MOST_ROUNDS = 6000
"""Until Spark's manager must have shown that the race can be lost."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with local_spark({"spark.sql.shuffle.partitions": "2"}) as session:
        yield session


@dataclass
class Pipeline:
    """A query with state into a callback, run again and again from one checkpoint, by a new session each time."""

    spark: SparkSession
    checkpoint: Path
    manager: str = LINE.manager
    got: list[int] = field(default_factory=list)
    """Batches that the sink was given."""
    open: threading.Event = field(default_factory=threading.Event)
    """While it is not set, the sink holds on to the next batch that it is given."""
    held: int | None = None
    """The batch that it holds: one that it had let go already may be committed at any moment."""

    news: BatchNews | None = None
    """What the newest run publishes."""

    def __post_init__(self) -> None:
        self.open.set()

    def start(self, epoch: int) -> StreamingQuery:
        session = self.spark.newSession()
        session.conf.set(MANAGER, self.manager)
        self.news = follow(session, RunName("revenue", epoch, str(self.checkpoint)))
        rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1)
        counts = rows.load().selectExpr("value % 3 AS key").groupBy("key").count()
        writer = counts.writeStream.foreachBatch(self._take).outputMode("update")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(processingTime="100 milliseconds").start()

    def _take(self, frame: DataFrame, batch: int) -> None:
        frame.collect()
        self.got.append(batch)
        if not self.open.is_set():
            self.held = batch
            assert self.open.wait(60)

    def plant(self, epoch: int) -> None:
        folder = self.checkpoint / "_tideover_epochs"
        assert LocalFiles().create_atomically(str(folder / f"{epoch}-op.1"), b"")

    def entries(self, log: str) -> list[str]:
        return sorted(path.name for path in (self.checkpoint / log).iterdir())

    def has_committed(self, batch: int) -> bool:
        return self.newest("commits") >= batch

    def newest(self, log: str) -> int:
        return max((int(name) for name in self.entries(log) if name.isdigit()), default=-1)


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path / "checkpoint")


def written(checkpoint: str | Path) -> dict[str, int]:
    """Sizes by path, without state: of a run that has ended Spark still makes snapshots, in a thread of its own."""
    found = LocalFiles().walk(str(checkpoint))
    return {path: size for path, size in found.items() if not path.startswith("state/")}


def failure(query: StreamingQuery) -> str:
    """The innermost cause, once the query has ended on its own."""
    until(lambda: not query.isActive, "the query runs on")
    return root_cause(java_query(query).exception().get())


def test_a_run_whose_epoch_is_over_ends_and_leaves_half_of_nothing(pipeline: Pipeline) -> None:
    query = pipeline.start(3)
    until(lambda: len(pipeline.got) >= 3)
    pipeline.plant(4)
    said = failure(query)
    assert said.startswith(f"StaleEpoch: revenue with epoch 3 is over: operation op took file:{pipeline.checkpoint}")
    assert said.endswith("is not written")
    for log in ("offsets", "commits"):
        assert all(name.isdigit() for name in pipeline.entries(log)), "a draft was left, or a checksum"
    assert pipeline.newest("offsets") - pipeline.newest("commits") in {0, 1}


def test_a_batch_in_flight_is_not_committed_and_no_stale_start_runs_it_again(pipeline: Pipeline) -> None:
    query = pipeline.start(3)
    until(lambda: pipeline.newest("commits") >= 1)
    pipeline.open.clear()
    until(lambda: pipeline.held is not None, "the sink holds no batch")
    flying = pipeline.got[-1]
    assert (pipeline.newest("offsets"), pipeline.newest("commits")) == (flying, flying - 1)
    pipeline.plant(4)
    pipeline.open.set()
    assert f"so commits/{flying} is not written" in failure(query)
    assert pipeline.newest("commits") == flying - 1
    before, given = written(pipeline.checkpoint), len(pipeline.got)
    with pytest.raises(Exception, match=r"revenue with epoch 3 is over: .* so it is not started"):
        pipeline.start(3)
    assert written(pipeline.checkpoint) == before
    assert len(pipeline.got) == given, "the sink was given the batch once more"
    again = pipeline.start(4)
    until(lambda: pipeline.newest("commits") > flying)
    again.stop()
    assert pipeline.got[given] == flying


def test_sparks_own_manager_lets_a_stale_run_write(pipeline: Pipeline) -> None:
    """So that the tests above would fail without the fence."""
    pipeline.manager = f"{LINE.sparks_package}.FileContextBasedCheckpointFileManager"
    pipeline.plant(4)
    query = pipeline.start(3)
    until(lambda: pipeline.newest("commits") >= 1)
    query.stop()


def test_a_checkpoint_goes_from_sparks_manager_to_ours_and_back(pipeline: Pipeline) -> None:
    sparks = [f"{LINE.sparks_package}.{kind}BasedCheckpointFileManager" for kind in ("FileContext", "FileSystem")]
    for manager in (sparks[0], LINE.manager, sparks[1], LINE.manager, sparks[0]):
        pipeline.manager = manager
        before = pipeline.newest("commits") if (pipeline.checkpoint / "commits").is_dir() else -1
        query = pipeline.start(3)
        until(partial(pipeline.has_committed, before + 2))
        query.stop()
        assert query.exception() is None
    assert sorted(set(pipeline.got)) == list(range(max(pipeline.got) + 1))


@pytest.fixture(params=["in the driver", "elsewhere"])
def executors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Settings of a session, by where its executors are."""
    if request.param == "in the driver":
        yield {}
        return
    with standalone(tmp_path / "spark") as master:
        yield {"spark.master": master, "spark.cores.max": "2", "spark.executor.memory": "600m"}


@pytest.fixture
def drivers(tmp_path: Path, executors: Mapping[str, str]) -> Iterator[Callable[[int, str], Driver]]:
    begun: list[Driver] = []

    def begin(epoch: int, name: str) -> Driver:
        begun.append(Driver(tmp_path, str(tmp_path / "checkpoint"), epoch, name, executors))
        return begun[-1]

    yield begin
    for each in begun:
        with contextlib.suppress(ProcessLookupError):
            each.signal(signal.SIGKILL)
        each.process.wait()


def test_a_driver_that_thaws_and_one_started_again_write_nothing(
    drivers: Callable[[int, str], Driver], tmp_path: Path
) -> None:
    """Frozen in the middle of a batch, fenced by another process, and then back; and the same job submitted again."""
    checkpoint, files = str(tmp_path / "checkpoint"), LocalFiles()
    frozen = drivers(3, "frozen")
    until(lambda: len(frozen.given()) >= 3)
    frozen.hold.touch()
    until(frozen.held.exists)
    flying = frozen.given()[-1]
    frozen.signal(signal.SIGSTOP)
    planted = plant(files, checkpoint, operation="op", epoch=4, knows=lambda _: True)
    assert planted == (flying + 1, flying + 2)
    plant_epoch(files, checkpoint, Fence(4, "op"))
    fenced = written(checkpoint)
    frozen.hold.unlink()
    frozen.signal(signal.SIGCONT)
    assert f"revenue with epoch 3 is over: operation op took file:{checkpoint} with epoch 4, so " in frozen.end()
    assert written(checkpoint) == fenced
    assert "revenue with epoch 3 is over" in drivers(3, "again").end()
    assert written(checkpoint) == fenced
    assert not (tmp_path / "again").exists(), "its sink was given the batch in flight"


def test_a_driver_writes_nothing_where_its_epochs_were_deleted(
    drivers: Callable[[int, str], Driver], tmp_path: Path
) -> None:
    """A lifecycle rule deletes what is old and small, behind the fence of a driver that is in the middle of a batch."""
    checkpoint, files = str(tmp_path / "checkpoint"), LocalFiles()
    stale = drivers(3, "stale")
    until(lambda: len(stale.given()) >= 3)
    stale.hold.touch()
    until(stale.held.exists)
    plant(files, checkpoint, operation="op", epoch=4, knows=lambda _: True)
    plant_epoch(files, checkpoint, Fence(4, "op"))
    unplant(files, checkpoint, "op")
    assert files.delete(f"{checkpoint}/_tideover_epochs", recursive=True)
    fenced = written(checkpoint)
    stale.hold.unlink()
    said = stale.end()
    assert "revenue with epoch 3 is over: " in said, said
    assert "is gone, because another process runs this checkpoint, or because the file was deleted" in said, said
    assert written(checkpoint) == fenced
    row = samples.assignment(query="revenue", checkpoint=checkpoint, epoch=4, operation="op")
    assert restore_epoch(files, row), "as each start does"
    assert "revenue with epoch 3 is over" in drivers(3, "late").end()
    again = drivers(4, "again")
    until(lambda: len(again.given()) >= 2)
    assert again.given()[0] == stale.given()[-1], "it begins with the batch that was not committed"


def test_after_a_release_the_next_epoch_runs_the_batch_in_flight(pipeline: Pipeline) -> None:
    checkpoint, files = str(pipeline.checkpoint), LocalFiles()
    query = pipeline.start(3)
    until(lambda: pipeline.newest("commits") >= 1)
    query.stop()
    before = written(checkpoint)
    plant(files, checkpoint, operation="op", epoch=4, knows=lambda _: True)
    plant_epoch(files, checkpoint, Fence(4, "op"))
    release(files, ReleaseRequest(checkpoint=checkpoint, planted=(), prepared=None, operation="op"))
    assert written(checkpoint) == before, "the file of the run is there as before"
    given = len(pipeline.got)
    again = pipeline.start(5)
    until(lambda: len(pipeline.got) > given)
    again.stop()


def test_a_run_publishes_each_entry_the_moment_it_is_there(pipeline: Pipeline) -> None:
    """So that its batches are known without a look into the folders."""
    files = LocalFiles()
    query = pipeline.start(3)
    assert pipeline.news is not None
    reported: list[PublishedEntry] = []
    late: list[float] = []
    while len(reported) < 12:
        for entry in pipeline.news.take(60):
            written = (pipeline.checkpoint / entry.log / str(entry.batch)).stat().st_mtime
            late.append(time.time() - written)
            reported.append(entry)
    pipeline.news.close()
    query.stop()
    del reported[12:]  # the last take may have brought the entry of a batch that is not committed
    print(f"told {statistics.median(late) * 1000:.1f} ms after it was written, at the median of {len(late)} entries")
    assert [(entry.log, entry.batch) for entry in reported] == [
        (log, batch) for batch in range(len(reported) // 2) for log in ("offsets", "commits")
    ]
    for entry in reported:
        assert files.read_bytes(str(pipeline.checkpoint / entry.log / str(entry.batch))) == entry.content
    assert pipeline.news.take(0) == [], "nobody follows any more"


def test_a_run_under_sparks_own_manager_publishes_nothing(pipeline: Pipeline) -> None:
    pipeline.manager = f"{LINE.sparks_package}.FileContextBasedCheckpointFileManager"
    pipeline.start(3).stop()
    assert pipeline.news is None


@pytest.fixture
def race(spark: SparkSession, tmp_path: Path) -> Race:
    return load_race(spark, tmp_path)


def test_of_eight_writers_exactly_one_gets_the_name(race: Race, tmp_path: Path) -> None:
    folder = f"file:{tmp_path}"

    def said(manager: str, twice: int, rounds: int) -> None:
        print(f"{manager}: two winners in {twice} of {rounds} rounds")

    ours = race(race.ours, folder, ROUNDS, WRITERS)
    said(race.ours, ours[0], ROUNDS)
    assert ours == (0, 0, 0)
    newer, older = race.sparks
    said(newer, race(newer, folder, ROUNDS, WRITERS)[0], ROUNDS)
    twice, rounds = 0, 0
    while not twice and rounds < MOST_ROUNDS:  # else the race would prove nothing
        twice, rounds = twice + race(older, folder, ROUNDS, WRITERS)[0], rounds + ROUNDS
    said(older, twice, rounds)
    assert twice
