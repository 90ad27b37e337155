"""Checkpoints on a store of the S3 protocol: of several writers one gets the name, and a stale run writes nothing.

The counts here are small; ``tests/long/test_object_store.py`` has the whole ones, beside Spark's own managers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from state.settings.keys import Tideover
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.errors import FileVanished, UnsafeCheckpoint, UnsafeFileSystem
from streaming.spark.jvm import java_context
from streaming.spark.runner.service import require_exclusive_create
from tests.cut_answers import LossyWay, lossy_way
from tests.jars import hadoop_settings
from tests.object_store import (
    ObjectStore,
    module_store,  # noqa: F401 - a fixture
    running_store,
    spark_on,
)
from tests.races import Race, entries_against_plants, load_race
from tests.real.checkpoint_store import ROUNDS, WRITERS, assert_keeps_a_tree, assert_one_gets_the_name

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("s3a")]

_UNCACHED = "fs.s3a.impl.disable.cache"


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    with spark_on(store) as session:
        yield session


@pytest.fixture(scope="module")
def race(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Race:
    return load_race(spark, tmp_path_factory.mktemp("race"))


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


@pytest.fixture
def folder(store: ObjectStore, tmp_path: Path) -> str:
    return join(store.url, tmp_path.name)


def test_of_eight_writers_exactly_one_gets_the_name(race: Race, store: ObjectStore, folder: str) -> None:
    assert race(race.ours, folder, ROUNDS, WRITERS, store.conf()) == (0, 0, 0)


def test_of_eight_writers_of_the_same_content_exactly_one_gets_the_name(files: HadoopFiles, folder: str) -> None:
    assert_one_gets_the_name(files, folder)


@contextmanager
def losing_answers(
    spark: SparkSession, store: ObjectStore, loses: Callable[[int], bool]
) -> Iterator[tuple[LossyWay, str]]:
    """A way to the same server by a bucket of its own, for Hadoop keeps one client for each bucket; and its address."""
    with lossy_way(store.port, loses) as way:
        bucket = store.folder.with_name(f"lossy-{way.port}")
        bucket.mkdir()
        conf = java_context(spark).hadoopConfiguration()
        conf.set(f"fs.s3a.bucket.{bucket.name}.endpoint", f"http://127.0.0.1:{way.port}")
        yield way, f"s3a://{bucket.name}"


def test_a_create_whose_answer_was_lost_is_won(spark: SparkSession, files: HadoopFiles, store: ObjectStore) -> None:
    """The client sends it again, and the store refuses that because of the client's own object."""
    with losing_answers(spark, store, lambda put: put == 1) as (way, bucket):
        assert files.create_atomically(join(bucket, "commits/7"), b"v1\n{}")
        assert (way.lost, way.puts) == (1, 2)
        assert not files.create_atomically(join(bucket, "commits/7"), b"v1\n{}"), "the same words of another writer"
        assert files.read_bytes(join(bucket, "commits/7")) == b"v1\n{}"


def test_where_every_third_answer_is_lost_one_of_eight_writers_wins(
    race: Race, spark: SparkSession, store: ObjectStore
) -> None:
    with losing_answers(spark, store, lambda put: put % 3 == 0) as (way, bucket):
        endpoint = f"fs.s3a.bucket.{bucket.rpartition('/')[2]}.endpoint"
        settings = store.conf() | {endpoint: f"http://127.0.0.1:{way.port}"}
        assert race(race.ours, join(bucket, "log"), ROUNDS, WRITERS, settings) == (0, 0, 0)
        assert way.lost >= ROUNDS


@pytest.mark.parametrize("scheme", ["s3", "s3n"])
def test_another_scheme_of_the_same_connector_is_as_safe(
    spark: SparkSession, files: HadoopFiles, store: ObjectStore, folder: str, scheme: str
) -> None:
    """The class behind a scheme decides."""
    checkpoint = folder.replace("s3a://", f"{scheme}://")
    with (
        pytest.raises(UnsafeCheckpoint, match="RawLocalFileSystem"),
        hadoop_settings(spark, behind(scheme, "RawLocalFileSystem")),
    ):
        require_exclusive_create(spark, declared(checkpoint), "a", Path("/"))
    with hadoop_settings(spark, behind(scheme, "s3a.S3AFileSystem")):
        require_exclusive_create(spark, declared(checkpoint), "a", Path("/"))
        assert files.create_atomically(join(checkpoint, "offsets/1"), b"mine")
        assert not files.create_atomically(join(folder, "offsets/1"), b"another's")
        rows = spark.readStream.format("rate").load().writeStream.format("noop")
        query = rows.option("checkpointLocation", join(checkpoint, "started")).trigger(availableNow=True).start()
        query.stop()


