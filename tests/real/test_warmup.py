"""A runner that stands by runs each plan once on the standby: no record of it meets the user's code or sink."""

import threading
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.model import Assignment, Desired
from state.settings import Tideover
from streaming.spark import launch
from streaming.spark.hosting import Hosting
from streaming.spark.launch import FileSinks
from streaming.spark.warmup import rehearse, warm_up
from tests.real.test_carry_spark import clusters, spark
from tests.streams import ALL, Cluster

__all__ = ["clusters", "spark"]

pytestmark = pytest.mark.real

Sources = Mapping[str, DataFrame]
Settings = Mapping[str, object]


def noted(sources: Sources, settings: Settings) -> DataStreamWriter:
    """Stateful, with code of the user's that leaves a trace of every record, and a sink that leaves one of a batch."""
    folder = str(settings["traces"])

    def note(value: str) -> str:
        Path(folder, f"record-{uuid.uuid4()}").touch()
        return value

    def keep(_frame: DataFrame, _batch: int) -> None:
        Path(folder, f"batch-{uuid.uuid4()}").touch()

    text = functions.udf(note, "string", useArrow=False)(functions.col("value").cast("string")).alias("text")
    once = sources["orders"].select("timestamp", text).withWatermark("timestamp", "1 minute").dropDuplicates(["text"])
    return once.writeStream.outputMode("append").foreachBatch(keep)


def partitioned(sources: Sources, settings: Settings) -> DataStreamWriter:
    """Files in folders by partition, which no other sink takes for granted."""
    frame = sources["orders"].selectExpr("partition", "cast(value as string) as text")
    return frame.writeStream.partitionBy("partition").format("parquet").option("path", str(settings["traces"]) + "/out")


def totals(sources: Sources) -> DataStreamWriter:
    """The whole result again with each batch."""
    return sources["orders"].groupBy("partition").count().writeStream.outputMode("complete").format("memory")


def copies(sources: Sources) -> DataStreamWriter:
    """For an output that the configuration names."""
    return sources["orders"].select("key", "value").writeStream


def misspelt(sources: Sources) -> DataStreamWriter:
    """Asks for a column that there is not."""
    return sources["orders"].select("valeu").writeStream


class Standby:
    """Nothing is about to start here, and one query runs here already."""

    def has_settled(self) -> bool:
        return True

    def hosts(self, query: str) -> bool:
        return query == "here"


@pytest.fixture
def hosting(spark: SparkSession, clusters: tuple[Cluster, Cluster], tmp_path: Path) -> Hosting:
    east, west = clusters
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    west.make(topic, foreign=False)
    west.extend(topic, ALL)

    def query(function: str, **more: object) -> dict[str, object]:
        return {
            "pipeline": f"{__name__}:{function}", "sources": {"orders": {"topics": [topic]}}, "runners": ["a", "b"],
            "clusters": ["east", "west"], "checkpoint": str(tmp_path / function), "trigger": "1s",
            "settings": {"traces": str(tmp_path)}, **more,
        }  # fmt: skip

    settings = Tideover.model_validate(
        {
            "store": "sqlite:///:memory:",
            "clusters": {"east": {"bootstrap": [east.bootstrap]}, "west": {"bootstrap": [west.bootstrap]}},
            "routes": [{"from": "east", "to": "west"}],
            "runners": {"a": {}, "b": {}},
            "queries": {
                **{each: query(each) for each in ("noted", "partitioned", "misspelt")},
                "totals": query("totals", settings={}),
                "copies": query("copies", settings={}, output={"cluster": "active", "topic": "copies"}),
                "here": query("noted", checkpoint=str(tmp_path / "here")),
                "elsewhere": query("noted", checkpoint=str(tmp_path / "elsewhere"), runners=["a"]),
            },
        }
    )
    return Hosting(
        settings=settings, runner="b", instance="one", spark_master="local[2]", application_id="app", base=tmp_path,
        here=cast(Any, None), session=spark, files=cast(Any, None), store=cast(Any, None),
        watch=cast(Any, None),
    )  # fmt: skip


def test_what_a_runner_stands_by_for_is_planned_and_run_and_nothing_of_it_is_seen_outside(
    hosting: Hosting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = FileSinks(hosting)
    rehearsed: dict[str, int] = {}
    for _ in range(2):
        assert rehearse(hosting, Standby(), sinks, threading.Event(), rehearsed) == 1, "the misspelt one, each time"
        assert rehearsed == dict.fromkeys(("noted", "partitioned", "totals", "copies"), 40)
    assert not [*tmp_path.iterdir()], "no trace of a record, of a batch, of a sink or of a checkpoint"
    monkeypatch.setattr(launch, "load_pipeline", unasked)
    assert [sinks.folder(row(name)) for name in ("noted", "partitioned", "totals")] == [None, f"{tmp_path}/out", None]
    with pytest.raises(AssertionError, match="asked"):
        sinks.folder(row("here"))


def row(query: str) -> Assignment:
    return Assignment(
        query=query, epoch=3, placed_epoch=2, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="old",
        starting_offsets=None, operation=None, changed_at=datetime.now(UTC),
    )  # fmt: skip


def unasked(name: str) -> object:
    raise AssertionError(f"{name} was asked")


def test_the_throw_away_query_reads_in_both_of_its_runs(hosting: Hosting) -> None:
    assert warm_up(hosting, threading.Event()) == (40, 40)
    over = threading.Event()
    over.set()
    assert warm_up(hosting, over) is None
