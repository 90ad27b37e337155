"""A runner that stands by runs each plan once on the standby: no record of it meets the user's code or sink."""

import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.model.entities import Assignment, Desired
from state.settings.keys import Tideover
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.hosting import Hosting
from streaming.spark.query import launch
from streaming.spark.query.kafka_options import overridden
from streaming.spark.query.launch import Sinks, dry_writer
from streaming.spark.query.warmup import _FEW, rehearse, run_once, warm_up
from tests.memory_store import MemoryStore
from tests.real.test_carry_spark import clusters, spark
from tests.streams import ALL, Cluster

__all__ = ["clusters", "spark"]

pytestmark = [pytest.mark.real, pytest.mark.shared]

Sources = Mapping[str, DataFrame]
Settings = Mapping[str, Any]


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
    """Requests a column that there is not."""
    return sources["orders"].select("valeu").writeStream


def deduplicated(sources: Sources, settings: Settings) -> DataStreamWriter:
    """Changed from the one that runs, as its settings say."""
    if settings.get("raises"):
        raise ValueError("no such registry")
    key = functions.col("value").cast(str(settings.get("key", "string"))).alias("key")
    frame = sources["orders"].select("timestamp", "partition", key).withWatermark("timestamp", "1 minute")
    if settings.get("deduplicates", True):
        frame = frame.dropDuplicates(["key", "timestamp"])
    if settings.get("counts", True):
        value = functions.sum(functions.col("partition").cast(str(settings.get("sum", "long")))).alias("sum")
        frame = frame.groupBy(functions.window("timestamp", "1 minute"), "key").agg(value)
    return frame.writeStream.outputMode("update").format("noop")


class Heard:
    """What the warm-up shows."""

    def __init__(self) -> None:
        self.plans: dict[str, str] = {}

    def set_warm(self) -> None:
        """It does not come to that here."""

    def set_plan(self, query: str, trouble: str) -> None:
        self.plans[query] = trouble


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

    def query(function: str, **more: Any) -> dict[str, Any]:
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
                "deduplicated": query("deduplicated", settings={}, runners=["a"]),
                "copies": query("copies", settings={}, output={"cluster": "active", "topic": "copies"}),
                "here": query("noted", checkpoint=str(tmp_path / "here")),
                "elsewhere": query("noted", checkpoint=str(tmp_path / "elsewhere"), runners=["a"]),
            },
        }
    )
    return Hosting(
        settings=settings, runner="b", instance="one", spark_master="local[2]", application_id="app", base=tmp_path,
        here=cast(Any, None), session=spark, files=LocalFiles(), store=MemoryStore(lambda: datetime.now(UTC)),
        listener=cast(Any, None),
    )  # fmt: skip


def test_a_standby_runner_plans_and_rehearses_unseen_from_outside(
    hosting: Hosting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks = Sinks(hosting)
    rehearsed: dict[str, int] = {}
    reported = Heard()
    for _ in range(2):
        assert rehearse(hosting, Standby(), sinks, reported, threading.Event(), rehearsed) == 1, (
            "the misspelt, each time"
        )
        assert rehearsed == dict.fromkeys(("noted", "partitioned", "totals", "copies"), 40)
    misspelt = reported.plans.pop("misspelt")
    assert misspelt.startswith(f"{__name__}:misspelt raised AnalysisException: ")
    assert reported.plans == dict.fromkeys(rehearsed, "")
    assert not [*tmp_path.iterdir()], "no trace of a record, of a batch, of a sink or of a checkpoint"
    monkeypatch.setattr(launch, "load_pipeline", unexpected)
    folders = [sinks.sink(row(name)).folder for name in ("noted", "partitioned", "totals")]
    assert folders == [None, f"{tmp_path}/out", None]
    with pytest.raises(AssertionError, match="no look at the sink"):
        sinks.sink(row("here"))


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({}, ""),
        ({"raises": True}, "raised ValueError: no such registry"),
        ({"deduplicates": False}, "the pipeline keeps state in stateStoreSave, and the checkpoint has state of"),
        (
            {"counts": False},
            "the pipeline keeps state in dedupe, and the checkpoint has state of stateStoreSave, dedupe",
        ),
        (
            {"key": "binary"},
            "the key of the state of stateStoreSave is ((timestamp, timestamp), binary) in the pipeline",
        ),
        ({"sum": "double"}, "the value of the state of stateStoreSave is (double) in the pipeline, and (long) in the"),
    ],
)
def test_a_pipeline_that_does_not_fit_its_checkpoint_is_known_in_advance(
    hosting: Hosting, tmp_path: Path, change: dict[str, Any], trouble: str
) -> None:
    one, reported = only(hosting, "deduplicated"), Heard()
    in_use = (tmp_path / "deduplicated").as_uri()
    run_once(
        dry_writer(one, "deduplicated", "west", lambda own: overridden(own, _FEW), {})[0], in_use, threading.Event()
    )
    rehearse(only(hosting, "deduplicated", **change), Standby(), Sinks(one), reported, threading.Event(), {})
    assert trouble in reported.plans["deduplicated"]
    assert bool(reported.plans["deduplicated"]) is bool(change)


def only(hosting: Hosting, query: str, **settings: Any) -> Hosting:
    """The same process with one query, of these settings."""
    plain = hosting.settings.model_dump(by_alias=True)
    plain["queries"] = {query: plain["queries"][query] | {"settings": settings}}
    plain["queries"][query]["runners"] = ["b"]
    return replace(hosting, settings=Tideover.model_validate(plain))


def row(query: str) -> Assignment:
    return Assignment(
        query=query, epoch=3, placed_epoch=2, desired=Desired.RUNNING, cluster="east", runner="a", checkpoint="old",
        starting_offsets=None, operation=None, changed_at=datetime.now(UTC),
    )  # fmt: skip


def unexpected(name: str) -> object:
    raise AssertionError(f"no look at the sink: {name}")


def test_of_a_wide_topic_a_few_partitions_are_read(hosting: Hosting, clusters: tuple[Cluster, Cluster]) -> None:
    """Each is a task, and Spark takes a record of each however few it may take in all."""
    topic, west = f"wide-{uuid.uuid4().hex[:8]}", clusters[1]
    west.make(topic, foreign=False, partitions=80)
    for partition in range(80):
        west.append(topic, partition, range(4))
    plain = hosting.settings.model_dump(by_alias=True)
    plain["queries"] = {"noted": plain["queries"]["noted"] | {"sources": {"orders": {"topics": [topic]}}}}
    wide = replace(hosting, settings=Tideover.model_validate(plain))
    assert warm_up(wide, threading.Event()) == (32, 32)
    rehearsed: dict[str, int] = {}
    assert rehearse(wide, Standby(), Sinks(wide), Heard(), threading.Event(), rehearsed) == 0
    assert rehearsed == {"noted": 32}


def test_the_throw_away_query_reads_in_both_of_its_runs(hosting: Hosting) -> None:
    assert warm_up(hosting, threading.Event()) == (40, 40)
    over = threading.Event()
    over.set()
    assert warm_up(hosting, over) is None
