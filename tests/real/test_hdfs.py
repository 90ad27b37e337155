"""Checkpoints on HDFS, by Hadoop's own NameNode and DataNode: one writer gets a name; a stale run writes nothing."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.errors import FileSystemError, FileVanished
from streaming.spark.runner.service import require_exclusive_create
from tests.cut_answers import lossy_way
from tests.hdfs_cluster import Hdfs, hdfs_cluster, url_at
from tests.jars import hadoop_settings, local_spark, spark_line
from tests.races import Race, entries_against_plants, load_race
from tests.real.checkpoint_store import ROUNDS, WRITERS, assert_keeps_a_tree, assert_one_gets_the_name
from tests.real.stale_driver import assert_fenced
from tests.real.test_object_store import declared

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.timeout(900)]

RENAME = rb".*rename2"
"""The call that gives a draft its name."""
RETRIES = {"dfs.client.retry.policy.enabled": "true", "dfs.client.retry.policy.spec": "100,20"}
"""Milliseconds, and how often: the client calls again, as it always does where there are several NameNodes."""


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs") / "cluster") as made:
        yield made


@pytest.fixture(scope="module")
def spark(hdfs: Hdfs) -> Iterator[SparkSession]:
    with local_spark({MANAGER: spark_line().manager}) as session:
        yield session


@pytest.fixture(scope="module")
def race(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    return load_race(spark, tmp_path_factory.mktemp("race"))


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


@pytest.fixture
def folder(hdfs: Hdfs, tmp_path: Path) -> str:
    return join(hdfs.url, tmp_path.name)


def test_of_eight_writers_exactly_one_gets_the_name(race: Race, folder: str) -> None:
    assert race(race.ours, folder, ROUNDS, WRITERS) == (0, 0, 0)


def test_of_eight_writers_of_the_same_content_exactly_one_gets_the_name(files: HadoopFiles, folder: str) -> None:
    assert_one_gets_the_name(files, folder)
    assert [name for name in files.list_names(join(folder, "commits")) if name.startswith(".")] == [], "drafts are gone"


def test_of_an_entry_and_a_plant_exactly_one_gets_the_name(race: Race, files: HadoopFiles, folder: str) -> None:
    counted = entries_against_plants(race, files, folder, ROUNDS)
    print(f"{counted.entries} entries and {counted.plants} plants won, {counted.wrong} rounds went wrong")
    assert counted.wrong == 0
    assert counted.entries + counted.plants == ROUNDS


@pytest.mark.parametrize("settings", [{}, RETRIES], ids=["which is not tried again", "which is tried again"])
def test_a_create_whose_answer_was_lost_is_won(
    spark: SparkSession, files: HadoopFiles, hdfs: Hdfs, tmp_path: Path, settings: dict[str, str]
) -> None:
    with lossy_way(hdfs.port, lambda call: call == 1, counts=RENAME) as way, hadoop_settings(spark, settings):
        path = join(url_at(way.port), tmp_path.name, "commits/7")
        assert files.create_atomically(path, b"v1\n{}")
        assert (way.lost, way.puts) == (1, 2 if settings else 1)
        assert not files.create_atomically(path, b"v1\n{}"), "the same words of another writer"
        assert files.read_bytes(path) == b"v1\n{}"


def test_where_every_third_answer_is_lost_one_of_eight_writers_wins(race: Race, hdfs: Hdfs, tmp_path: Path) -> None:
    with lossy_way(hdfs.port, lambda call: call % 3 == 0, counts=RENAME) as way:
        assert race(race.ours, join(url_at(way.port), tmp_path.name), ROUNDS, WRITERS, RETRIES) == (0, 0, 0)
        assert way.lost >= 5


def test_a_stale_run_writes_nothing_behind_a_fence(spark: SparkSession, files: HadoopFiles, folder: str) -> None:
    require_exclusive_create(spark, declared(folder), "a", Path("/"))
    assert_fenced(spark, files, folder)


def test_a_reader_of_a_file_that_is_replaced_reads_all_of_it_or_fails(files: HadoopFiles, folder: str) -> None:
    """As the offsets of an application without the jar are rewritten. It fails if its blocks went with the old file."""
    path, over, words = join(folder, "offsets/7"), threading.Event(), [b"first" * 100, b"second" * 100]
    files.replace(path, words[0])

    def read() -> set[bytes]:
        found = set()
        while not over.is_set():
            try:
                found.add(files.read_bytes(path))
            except FileVanished:
                found.add(b"")
            except FileSystemError:
                continue
        return found

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            for number in range(2 * ROUNDS):
                files.replace(path, words[number % 2])
        finally:
            over.set()
        assert reading.result() <= set(words)
    assert files.list_names(join(folder, "offsets")) == ["7"]


def test_a_tree_is_listed_copied_read_and_deleted(files: HadoopFiles, folder: str) -> None:
    assert_keeps_a_tree(files, folder)
    free = files.free_space(folder)
    assert free is not None
    assert free > 0
    for read in (files.read_bytes, files.size):
        with pytest.raises(FileVanished):
            read(join(folder, "none"))
