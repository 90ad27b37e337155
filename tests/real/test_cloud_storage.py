"""Checkpoints on Google's Cloud Storage, by Google's own connector against an emulator: one writer gets a name."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.errors import UnsafeCheckpoint, UnsafeFileSystem
from streaming.spark.jvm import java_context, java_view
from streaming.spark.runner.service import require_exclusive_create
from tests.cloud_storage import CloudStorage, careless, cloud_storage, losing_uploads
from tests.jars import hadoop_settings, local_spark, spark_line
from tests.races import Race, entries_against_plants, load_race
from tests.real.checkpoint_store import ROUNDS, WRITERS, assert_keeps_a_tree, assert_one_gets_the_name
from tests.real.stale_driver import assert_fenced
from tests.real.test_object_store import declared

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("gcs"), pytest.mark.timeout(1800)]
# the first test builds the emulator, once on a machine

FEW = 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CloudStorage]:
    with cloud_storage(tmp_path_factory.mktemp("objects")) as store:
        yield store


@pytest.fixture(scope="module")
def spark(store: CloudStorage) -> Iterator[SparkSession]:
    with local_spark({MANAGER: spark_line().manager, **store.spark_conf()}) as session:
        yield session


@pytest.fixture(scope="module")
def race(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    return load_race(spark, tmp_path_factory.mktemp("race"))


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


@pytest.fixture
def folder(store: CloudStorage, tmp_path: Path) -> str:
    return join(store.url, tmp_path.name)


def test_of_eight_writers_exactly_one_gets_the_name(race: Race, store: CloudStorage, folder: str) -> None:
    assert race(race.ours, folder, ROUNDS, WRITERS, store.conf()) == (0, 0, 0)


def test_without_conditions_of_the_store_several_writers_win(race: Race, store: CloudStorage) -> None:
    """The control: it is the store that decides, and the race of this module shows it."""
    with careless(store) as (way, bucket):
        assert race(race.ours, join(bucket, "log"), ROUNDS, WRITERS, store.conf(way.port))[0] > 0


def test_of_eight_writers_of_the_same_content_exactly_one_gets_the_name(files: HadoopFiles, folder: str) -> None:
    assert_one_gets_the_name(files, folder)


def test_a_create_whose_answer_was_lost_is_won(spark: SparkSession, files: HadoopFiles, store: CloudStorage) -> None:
    """The client may send it again, and the store refuses that because of the client's own object."""
    with losing_uploads(store, lambda put: put == 1) as (way, bucket), hadoop_settings(spark, store.conf(way.port)):
        path = join(bucket, "commits/7")
        assert files.create_atomically(path, b"v1\n{}")
        assert way.lost == 1
        assert not files.create_atomically(path, b"v1\n{}"), "the same words of another writer"
        assert files.read_bytes(path) == b"v1\n{}"


def test_where_every_third_answer_is_lost_one_of_eight_writers_wins(race: Race, store: CloudStorage) -> None:
    with losing_uploads(store, lambda put: put % 3 == 0) as (way, bucket):
        assert race(race.ours, join(bucket, "log"), FEW, WRITERS, store.conf(way.port)) == (0, 0, 0)
        assert way.lost >= FEW


def test_of_an_entry_and_a_plant_exactly_one_gets_the_name(race: Race, files: HadoopFiles, folder: str) -> None:
    counted = entries_against_plants(race, files, folder, ROUNDS)
    print(f"{counted.entries} entries and {counted.plants} plants won, {counted.wrong} rounds went wrong")
    assert counted.wrong == 0
    assert counted.entries + counted.plants == ROUNDS


def test_a_stale_run_writes_nothing_behind_a_fence(spark: SparkSession, files: HadoopFiles, folder: str) -> None:
    assert_fenced(spark, files, folder)


