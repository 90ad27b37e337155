"""What a query writes through, and whether that sink has a batch which Spark planned and did not commit.

A sink is known by its format, or it is unknown: nothing is assumed of a connector that is not in the table below. What
a format *can* recognise says little of one table, which forgets: Delta's transaction identifiers expire
(``delta.setTransactionRetentionDuration``), Iceberg's snapshots do (``expire_snapshots``). So the table itself is read
before its sink counts as one that has a batch, or lacks it.

Spark's ``FileStreamSink`` goes by the batch id alone. Delta's ``DeltaSink`` and Iceberg's ``SparkWrite`` go by query id
and batch id. Hudi's goes by batch id and a checkpoint identifier that is the same for every query that sets none
(hudi#6098, #9510). ``tests/real/test_tables.py`` shows each. Paimon's goes by the path of the checkpoint and the batch
id, by a report of its users (paimon#9667). The tables of these two are not read.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.messages import CheckpointReport, SinkMemory, SinkState
from state.settings.keys import Query
from streaming.spark.checkpoint.files import CheckpointFiles, join
from streaming.spark.checkpoint.log_text import parse_query_id
from streaming.spark.checkpoint.read import newest_in_files
from streaming.spark.errors import FileVanished
from streaming.spark.jvm import cause_of
from streaming.spark.query.pipeline import sink_of

log = structlog.get_logger()

FILE_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro"})
MEMORIES: Mapping[str, SinkMemory] = {
    **dict.fromkeys(FILE_FORMATS, SinkMemory.BATCH),
    "delta": SinkMemory.QUERY_AND_BATCH,
    "iceberg": SinkMemory.QUERY_AND_BATCH,
    "hudi": SinkMemory.BATCH,
    "paimon": SinkMemory.CHECKPOINT_AND_BATCH,
    **dict.fromkeys(("kafka", "memory", "console", "noop"), SinkMemory.NOTHING),
    **dict.fromkeys(("foreachbatch", "foreach"), SinkMemory.OWN_CODE),
}
"""By a format's short name, in small letters."""

_CLASSES = {
    "org.apache.hudi": "hudi",
    "org.apache.iceberg.spark.source": "iceberg",
    "org.apache.spark.sql.delta": "delta",
}
"""By the package of the class that a pipeline may name instead of the short name."""

_COMMITS = 200
"""Newest commits of a table that are read; the batch in flight is among the last few."""


@dataclass(frozen=True, slots=True)
class WrittenTo:
    """What a query writes through."""

    format: str | None
    """The short name in small letters; None where the writer names none, or could not be built."""
    path: str | None = None
    """The writer's ``path``: a folder, or for Iceberg a table's name."""
    memory: SinkMemory = SinkMemory.UNKNOWN

    @property
    def folder(self) -> str | None:
        """The output folder of Spark's file sink; None for any other sink."""
        return self.path if self.format in FILE_FORMATS else None


UNKNOWN_SINK = WrittenTo(None)
KAFKA_SINK = WrittenTo("kafka", None, SinkMemory.NOTHING)


def written_to(query: Query, writer: DataStreamWriter) -> WrittenTo:
    """What a built writer writes through; a declared Kafka output counts before the writer."""
    if query.output is not None:
        return KAFKA_SINK
    named, path = sink_of(writer)
    name = _short(named)
    return WrittenTo(name, path, SinkMemory.UNKNOWN if name is None else MEMORIES.get(name, SinkMemory.UNKNOWN))


def _short(named: str | None) -> str | None:
    if named is None:
        return None
    return next((name for package, name in _CLASSES.items() if named.startswith(f"{package}.")), named.lower())


@dataclass(frozen=True, kw_only=True, slots=True)
class TableCommits:
    """The newest commits of a table, as far as they show one query."""

    newest: int | None
    """The newest batch id of the query among them; None where they hold none."""
    reach_back_to: datetime | None
    """When the oldest of them was made; None where they begin with the table itself."""
    forgets_at: datetime | None = None
    """When the table forgets ``newest``; None: never."""


