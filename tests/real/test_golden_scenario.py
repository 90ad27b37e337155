"""Spark's golden checkpoints continue after they were carried: as the originals do, and as Spark's suites say.

A checkpoint that Spark itself refuses is refused with the same words before and after it was carried.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyspark
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from streaming.jars import jar_paths
from streaming.spark.checkpoint.batch_news import MANAGER
from streaming.spark.checkpoint.hadoop_files import local_disk_conf
from streaming.spark.jvm import detach, launch_jvm, launched_view
from streaming.spark.spark_build import older_manager
from tests.jars import connector_jars
from tests.real import test_golden
from tests.real.golden import carry, class_file
from tests.real.golden_scenarios import (
    COUNTS,
    LATEST,
    LEFT_OUT,
    PROCESSOR,
    REFUSED_BY_SPARK,
    SCENARIOS,
    Rows,
    Scenario,
    Step,
    step,
)
from tests.real.memory import JAR, Memory, compile_jar

pytestmark = [pytest.mark.real, pytest.mark.jars("golden")]

Opener = Callable[[Scenario], SparkSession]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    """Sessions of one application, each with a scenario's settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    launch = {"spark.jars": connector_jars(), "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    launch_jvm(launch)  # what a JVM is launched with is known to every later session of the process: no more than this
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.codegen.wholeStage": "false",  # for a handful of rows it takes longer than it saves
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "5",
        "spark.sql.streaming.noDataMicroBatches.enabled": "true",
        **local_disk_conf(jar_paths(f"spark-{pyspark.__version__}")),
        MANAGER: older_manager(launched_view()),
    }
    known = SparkSession.builder.master("local[2]").config(map={**settings}).getOrCreate()
    known.sparkContext.setLogLevel("OFF")
    jar = tmp_path_factory.mktemp("functions") / "functions.jar"
    compile_jar(known, jar, [COUNTS, LATEST], {PROCESSOR: class_file(PROCESSOR)})

    def opened(scenario: Scenario) -> SparkSession:
        session = known.newSession()
        for key, value in {JAR: str(jar), **scenario.conf}.items():
            session.conf.set(key, value)
        return session

    yield opened
    known.stop()


class Run:
    """A query that continues from a checkpoint."""

    def __init__(self, session: SparkSession, scenario: Scenario, checkpoint: Path) -> None:
        self._session, self._scenario, self._checkpoint = session, scenario, checkpoint
        self._memories = [Memory(session, scenario.columns) for _ in range(scenario.sources)]
        self._rows: list[tuple[Any, ...]] = []
        self._query: StreamingQuery | None = None
        for rows in scenario.read:
            self.add(rows if isinstance(rows, Mapping) else {0: rows})
        if not scenario.once:
            self._start()

    def add(self, rows: Mapping[int, Rows]) -> None:
        for number, some in rows.items():
            self._memories[number].add(some)

    def answer(self, after: Step) -> tuple[list[tuple[Any, ...]], int | None]:
        """The rows that came since the last answer, in order, and the watermark where the step requests it."""
        query = self._query or self._start()
        if self._scenario.once:
            query.awaitTermination()
        else:
            query.processAllAvailable()
        rows, self._rows = sorted(self._rows), []
        progress = query.lastProgress
        if after.watermark is None or progress is None:
            return rows, None
        return rows, int(datetime.fromisoformat(progress.eventTime["watermark"]).astimezone(UTC).timestamp())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._query is not None:
            self._query.stop()
        detach(self._session)

    def _start(self) -> StreamingQuery:
        frame = self._scenario.query(*(memory.frame() for memory in self._memories))
        writer = frame.writeStream.outputMode(self._scenario.mode).foreachBatch(self._take)
        if self._scenario.once:
            writer = writer.trigger(once=True)
        self._query = writer.option("checkpointLocation", str(self._checkpoint)).start()
        return self._query

    def _take(self, batch: DataFrame, _: int) -> None:
        self._rows += [tuple(row) for row in batch.collect()]


def copies(golden: Path, name: str, folder: Path) -> tuple[Path, Path]:
    """A folder of the jar without its checksums, of which some are of other files, and what the carry makes of it."""
    shutil.copytree(golden / name, folder / "original", ignore=shutil.ignore_patterns(".*.crc"))
    carry(str(folder / "original"), str(folder / "carried"))
    return folder / "original", folder / "carried"


def in_columns(rows: Rows) -> list[tuple[Any, ...]]:
    return [row if isinstance(row, tuple) else (row,) for row in rows]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_carried_checkpoint_continues_as_the_original_does(
    sessions: Opener, golden: Path, tmp_path: Path, name: str
) -> None:
    scenario = SCENARIOS[name]
    with ExitStack() as stack:
        runs = [stack.enter_context(Run(sessions(scenario), scenario, at)) for at in copies(golden, name, tmp_path)]
        for number, after in enumerate(scenario.steps):
            for run in runs:
                run.add(after.rows)
            original, carried = (run.answer(after) for run in runs)
            assert original == (in_columns(after.answer), after.watermark), f"the original, step {number}"
            assert carried == original, f"carried, step {number}"


def refusal(session: SparkSession, scenario: Scenario, checkpoint: Path) -> str:
    """What Spark says when the scenario continues; nothing where it does."""
    try:
        with Run(session, scenario, checkpoint) as run:
            for after in scenario.steps:
                run.add(after.rows)
                run.answer(after)
    except StreamingQueryException as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", REFUSED_BY_SPARK)
def test_spark_refuses_the_same_changes_before_and_after_a_carry(
    sessions: Opener, golden: Path, tmp_path: Path, name: str
) -> None:
    scenario, sentence = REFUSED_BY_SPARK[name]
    for folder in copies(golden, name, tmp_path):
        assert sentence in refusal(sessions(scenario), scenario, folder), folder.name


def test_spark_too_refuses_a_log_that_misses_a_batch(sessions: Opener, golden: Path, tmp_path: Path) -> None:
    shutil.copytree(golden / "checkpoint-test-offsetId-commitId-inconsistent", tmp_path / "original")
    scenario = Scenario(query=lambda frame: frame, read=[range(1, 7)], steps=[step([7])])
    assert "Previous batch 3 not found in offset log" in refusal(sessions(scenario), scenario, tmp_path / "original")


def test_every_golden_checkpoint_is_in_one_of_the_tables() -> None:
    tables: list[Iterable[str]] = [SCENARIOS.keys(), REFUSED_BY_SPARK.keys(), LEFT_OUT.keys()]
    known: list[Iterable[str]] = [
        test_golden.CARRIED,
        test_golden.UNTIL_4_0,
        test_golden.SINCE_4_0,
        test_golden.SINCE_4_2,
        test_golden.REFUSED,
    ]
    assert sorted(name for table in tables for name in table) == sorted(name for table in known for name in table)