def behind(scheme: str, name: str) -> dict[str, str]:
    """Settings that put a class of Hadoop behind a scheme."""
    key = f"fs.{scheme}.impl"
    return {key: f"org.apache.hadoop.fs.{name}", f"{key}.disable.cache": "true"}


def test_of_an_entry_and_a_plant_exactly_one_gets_the_name(race: Race, files: HadoopFiles, folder: str) -> None:
    counted = entries_against_plants(race, files, folder, ROUNDS)
    print(f"{counted.entries} entries and {counted.plants} plants won, {counted.wrong} rounds went wrong")
    assert counted.wrong == 0
    assert counted.entries + counted.plants == ROUNDS


def test_a_tree_is_listed_copied_read_and_deleted(files: HadoopFiles, folder: str) -> None:
    assert_keeps_a_tree(files, folder)
    assert files.free_space(folder) is None
    for read in (files.read_bytes, files.size):
        with pytest.raises(FileVanished):
            read(join(folder, "none"))
    with pytest.raises(FileVanished):
        files.copy([(join(folder, "none"), join(folder, "to"))])


def declared(checkpoint: str, **spark: object) -> Tideover:
    """A configuration with one query of runner ``a``."""
    return Tideover.model_validate({
        "store": "sqlite:///x.db",
        "clusters": {name: {"bootstrap": [f"{name}:9092"]} for name in ("east", "west")},
        "routes": [{"from": "east", "to": "west"}],
        "runners": {"a": {}},
        "queries": {
            "revenue": {
                "pipeline": "a:b", "sources": {"o": {"topics": ["o"]}}, "clusters": ["east", "west"], "runners": ["a"],
                "checkpoint": checkpoint, "spark": spark,
            }
        },
    })  # fmt: skip


def test_a_runner_tries_the_store_out_and_leaves_nothing_there(
    spark: SparkSession, files: HadoopFiles, folder: str
) -> None:
    require_exclusive_create(spark, declared(folder), "a", Path("/"))
    assert files.walk(folder) == {}


def test_a_runner_refuses_a_store_that_ignores_conditional_writes(spark: SparkSession, tmp_path: Path) -> None:
    """The same server keeps no ETags so, and overwrites, whatever the condition was."""
    with (
        running_store(tmp_path / "kept", "--nometa") as careless,
        hadoop_settings(spark, {**careless.conf(), _UNCACHED: "true"}),
    ):
        with pytest.raises(UnsafeCheckpoint, match="is on a store that overwrites an object although"):
            require_exclusive_create(spark, declared(f"{careless.url}/revenue"), "a", Path("/"))
        assert not list((careless.folder / "revenue").glob("*")), "what it was tried with is gone"


def test_sparks_own_manager_is_refused_on_the_store(spark: SparkSession, folder: str) -> None:
    settings = declared(folder, **{MANAGER: "org.apache.spark.FileContextBased"})
    with pytest.raises(UnsafeCheckpoint, match="where Spark's own manager lets two drivers create one entry") as error:
        require_exclusive_create(spark, settings, "a", Path("/"))
    assert "Tideover's companion" in error.value.hint


def test_without_conditions_nothing_is_planted_started_or_hosted(
    spark: SparkSession, store: ObjectStore, folder: str
) -> None:
    reported = r"fs\.s3a\.create\.conditional\.enabled is false"
    with hadoop_settings(spark, {"fs.s3a.create.conditional.enabled": "false", _UNCACHED: "true"}):
        with pytest.raises(UnsafeFileSystem, match=reported):
            HadoopFiles(spark).create_atomically(join(folder, "x"), b"mine")
        with pytest.raises(UnsafeCheckpoint, match=reported):
            require_exclusive_create(spark, declared(folder), "a", Path("/"))
        rows = spark.readStream.format("rate").load().writeStream.format("noop")
        with pytest.raises(Exception, match=reported):
            rows.option("checkpointLocation", join(folder, "started")).start()