def state_of(commits: TableCommits, batch: int, *, planned_at: datetime, now: datetime) -> SinkState:
    """Whether a table has a batch that was planned at ``planned_at``; ``FORGOT`` where it would write it again."""
    if commits.newest is not None and commits.newest >= batch:
        forgotten = commits.forgets_at is not None and commits.forgets_at <= now + FORGET_MARGIN
        return SinkState.FORGOT if forgotten else SinkState.HAS
    reaches = commits.reach_back_to is None or commits.reach_back_to <= planned_at or commits.newest is not None
    return SinkState.HAS_NOT if reaches else SinkState.FORGOT


FORGET_MARGIN = timedelta(hours=1)
"""A batch that a table forgets within this time may come again after it has: a move waits for people at times."""


@dataclass(frozen=True, slots=True)
class SinkWatch:
    """Whether a sink takes what a run writes, or drops it as batches that it has."""

    commits: Callable[[], TableCommits | None]
    before: int | None = None
    """The newest batch of a sink that goes by the batch id alone, before the run began; None: none, or not known."""

    def took(self, batch: int) -> bool | None:
        """Whether the sink holds a batch that the run has committed, from that run; None where that is unknown."""
        commits = self.commits()
        if commits is None:
            return None
        held = commits.newest is not None and commits.newest >= batch
        return held and (self.before is None or self.before <= batch)


class Tables:
    """Reads the tables that queries write to. A table that cannot be read leaves its sink unknown, and a line in the
    log."""

    def __init__(self, session: SparkSession, files: CheckpointFiles, now: Callable[[], datetime]) -> None:
        self._session = session
        self._files = files
        self._now = now

    def with_sink(self, report: CheckpointReport, sink: WrittenTo) -> CheckpointReport:
        """The report with what is known of its sink. The table is read only where a batch is in flight."""
        report = report.model_copy(update={"sink_format": sink.format, "sink_memory": sink.memory})
        planned = report.planned
        if planned is None or planned.held or planned.planned_at_ms is None or planned.sink is not SinkState.UNKNOWN:
            return report
        commits = self.commits(report.checkpoint, sink)
        if commits is None:
            return report
        state = state_of(commits, planned.batch, planned_at=_instant(planned.planned_at_ms), now=self._now())
        return report.model_copy(update={"planned": planned.model_copy(update={"sink": state})})

    def watch(self, checkpoint: str, sink: WrittenTo) -> SinkWatch:
        """Look at a sink before a run of the checkpoint's query writes to it."""
        before = None if sink.folder is None else self.commits(checkpoint, sink)
        return SinkWatch(lambda: self.commits(checkpoint, sink), None if before is None else before.newest)

    def watch_under_way(self, checkpoint: str, sink: WrittenTo) -> SinkWatch:
        """Look at the sink of a run that writes to it already, so that what it holds may be that run's."""
        return SinkWatch(lambda: self.commits(checkpoint, sink))

    def commits(self, checkpoint: str, sink: WrittenTo) -> TableCommits | None:
        """What a sink holds of the checkpoint's query; None where that is unknown."""
        try:
            if sink.folder is not None:
                return TableCommits(newest=newest_in_files(self._files, sink.folder), reach_back_to=None)
            if sink.path is None or sink.memory is not SinkMemory.QUERY_AND_BATCH:
                return None
            path = join(checkpoint, "metadata")
            query_id = parse_query_id(self._files.read_bytes(path), path)
            return read_commits(self._session, self._files, sink, query_id)
        except Exception as error:  # noqa: BLE001 - a table's own library raises what it likes
            log.warning("sink not read", checkpoint=checkpoint, sink=sink.format, error=cause_of(error))
            return None


def read_commits(session: SparkSession, files: CheckpointFiles, sink: WrittenTo, query_id: str) -> TableCommits | None:
    """What the sink's table holds of a query; None where it cannot be read. Raises what files and Spark raise."""
    if sink.path is None:
        return None
    if sink.format == "delta":
        return _delta(session, files, sink.path, query_id)
    if sink.format == "iceberg":
        return _iceberg(session, sink.path, query_id)
    return None


