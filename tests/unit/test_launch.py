"""What a writer's sink can know of a batch, by its format."""

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.settings.keys import Query
from streaming.spark.query import launch
from streaming.spark.query.launch import UNKNOWN_SINK, FileSink, changes_in_its_run, file_sink
from streaming.spark.runner.hosting import Hosting


@pytest.mark.parametrize(
    ("sink", "is_kafka_output", "found"),
    [
        ("parquet", False, FileSink("/out", by_query_id=False)),
        ("foreachBatch", False, FileSink(None, by_query_id=False)),
        ("foreach", False, FileSink(None, by_query_id=False)),
        ("delta", False, FileSink(None, by_query_id=True)),
        ("iceberg", False, FileSink(None, by_query_id=True)),
        ("nobody.knows.this", False, FileSink(None, by_query_id=True)),
        ("parquet", True, FileSink(None, by_query_id=True)),
        (None, False, UNKNOWN_SINK),
    ],
)
def test_only_own_code_and_the_file_sink_go_by_the_batch_id(
    monkeypatch: pytest.MonkeyPatch, sink: str | None, is_kafka_output: bool, found: FileSink
) -> None:
    monkeypatch.setattr(launch, "sink_of", lambda _: (sink, "/out"))
    query = cast(Query, SimpleNamespace(output="kafka" if is_kafka_output else None))
    assert file_sink(query, cast(DataStreamWriter, None)) == found


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"resume": "switch"}, True),
        ({"sources": {"orders": {"pattern": "orders-.*"}}}, True),
        ({"resume": "carry"}, False),
        ({"resume": "fresh"}, False),
        ({"settings_by_cluster": {"west": {"table": "w"}}}, False),
        ({"settings_by_cluster": {"north": {"table": "n"}}}, True),
        ({"settings": {"table": "w"}, "settings_by_cluster": {"west": {"table": "w"}}}, True),
        ({"output": {"topic": "out", "cluster": "active"}}, False),
        ({"output": {"topic": "out", "cluster": "north"}}, True),
    ],
)
def test_a_run_leaves_its_cluster_by_switch_where_nothing_else_changes(changes: dict[str, object], same: bool) -> None:
    known = {"pipeline": "m:f", "sources": {"orders": {"topics": ["orders"]}}, "clusters": ["east", "west"]}
    query = Query.model_validate({**known, "runners": ["a"], "checkpoint": "c", **changes})
    hosting = SimpleNamespace(query=lambda _: query, resume=lambda _: query.resume_with(companion=True))
    assert changes_in_its_run(cast(Hosting, hosting), "q", "east", "west") is same
