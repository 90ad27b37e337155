"""What a query writes through, and whether its table has a batch."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.messages import CheckpointReport, Planned, SinkMemory, SinkState
from state.settings.keys import Query
from streaming.spark.checkpoint.files import LocalFiles
from streaming.spark.query import sink_memory
from streaming.spark.query.sink_memory import (
    UNKNOWN_SINK,
    TableCommits,
    Tables,
    WrittenTo,
    read_commits,
    state_of,
    written_to,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLANNED = NOW - timedelta(minutes=5)


def forgetting(after: timedelta) -> TableCommits:
    """A table that has the batch, and forgets it."""
    return TableCommits(newest=8, reach_back_to=None, forgets_at=NOW + after)


def holding_none(since: datetime | None) -> TableCommits:
    """A table whose commits hold no batch of the query."""
    return TableCommits(newest=None, reach_back_to=since)


QUERY_ID = "6f0ad6d6-5b1d-4a35-a0a5-0d4b5c1f0c11"


@pytest.mark.parametrize(
    ("named", "is_kafka_output", "short", "memory"),
    [
        ("parquet", False, "parquet", SinkMemory.BATCH),
        ("Delta", False, "delta", SinkMemory.QUERY_AND_BATCH),
        ("iceberg", False, "iceberg", SinkMemory.QUERY_AND_BATCH),
        ("hudi", False, "hudi", SinkMemory.BATCH),
        ("org.apache.hudi.Spark35Adapter", False, "hudi", SinkMemory.BATCH),
        ("paimon", False, "paimon", SinkMemory.CHECKPOINT_AND_BATCH),
        ("kafka", False, "kafka", SinkMemory.NOTHING),
        ("foreachBatch", False, "foreachbatch", SinkMemory.OWN_CODE),
        ("nobody.knows.this", False, "nobody.knows.this", SinkMemory.UNKNOWN),
        ("parquet", True, "kafka", SinkMemory.NOTHING),
        (None, False, None, SinkMemory.UNKNOWN),
    ],
)
def test_a_sink_is_known_by_its_format_or_it_is_unknown(
    monkeypatch: pytest.MonkeyPatch, named: str | None, is_kafka_output: bool, short: str | None, memory: SinkMemory
) -> None:
    monkeypatch.setattr(sink_memory, "sink_of", lambda _: (named, "/out"))
    query = cast(Query, SimpleNamespace(output="kafka" if is_kafka_output else None))
    found = written_to(query, cast(DataStreamWriter, None))
    assert (found.format, found.memory) == (short, memory)
    assert found.folder == ("/out" if short == "parquet" else None)


@pytest.mark.parametrize(
    ("why", "commits", "state"),
    [
        ("it has the batch", TableCommits(newest=8, reach_back_to=NOW), SinkState.HAS),
        ("it has a later one", TableCommits(newest=9, reach_back_to=None), SinkState.HAS),
        ("it has it, and has forgotten its id", forgetting(timedelta()), SinkState.FORGOT),
        ("it forgets it within the hour", forgetting(timedelta(minutes=59)),
         SinkState.FORGOT),
        ("it forgets it in a day", forgetting(timedelta(days=1)), SinkState.HAS),
        ("its newest is the batch before", TableCommits(newest=7, reach_back_to=NOW), SinkState.HAS_NOT),
        ("the query never wrote there", holding_none(None), SinkState.HAS_NOT),
        ("none since before the batch was planned", holding_none(PLANNED), SinkState.HAS_NOT),
        ("what is kept is younger than the batch", holding_none(NOW), SinkState.FORGOT),
    ],
)  # fmt: skip
def test_a_table_has_a_batch_lacks_it_or_has_forgotten_it(why: str, commits: TableCommits, state: SinkState) -> None:
    assert state_of(commits, 8, planned_at=PLANNED, now=NOW) is state, why


class Properties:
    """A session that knows one table's properties and reads intervals of days."""

    def __init__(self, kept: str | None = None) -> None:
        self.kept = kept

    def sql(self, text: str) -> Any:
        if text.startswith("SHOW"):
            rows = (
                []
                if self.kept is None
                else [SimpleNamespace(key="delta.setTransactionRetentionDuration", value=self.kept)]
            )
        else:
            assert text == "SELECT INTERVAL 7 days AS kept"
            rows = [SimpleNamespace(kept=timedelta(days=7))]
        return SimpleNamespace(collect=lambda: rows)


def milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def commit(table: Path, version: int, *, at: datetime = PLANNED, query: str | None = QUERY_ID, batch: int = 0) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    actions: list[dict[str, Any]] = [{"commitInfo": {"timestamp": milliseconds(at)}}]
    if query is not None:
        actions.append({"txn": {"appId": query, "version": batch, "lastUpdated": milliseconds(at)}})
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def delta(table: Path, session: Any = None) -> TableCommits | None:
    sink = WrittenTo("delta", str(table), SinkMemory.QUERY_AND_BATCH)
    return read_commits(cast(SparkSession, session or Properties()), LocalFiles(), sink, QUERY_ID)


