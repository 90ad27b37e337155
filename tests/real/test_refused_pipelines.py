"""Pipelines that would start and could not be moved are refused: real Spark, and no broker gets a request."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyspark
import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.model.entities import Assignment, Desired
from state.settings.keys import Tideover
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.errors import PipelineMisfit
from streaming.spark.hosting import Hosting
from streaming.spark.query.callbacks import CallbackGate
from streaming.spark.query.launch import dry_writer, prepare_writer
from tests.contract.test_readme import block
from tests.jars import connector_jars

pytestmark = [pytest.mark.real, pytest.mark.matrix]

Sources = Mapping[str, DataFrame]
SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def one_of_two(sources: Sources) -> DataStreamWriter:
    return sources["orders"].writeStream.format("noop")


def both(sources: Sources) -> DataStreamWriter:
    return sources["orders"].union(sources["refunds"]).writeStream.format("noop")


def itself(sources: Sources) -> DataStreamWriter:
    """A self-union and a self-join: each source is read, however often."""
    orders = sources["orders"].union(sources["orders"]).withWatermark("timestamp", "1 hour")
    other = sources["refunds"].select(functions.col("value").alias("refunded"), functions.col("timestamp").alias("at"))
    return orders.join(other, functions.expr("value = refunded and at >= timestamp")).writeStream.format("noop")


def asynchronous(sources: Sources) -> DataStreamWriter:
    return both(sources).option("asyncprogresstrackingenabled", "true")


def synchronous(sources: Sources) -> DataStreamWriter:
    return both(sources).option("asyncProgressTrackingEnabled", "false")


def continuous(sources: Sources) -> DataStreamWriter:
    return both(sources).trigger(continuous="1 second")


def real_time(sources: Sources) -> DataStreamWriter:
    return both(sources).trigger(realTime="5 minutes")  # type: ignore[call-overload,no-any-return] # Spark 4.1 and later only, and its stubs do not know it


def values(sources: Sources) -> DataStreamWriter:
    """For an output that the configuration names."""
    return sources["orders"].union(sources["refunds"]).select("value").writeStream


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.jars": connector_jars(),
    }
    known = SparkSession.builder.master("local[1]").config(map={**settings}).getOrCreate()
    yield known
    known.stop()


def hosting(session: SparkSession, function: str, **more: Any) -> Hosting:
    query = {
        "pipeline": f"{__name__}:{function}",
        "sources": {"orders": {"topics": ["orders"]}, "refunds": {"pattern": "refunds.*"}},
        "clusters": ["east", "west"], "runners": ["a"], "checkpoint": "c", **more,
    }  # fmt: skip
    settings = Tideover.model_validate(
        {
            "store": "sqlite:///:memory:",
            "clusters": {"east": {"bootstrap": ["127.0.0.1:1"]}, "west": {"bootstrap": ["127.0.0.1:2"]}},
            "runners": {"a": {}},
            "queries": {"q": query},
        }
    )
    return Hosting(
        settings=settings, runner="a", instance="one", spark_master="local[1]", application_id="app", base=Path("/"),
        here=cast(Any, None), session=session, files=LocalFiles(), store=cast(Any, None),
        listener=cast(Any, None),
    )  # fmt: skip


def prepared(known: Hosting) -> None:
    """Built for its start on the active cluster, and for the warm-up on its standby."""
    row = Assignment(
        query="q", epoch=1, placed_epoch=1, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="/c",
        starting_offsets=None, operation=None, changed_at=datetime(2026, 3, 1, tzinfo=UTC),
    )  # fmt: skip
    prepare_writer(known, row, CallbackGate())
    dry_writer(known, "q", "west", dict, {})


@pytest.mark.parametrize("function", ["both", "itself", "synchronous"])
def test_a_query_that_reads_all_of_its_sources_may_start(session: SparkSession, function: str) -> None:
    prepared(hosting(session, function))


def test_the_readmes_first_query_may_start(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (declared,) = yaml.safe_load(block("yaml"))["queries"].values()
    (tmp_path / "pipelines.py").write_text(block("python"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    prepared(hosting(session, "", **declared))


def test_a_declared_source_that_the_pipeline_does_not_read_is_refused(session: SparkSession) -> None:
    with pytest.raises(PipelineMisfit, match=r"one_of_two does not read source refunds$") as caught:
        prepared(hosting(session, "one_of_two"))
    assert caught.value.hint == "read it in the pipeline, or remove it from the query's sources"


def test_asynchronous_progress_tracking_is_refused_by_name(session: SparkSession) -> None:
    with pytest.raises(PipelineMisfit, match="asynchronous cannot be moved with asyncProgressTrackingEnabled"):
        prepared(hosting(session, "asynchronous"))


def test_asynchronous_progress_tracking_of_an_output_is_refused(session: SparkSession) -> None:
    output = {"topic": "out", "options": {"asyncProgressTrackingEnabled": True}}
    with pytest.raises(PipelineMisfit, match="values cannot be moved with asyncProgressTrackingEnabled"):
        prepared(hosting(session, "values", output=output))
    prepared(hosting(session, "values", output={"topic": "out"}))


@pytest.mark.parametrize("function", ["continuous", pytest.param("real_time", marks=pytest.mark.skipif(
    SPARK < (4, 1), reason="real-time mode came with Spark 4.1"))])  # fmt: skip
def test_a_mode_that_is_not_micro_batches_is_refused(session: SparkSession, function: str) -> None:
    with pytest.raises(PipelineMisfit, match=f"{function} sets a trigger"):
        prepared(hosting(session, function))
