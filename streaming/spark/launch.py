"""From a declared query to a writer that is ready to start on one cluster."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.model import Assignment
from state.settings import Cluster, Query
from streaming.spark.callbacks import Gate, gated
from streaming.spark.hosting import Hosting
from streaming.spark.pipeline import build_writer, direct_output, load_pipeline, sink_of
from streaming.spark.session import query_session
from streaming.spark.source import cluster_options, overridden, read_source, source_options

_FILE_FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro"})


def prepare_writer(hosting: Hosting, assignment: Assignment, gate: Gate) -> tuple[SparkSession, DataStreamWriter]:
    """Build the query's writer with everything set but the start. Raises ``PipelineError`` and what Spark raises."""
    query = hosting.query(assignment.query)
    session = query_session(hosting.session, assignment.query, query, assignment.epoch)
    writer = _pipeline_writer(hosting, assignment, session, gate)
    if query.output is not None:
        name = assignment.cluster if query.output.cluster == "active" else query.output.cluster
        options = _output_options(hosting.settings.clusters[name], query.output.topic)
        writer = direct_output(query.pipeline, writer, overridden(options, query.output.options))
    milliseconds = round(query.trigger.total_seconds() * 1000)
    return session, (
        writer.queryName(assignment.query)
        .option("checkpointLocation", assignment.checkpoint)
        .trigger(processingTime=f"{milliseconds} milliseconds")
    )


@dataclass(frozen=True, slots=True)
class FileSink:
    """The answer to whether a query writes through Spark's file sink."""

    folder: str | None
    """Its output folder; None for any other sink."""


def file_sink(query: Query, writer: DataStreamWriter) -> FileSink:
    """Ask a writer."""
    sink, path = sink_of(writer)
    return FileSink(path if query.output is None and sink in _FILE_FORMATS else None)


class FileSinks:
    """Which queries that do not run here write through Spark's file sink: asked of the pipeline itself, once each."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._lock = threading.Lock()
        self._known: dict[str, FileSink] = {}

    def remember(self, query: str, sink: FileSink) -> None:
        """Take the answer of a pipeline that was asked for another reason."""
        self._known[query] = sink

    def folder(self, assignment: Assignment) -> str | None:
        """The output folder of a query with a file sink, else None. Raises ``PipelineError``."""
        known = self._known.get(assignment.query)
        if known is not None:
            return known.folder
        with self._lock:
            if assignment.query not in self._known:
                query = self._hosting.query(assignment.query)
                session = query_session(self._hosting.session, assignment.query, query, assignment.epoch)
                writer = _pipeline_writer(self._hosting, assignment, session, Gate())
                self._known[assignment.query] = file_sink(query, writer)
            return self._known[assignment.query].folder


def dry_writer(
    hosting: Hosting, name: str, cluster: str, options: Mapping[str, str]
) -> tuple[DataStreamWriter, FileSink]:
    """A writer of the query's own plan on a cluster, through which no record goes, and which writes nowhere.

    The source reads by ``options`` on top of the query's own, and hands nothing on: the pipeline's function is called,
    and what it built is planned, compiled and run, but no user's code meets a record. Also what its real sink is.
    Raises ``PipelineError`` and what Spark raises.
    """
    query = hosting.query(name)
    session = query_session(hosting.session, name, query, 0)

    def read(source: str) -> DataFrame:
        ours = source_options(hosting.settings, query, source, cluster, None)
        # Spark cannot know that there is no such offset, so it plans and runs all that comes after.
        return read_source(session, overridden(ours, options)).where("offset < 0")

    writer = _built(query, read, Gate())
    sink = file_sink(query, writer)
    return writer.format("noop"), sink


def _pipeline_writer(hosting: Hosting, assignment: Assignment, session: SparkSession, gate: Gate) -> DataStreamWriter:
    query = hosting.query(assignment.query)

    def read(source: str) -> DataFrame:
        starting = None if assignment.starting_offsets is None else assignment.starting_offsets.get(source)
        return read_source(session, source_options(hosting.settings, query, source, assignment.cluster, starting))

    return _built(query, read, gate)


def _built(query: Query, read: Callable[[str], DataFrame], gate: Gate) -> DataStreamWriter:
    pipeline = load_pipeline(query.pipeline)
    sources = {name: read(name) for name in query.sources}
    with gated(gate):
        return build_writer(query.pipeline, pipeline, sources, query.settings)


def _output_options(cluster: Cluster, topic: str) -> dict[str, str]:
    return {**cluster_options(cluster), "topic": topic}
