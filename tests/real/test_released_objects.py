"""A query whose checkpoint is on a store of the S3 protocol is handed back to plain Spark, also behind an interruption.

The checkpoint is of an application that moved: its newest entry has a mark, which plain Spark refuses.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from state.model.entities import Assignment
from state.store.sql.migrate import open_store
from streaming.spark.checkpoint.files import LocalFiles, join
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.checkpoint.mapping import RELEASED
from streaming.spark.handback import hand_back, plan_handback
from tests.applications import SECONDS
from tests.object_store import ObjectStore, keys, module_store, spark_on
from tests.scene import Typed
from tests.served import ATTACHED
from tests.unit.streaming.spark.test_handback import NAME, PLAIN, Crash, moved

pytestmark = [pytest.mark.real, pytest.mark.jars("s3a")]
__all__ = ["module_store"]


class Failing(HadoopFiles):
    """The process is gone before the so-manieth write or removal."""

    def __init__(self, session: SparkSession, after: int) -> None:
        super().__init__(session)
        self.left = after

    def _count(self) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1

    def create_atomically(self, path: str, content: bytes) -> bool:
        self._count()
        return super().create_atomically(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._count()
        super().replace(path, content)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        self._count()
        return super().delete(path, recursive=recursive)


@pytest.fixture(scope="module")
def spark(store: ObjectStore) -> Iterator[SparkSession]:
    with spark_on(store) as session:
        yield session


def lines(files: HadoopFiles, checkpoint: str) -> dict[int, object]:
    """By batch, the offsets of its entry."""
    folder = join(checkpoint, "offsets")
    return {int(name): json.loads(files.read_bytes(join(folder, name)).splitlines()[2])
            for name in files.list_names(folder)}  # fmt: skip


def put(files: HadoopFiles, row: Assignment, checkpoint: str) -> Assignment:
    """The same checkpoint on the store."""
    for name in LocalFiles().walk(row.checkpoint):
        files.replace(join(checkpoint, name), Path(row.checkpoint, name).read_bytes())
    return replace(row, checkpoint=checkpoint)


def test_a_release_on_objects_that_was_broken_off_is_completed(
    store: ObjectStore, spark: SparkSession, tmp_path: Path
) -> None:
    here, files = moved(tmp_path / "cp"), HadoopFiles(spark)
    for after in range(10):
        row = put(files, here, f"{store.url}/broken-off-{after}")
        with pytest.raises(Crash):
            hand_back(Failing(spark, after), plan_handback(files, row))
        hand_back(files, plan_handback(files, row))
        assert lines(files, row.checkpoint) == PLAIN
        assert set(files.list_names(row.checkpoint)) == {"metadata", "offsets", "commits", RELEASED}


def test_the_command_releases_a_query_on_objects_by_a_spark_of_its_own(
    store: ObjectStore, spark: SparkSession, tmp_path: Path
) -> None:
    files, checkpoint = HadoopFiles(spark), f"{store.url}/released"
    row = put(files, replace(moved(tmp_path / "cp"), query="revenue", epoch=1, placed_epoch=1, operation=None),
              checkpoint)  # fmt: skip
    before = {name: files.read_bytes(join(checkpoint, name)) for name in files.walk(checkpoint)}
    known: dict[str, Any] = yaml.safe_load(ATTACHED.replace("/cp/revenue", checkpoint))
    known |= {"store": f"sqlite:///{tmp_path / 't.db'}", "spark": {"conf": keys(store, tmp_path)}}
    config = tmp_path / "tideover.yaml"
    config.write_text(yaml.safe_dump(known), encoding="utf-8")
    open_store(known["store"]).adopt(row)

    def release(*words: str) -> dict[str, Any]:
        said = Typed(config, ("release", "revenue", *words, "-o", "json")).end(2 * SECONDS)
        assert said.code == 0, said.err
        return dict(json.loads(said.out))

    assert release("--dry-run")["rewritten"] == [1, 2]
    assert {name: files.read_bytes(join(checkpoint, name)) for name in files.walk(checkpoint)} == before
    assert release("--yes") == {
        "query": "revenue", "cluster": "west", "checkpoint": checkpoint, "rewritten": [1, 2], "released": True,
    }  # fmt: skip
    assert lines(files, checkpoint) == PLAIN
    assert set(files.list_names(checkpoint)) == {"metadata", "offsets", "commits", RELEASED}
    assert files.read_bytes(join(checkpoint, RELEASED, NAME, "offsets-2")) == before["offsets/2"]
