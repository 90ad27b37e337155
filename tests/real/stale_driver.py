"""A driver of its own, as of a second ``spark-submit`` of one checkpoint.

``stale_driver.py CHECKPOINT EPOCH SINK CONF``: appends each batch that its sink is given to ``SINK``, and waits inside
the sink while ``SINK.hold`` exists. Its last line of output says how it ended.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.spark.checkpoint.batch_news import RunName, follow
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_fence import plant, plant_epoch
from streaming.spark.checkpoint.log_text import Fence
from tests.jars import connector_jars, spark_line
from tests.waiting import PROCESS_SECONDS, until
from tests.wheel import ROOT


class Driver:
    """Such a process; ``conf`` are more settings of its session."""

    def __init__(
        self, folder: Path, checkpoint: str, epoch: int, name: str, conf: Mapping[str, str] | None = None
    ) -> None:
        self.sink = folder / name
        self.hold = folder / f"{name}.hold"
        self.held = folder / f"{name}.held"
        """There as soon as its sink waits."""
        self._said = folder / f"{name}.said"
        command = [sys.executable, "-m", "tests.real.stale_driver", checkpoint, str(epoch), str(self.sink)]
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [*command, json.dumps(conf or {})],
                cwd=ROOT,
                stdout=said,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def given(self) -> list[int]:
        """Batches that its sink was given."""
        return [int(line.split()[0]) for line in self.sink.read_text().splitlines()] if self.sink.exists() else []

    def signal(self, number: int) -> None:
        """To the driver and its JVM."""
        os.killpg(self.process.pid, number)

    def end(self) -> str:
        """What it says in the end."""
        self.process.wait(PROCESS_SECONDS)
        return self._said.read_text().splitlines()[-1]


def assert_fenced(spark: SparkSession, files: CheckpointFiles, folder: str) -> None:
    """A run in this process ends behind the fence of a newer epoch, and another start of it changes no file."""
    session = spark.newSession()
    follow(session, RunName("revenue", 3, folder))
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = rows.writeStream.format("noop").option("checkpointLocation", folder)
    query = writer.trigger(processingTime="1 second").start()  # planting is faster, on each store
    until(lambda: len(files.list_names(join(folder, "commits"))) > 1 or not query.isActive)
    assert query.isActive, query.exception()
    plant(files, folder, operation="op", epoch=4, knows=lambda _: True)
    plant_epoch(files, folder, Fence(4, "op"))
    until(lambda: not query.isActive, "the query runs on")
    assert query.exception() is not None
    before = files.walk(folder)
    with pytest.raises(Exception, match="revenue with epoch 3 is over"):
        writer.start()
    assert files.walk(folder) == before


def main(checkpoint: str, epoch: str, sink: Path, conf: Mapping[str, str]) -> None:
    """Run until the query ends."""

    def take(frame: DataFrame, batch: int) -> None:
        rows = frame.collect()
        with sink.open("a") as file:
            file.write(f"{batch} {len(rows)}\n")
        while sink.with_name(f"{sink.name}.hold").exists():
            sink.with_name(f"{sink.name}.held").touch()
            time.sleep(0.02)

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),
        "spark.sql.streaming.checkpointFileManagerClass": spark_line().manager,
        "spark.master": "local[2]",
        **conf,
    }
    session = SparkSession.builder.config(map={**settings}).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    news = follow(session, RunName("revenue", int(epoch), checkpoint))
    assert news is not None
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1).load()
    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    try:
        writer.trigger(processingTime="100 milliseconds").start().awaitTermination()
        print("ended")
    except Exception as error:  # noqa: BLE001 - a program's edge: the test reads what it was
        print(f"{type(error).__name__}: {error}".replace("\n", " "))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), json.loads(sys.argv[4]))
