"""A full disk ends a carry with a clear error and leaves nothing behind: on a real file system, through Hadoop's."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from state.messages import PrepareRequest
from streaming.spark.checkpoint.carry import prepare
from streaming.spark.checkpoint.hadoop_files import HadoopFiles
from streaming.spark.errors import NoSpace
from tests.checkpoints import CheckpointFolder, orders
from tests.jars import connector_jars

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.ui.enabled": "false", "spark.jars": connector_jars()}
    session = SparkSession.builder.master("local[1]").config(map={**conf}).getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_full_disk_is_reported_and_no_partial_copy_is_left(
    spark: SparkSession, tmp_path: Path, is_announced: bool
) -> None:
    class Silent(HadoopFiles):
        def free_space(self, directory: str) -> None:
            return None

    folder = CheckpointFolder(tmp_path / "checkpoint", stores=("delta",))
    folder.commit(0)
    folder.write("state/0/0/1.delta", "x" * 2_000_000)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=True)
    try:
        files = HadoopFiles(spark) if is_announced else Silent(spark)
        request = PrepareRequest(
            checkpoint=str(folder.path),
            target=str(small / "epoch-2"),
            operation="move",
            epoch=2,
            resume="carry",
            batch=0,
            offsets={"orders": orders(0)},
            target_offsets={"orders": orders(0, 900)},
        )
        with pytest.raises(NoSpace):
            prepare(files, request, {"orders": ["orders"]})
        assert list(small.iterdir()) == []
    finally:
        # lazily: Hadoop leaves a stream that broke on a full disk to the garbage collector
        subprocess.run(["umount", "--lazy", str(small)], check=True)