def test_a_file_is_overwritten_and_one_that_was_given_up_is_not(
    spark: SparkSession, files: HadoopFiles, folder: str
) -> None:
    """What may be there already, such as a change of state, is whole or absent, and nothing stays on the disk."""
    jvm, conf = java_view(spark), java_context(spark).hadoopConfiguration()
    package, _, name = spark_line().manager.rpartition(".")
    path = jvm.org.apache.hadoop.fs.Path(join(folder, "state/0/0/1.delta"))
    manager = getattr(getattr(jvm, package), name)(path.getParent(), conf)
    scratch = Path(str(jvm.java.lang.System.getProperty("java.io.tmpdir")))
    before = set(scratch.glob("tideover-*.object"))
    for word, ends in ((b"first", "close"), (b"given up", "cancel"), (b"second", "close")):
        stream = manager.createAtomic(path, True)
        stream.write(word)
        getattr(stream, ends)()
        assert files.read_bytes(str(path)) == (word if ends == "close" else b"first")
    assert set(scratch.glob("tideover-*.object")) - before == set()


def test_a_tree_is_listed_copied_read_and_deleted(files: HadoopFiles, folder: str) -> None:
    assert_keeps_a_tree(files, folder, "c d")
    assert files.free_space(folder) is None


def test_a_runner_tries_the_store_out_and_leaves_nothing_there(
    spark: SparkSession, files: HadoopFiles, folder: str
) -> None:
    require_exclusive_create(spark, declared(folder), "a", Path("/"))
    assert files.walk(folder) == {}


def test_a_runner_refuses_a_store_that_ignores_conditional_writes(
    spark: SparkSession, store: CloudStorage, files: HadoopFiles
) -> None:
    with careless(store) as (way, bucket), hadoop_settings(spark, store.conf(way.port)):
        with pytest.raises(UnsafeCheckpoint, match="is on a store that overwrites an object although") as error:
            require_exclusive_create(spark, declared(join(bucket, "revenue")), "a", Path("/"))
        assert "Google's own connector" in error.value.hint
        assert files.walk(join(bucket, "revenue")) == {}, "what it was tried with is gone"


def test_sparks_own_manager_is_refused_on_the_store(spark: SparkSession, folder: str) -> None:
    settings = declared(folder, **{MANAGER: "org.apache.spark.FileContextBased"})
    with pytest.raises(UnsafeCheckpoint, match="is on Cloud Storage, where Spark's own manager lets two drivers"):
        require_exclusive_create(spark, settings, "a", Path("/"))


@pytest.mark.parametrize(
    ("setting", "value", "reported"),
    [
        ("fs.gs.performance.cache.enable", "true", "true, so a run could overlook a fence"),
        ("fs.gs.client.type", "STORAGE_CLIENT", "STORAGE_CLIENT, and only HTTP_API_CLIENT was tried"),
    ],
    ids=["a cache", "another client"],
)
def test_with_a_setting_by_which_two_could_win_nothing_is_created_or_hosted(
    spark: SparkSession, files: HadoopFiles, store: CloudStorage, setting: str, value: str, reported: str
) -> None:
    folder = join(store.add_bucket(f"other-{uuid.uuid4().hex}"), "revenue")
    assert not files.exists(folder), "a client is made, and it looks at the settings again"
    with hadoop_settings(spark, {setting: value}):
        with pytest.raises(UnsafeFileSystem, match=reported):
            files.create_atomically(join(folder, "x"), b"mine")
        with pytest.raises(UnsafeCheckpoint, match=reported):
            require_exclusive_create(spark, declared(folder), "a", Path("/"))
        rows = spark.readStream.format("rate").load().writeStream.format("noop")
        with pytest.raises(Exception, match=reported):
            rows.option("checkpointLocation", join(folder, "started")).start()
    assert files.walk(folder) == {}


def test_another_class_behind_the_scheme_is_refused(spark: SparkSession) -> None:
    other = {"fs.gs.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}
    folder, reported = f"gs://class-{uuid.uuid4().hex}/revenue", r"its file system is .*RawLocalFileSystem"
    with hadoop_settings(spark, other):
        with pytest.raises(UnsafeFileSystem, match=reported):
            HadoopFiles(spark).create_atomically(join(folder, "x"), b"mine")
        with pytest.raises(UnsafeCheckpoint, match=reported):
            require_exclusive_create(spark, declared(folder), "a", Path("/"))