def test_deltas_log_names_the_newest_batch_of_the_query(tmp_path: Path) -> None:
    for version in range(4):
        commit(tmp_path, version, batch=version + 5)
    commit(tmp_path, 4, query="another")
    commit(tmp_path, 5, query=None)
    assert delta(tmp_path) == TableCommits(newest=8, reach_back_to=PLANNED)


def test_a_transaction_of_delta_is_kept_as_long_as_the_table_says(tmp_path: Path) -> None:
    commit(tmp_path, 0, batch=8)
    kept = delta(tmp_path, Properties("interval 7 days"))
    assert kept is not None
    assert kept.forgets_at == PLANNED + timedelta(days=7)
    unread = delta(tmp_path, Properties("interval 1; DROP TABLE x"))
    assert unread is not None
    assert state_of(unread, 8, planned_at=PLANNED, now=NOW) is SinkState.FORGOT


def test_a_cut_log_of_delta_reaches_back_to_its_oldest_commit(tmp_path: Path) -> None:
    commit(tmp_path, 7, query="another", at=NOW)
    commit(tmp_path, 8, query="another", at=NOW)
    assert delta(tmp_path) == holding_none(NOW)
    commit(tmp_path, 0, query=None)
    for version in range(1, 7):
        commit(tmp_path, version, query=None)
    assert delta(tmp_path) == holding_none(None)


def test_a_table_whose_commits_are_staged_elsewhere_is_not_read(tmp_path: Path) -> None:
    commit(tmp_path, 0, batch=8)
    (tmp_path / "_delta_log" / "_staged_commits").mkdir()
    (tmp_path / "_delta_log" / "_staged_commits" / "1.json").touch()
    assert delta(tmp_path) is None


def report(checkpoint: Path, *, held: bool = False, sink: SinkState = SinkState.UNKNOWN) -> CheckpointReport:
    checkpoint.mkdir(exist_ok=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": QUERY_ID}))
    planned = Planned(batch=8, offsets={}, sink=sink, planned_at_ms=milliseconds(PLANNED), held=held)
    return CheckpointReport(checkpoint=str(checkpoint), batch=7, offsets={}, planned=planned)


def planned_sink(found: CheckpointReport) -> SinkState | None:
    return None if found.planned is None else found.planned.sink


def test_the_table_is_read_where_a_batch_is_in_flight(tmp_path: Path) -> None:
    table, sink = tmp_path / "table", WrittenTo("delta", str(tmp_path / "table"), SinkMemory.QUERY_AND_BATCH)
    commit(table, 0, batch=8)
    tables = Tables(cast(SparkSession, Properties()), LocalFiles(), lambda: NOW)
    found = tables.with_sink(report(tmp_path / "c"), sink)
    assert (found.sink_format, found.sink_memory) == ("delta", SinkMemory.QUERY_AND_BATCH)
    assert planned_sink(found) is SinkState.HAS
    known = tables.with_sink(report(tmp_path / "c", sink=SinkState.HAS_NOT), sink)
    assert planned_sink(known) is SinkState.HAS_NOT
    held = tables.with_sink(report(tmp_path / "c", held=True), sink)
    assert planned_sink(held) is SinkState.UNKNOWN


def test_a_table_that_cannot_be_read_leaves_its_sink_unknown(tmp_path: Path) -> None:
    table, sink = tmp_path / "table", WrittenTo("delta", str(tmp_path / "table"), SinkMemory.QUERY_AND_BATCH)
    commit(table, 0, batch=8)
    (table / "_delta_log" / f"{0:020}.json").write_text("{")
    tables = Tables(cast(SparkSession, Properties()), LocalFiles(), lambda: NOW)
    found = tables.with_sink(report(tmp_path / "c"), sink)
    assert planned_sink(found) is SinkState.UNKNOWN
    assert tables.watch(str(tmp_path / "c"), UNKNOWN_SINK).took(8) is None


def test_a_sink_that_has_later_batches_takes_nothing_of_a_run(tmp_path: Path) -> None:
    """Batch ids that begin at 0 again: the sink drops each batch as one that it has, and no error says so."""
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "11").touch()
    tables = Tables(cast(SparkSession, Properties()), LocalFiles(), lambda: NOW)
    sink = WrittenTo("parquet", str(tmp_path / "out"), SinkMemory.BATCH)
    watch = tables.watch(str(tmp_path / "c"), sink)
    assert watch.took(0) is False
    assert watch.took(12) is False, "nothing is there yet"
    assert watch.took(11) is True, "the batch in flight was there already"
    (log / "12").touch()
    assert watch.took(12) is True


def test_a_table_that_lacks_a_committed_batch_took_nothing(tmp_path: Path) -> None:
    report(tmp_path / "c")
    commit(tmp_path / "table", 0, batch=8, query="another")
    tables = Tables(cast(SparkSession, Properties()), LocalFiles(), lambda: NOW)
    watch = tables.watch(str(tmp_path / "c"), WrittenTo("delta", str(tmp_path / "table"), SinkMemory.QUERY_AND_BATCH))
    assert watch.took(8) is False
    commit(tmp_path / "table", 1, batch=8)
    assert watch.took(8) is True
