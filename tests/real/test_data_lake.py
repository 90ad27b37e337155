"""Checkpoints on Azure Data Lake, by Hadoop's own client against a stand-in of the service: one writer gets a name."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from state.settings.keys import ExternalApplication
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.files import join
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.errors import UnsafeCheckpoint, UnsafeFileSystem
from streaming.spark.runner.service import require_exclusive_create
from tests.data_lake import DataLake, data_lake
from tests.jars import hadoop_settings, local_spark, spark_line
from tests.real.stale_driver import assert_fenced
from tests.real.test_object_store import declared

pytestmark = [pytest.mark.real, pytest.mark.matrix, pytest.mark.jars("abfs")]

ROUNDS, WRITERS = 15, 8


@pytest.fixture(scope="module")
def lake() -> Iterator[DataLake]:
    with data_lake() as lake:
        yield lake


@pytest.fixture(scope="module")
def spark(lake: DataLake) -> Iterator[SparkSession]:
    with local_spark({MANAGER: spark_line().manager, **lake.spark_conf()}) as session:
        yield session


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


@pytest.fixture
def folder(lake: DataLake, tmp_path: Path) -> str:
    return join(lake.url, tmp_path.name)


def winners(files: HadoopFiles, path: str) -> tuple[list[bytes], list[int]]:
    """What each of the writers wanted there, and those who believe that the name is theirs."""
    words = [f"writer {writer}".encode() for writer in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(lambda content: files.create_atomically(path, content), words))
    return words, [index for index, each in enumerate(won) if each]


def test_of_eight_writers_exactly_one_gets_the_name(files: HadoopFiles, lake: DataLake, folder: str) -> None:
    for number in range(ROUNDS):
        path = join(folder, "commits", str(number))
        words, won = winners(files, path)
        assert len(won) == 1, f"{len(won)} of {WRITERS} writers believe that {path} is theirs"
        assert files.read_bytes(path) == words[won[0]]
    assert len(lake.renames) > ROUNDS, "they met at the service, not at a look before it"
    assert set(lake.renames) == {"*"}, "each rename is on the condition that the name is free"
    assert [name for name in files.list_names(join(folder, "commits")) if name.startswith(".")] == [], "drafts are gone"


def test_a_create_whose_answer_was_lost_is_won(files: HadoopFiles, lake: DataLake, folder: str) -> None:
    """The request is sent again, and finds no draft: it has its new name."""
    lake.lost_renames = 1
    assert files.create_atomically(join(folder, "offsets/7"), b"mine")
    assert lake.lost_renames == 0
    assert not files.create_atomically(join(folder, "offsets/7"), b"another's")
    assert files.read_bytes(join(folder, "offsets/7")) == b"mine"


def test_a_stale_run_writes_nothing_behind_a_fence(spark: SparkSession, files: HadoopFiles, folder: str) -> None:
    assert_fenced(spark, files, folder)


def test_without_conditions_of_the_service_several_writers_win(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path
) -> None:
    """The control: it is the service that decides, and the race of this module shows it."""
    with data_lake(obeys_conditions=False) as careless, hadoop_settings(spark, careless.conf()):
        won = [winners(files, join(careless.url, tmp_path.name, str(number)))[1] for number in range(ROUNDS)]
    assert max(len(each) for each in won) > 1


def test_an_account_without_a_hierarchical_namespace_is_refused(spark: SparkSession, lake: DataLake) -> None:
    flat = lake.url.replace("checkpoints-", "flat-")
    with hadoop_settings(spark, {"fs.azure.account.hns.enabled": "false"}):
        with pytest.raises(UnsafeFileSystem, match="its account has no hierarchical namespace"):
            HadoopFiles(spark).create_atomically(join(flat, "x"), b"mine")
        with pytest.raises(UnsafeCheckpoint, match="its account has no hierarchical namespace"):
            require_exclusive_create(spark, declared(join(flat, "revenue")), "a", Path("/"))


def test_another_class_behind_the_scheme_is_refused(spark: SparkSession, lake: DataLake) -> None:
    other = {"fs.abfs.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.abfs.impl.disable.cache": "true"}
    with (
        hadoop_settings(spark, other),
        pytest.raises(UnsafeCheckpoint, match=r"its file system is .*RawLocalFileSystem"),
    ):
        require_exclusive_create(spark, declared(join(lake.url, "revenue")), "a", Path("/"))


def test_an_application_without_the_jar_is_refused_there(spark: SparkSession, folder: str) -> None:
    """Its offsets are rewritten in place, and no file is replaced in one step."""
    settings = declared(folder)
    commands = ExternalApplication(start=("app", "{cluster}"), stop=("app",), status=("app",))
    query = settings.queries["revenue"].model_copy(update={"pipeline": None, "application": commands})
    with pytest.raises(UnsafeCheckpoint, match=r"is on abfss?, where no file is replaced in one step"):
        require_exclusive_create(spark, settings.model_copy(update={"queries": {"revenue": query}}), "a", Path("/"))