def _delta(session: SparkSession, files: CheckpointFiles, table: str, query_id: str) -> TableCommits | None:
    """By Delta's protocol: each file ``_delta_log/<version>.json`` names the transactions that it holds.

    None where the table's commits are staged by a catalog first: then the folder's newest may not be the table's.
    """
    log = join(table, "_delta_log")
    names = files.list_names(log)
    if any(files.list_names(join(log, staged)) for staged in ("_staged_commits", "_commits") if staged in names):
        return None
    versions = sorted((name for name in names if re.fullmatch(r"\d{20}\.json", name)), reverse=True)
    oldest: datetime | None = None
    for name in versions[:_COMMITS]:
        try:
            actions = [json.loads(line) for line in files.read_bytes(join(log, name)).splitlines() if line.strip()]
        except FileVanished:
            break  # retention removes the oldest
        found = _transaction(actions, query_id)
        if found is not None:
            batch, written = found
            return TableCommits(newest=batch, reach_back_to=oldest, forgets_at=_delta_forgets(session, table, written))
        oldest = _made_at(actions) or oldest
    begins = bool(versions) and len(versions) <= _COMMITS and int(versions[-1].removesuffix(".json")) == 0
    return TableCommits(newest=None, reach_back_to=None if begins or not versions else oldest or _NOWHERE)


def _transaction(actions: Sequence[Mapping[str, Any]], query_id: str) -> tuple[int, datetime | None] | None:
    for action in actions:
        made = action.get("txn")
        if made is not None and made.get("appId") == query_id:
            updated = made.get("lastUpdated")
            return int(made["version"]), None if updated is None else _instant(updated)
    return None


def _made_at(actions: Sequence[Mapping[str, Any]]) -> datetime | None:
    infos = (action["commitInfo"] for action in actions if "commitInfo" in action)
    stamps = (info.get("inCommitTimestamp") or info.get("timestamp") for info in infos)
    return next((_instant(stamp) for stamp in stamps if stamp is not None), None)


def _delta_forgets(session: SparkSession, table: str, written: datetime | None) -> datetime | None:
    """When Delta forgets a transaction: never, unless the table limits it; at once where that is unknown."""
    rows = session.sql(f"SHOW TBLPROPERTIES delta.`{table}`").collect()
    kept = next((row.value for row in rows if row.key == "delta.setTransactionRetentionDuration"), None)
    if kept is None:
        return None
    keeps = _duration(session, kept)
    return _LONG_AGO if written is None or keeps is None else written + keeps


def _duration(session: SparkSession, text: str) -> timedelta | None:
    """Spark's reading of ``interval 7 days``; None for months, whose length is no number of seconds."""
    if re.fullmatch(r"(interval )?[0-9a-z .]+", text.strip().lower()) is None:
        return None
    words = text.strip().lower().removeprefix("interval ")
    kept = session.sql(f"SELECT INTERVAL {words} AS kept").collect()[0].kept
    return kept if isinstance(kept, timedelta) else None


def _iceberg(session: SparkSession, table: str, query_id: str) -> TableCommits | None:
    """By the summaries of its snapshots; an expired one is gone from both this list and the sink's own look."""
    rows = session.sql(f"SELECT committed_at, parent_id, summary FROM {table}.snapshots").collect()
    ours = [int(row.summary[_ICEBERG_BATCH]) for row in rows if row.summary.get(_ICEBERG_QUERY) == query_id]
    begins = not rows or any(row.parent_id is None for row in rows)
    oldest = min((row.committed_at.astimezone(UTC) for row in rows), default=None)
    return TableCommits(newest=max(ours, default=None), reach_back_to=None if begins else oldest)


_ICEBERG_QUERY, _ICEBERG_BATCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
_LONG_AGO, _NOWHERE = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
