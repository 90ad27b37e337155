"""From a declared query to a writer that is ready to start on one cluster."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from state.messages import Offsets
from state.model.entities import Assignment
from state.settings.keys import ACTIVE, Cluster, Query, Resume
from state.settings.topics import home_naming
from streaming.spark.checkpoint.batch_news import has_companion
from streaming.spark.checkpoint.log_text import declared_name
from streaming.spark.checkpoint.mapping import Placed, read_moves
from streaming.spark.errors import CompanionMissing, PipelineError
from streaming.spark.hosting import Hosting
from streaming.spark.query.callbacks import CallbackGate, gated
from streaming.spark.query.kafka_options import (
    SWITCHING,
    Options,
    cluster_options,
    identified,
    overridden,
    read_source,
    source_options,
    switching_options,
)
from streaming.spark.query.pipeline import (
    build_writer,
    check_mode,
    check_sources,
    direct_output,
    load_pipeline,
)
from streaming.spark.query.session import query_session
from streaming.spark.query.sink_memory import WrittenTo, written_to


def prepare_writer(
    hosting: Hosting, assignment: Assignment, gate: CallbackGate, *, switched: bool | None = None
) -> tuple[SparkSession, DataStreamWriter]:
    """Build the query's writer with everything set but the start.

    ``switched``: whether it reads through the companion's source, where the checkpoint does not show that yet.
    Raises ``PipelineError``, ``CompanionMissing``, ``CheckpointError`` and what Spark raises.
    """
    query = hosting.query(assignment.query)
    session = query_session(hosting.session, assignment.query, query, assignment.epoch)
    switched = is_switched(hosting, assignment) if switched is None else switched
    if switched and not has_companion(session):
        raise CompanionMissing(
            f"{assignment.query} cannot be started: its source is the companion's, which is not in this Spark",
            hint="docs/companion.md says where it runs and why a runner may be without it; with resume: carry, the "
            "next move makes a checkpoint for Spark's own source",
        )
    writer = _pipeline_writer(hosting, assignment, session, gate, switched=switched)
    if query.output is not None:
        name = query.output.cluster_with(assignment.cluster)
        options = _output_options(hosting.settings.clusters[name], query.output.topic)
        writer = direct_output(_pipeline_of(query), writer, overridden(options, query.output.options))
    check_mode(_pipeline_of(query), writer)
    milliseconds = round(query.trigger.total_seconds() * 1000)
    return session, (
        writer.queryName(assignment.query)
        .option("checkpointLocation", assignment.checkpoint)
        .trigger(processingTime=f"{milliseconds} milliseconds")
    )


def switched_sources(hosting: Hosting, row: Assignment) -> dict[str, dict[str, str]]:
    """By declared source, the options of the companion's source for a row. Raises ``CredentialRefused``."""
    return switching(hosting, row, _sources_of(hosting, row))


def switching(hosting: Hosting, row: Assignment, sources: Mapping[str, Options]) -> dict[str, dict[str, str]]:
    """By declared source, these options with what the companion's source wants to know of a row."""
    settings, query, known = hosting.settings, hosting.query(row.query), hosting.cluster_id(row.cluster)
    policy, found = settings.policy_of(row.query), {}
    for name, options in sources.items():
        naming = {each: named for each in query.clusters if (named := home_naming(settings, query, name, each))}
        more = switching_options(
            row.cluster,
            Placed.of(row).epoch,
            policy.outage_patience,
            naming=naming,
            home_offsets=query.home_offsets,
            catch_up_batch=policy.catch_up_batch,
        )
        found[name] = identified({**options, **more}, row.cluster, known, settings.behind_endpoint(row.cluster))
    return found


def _sources_of(hosting: Hosting, row: Assignment) -> dict[str, dict[str, str]]:
    query = hosting.query(row.query)
    return {
        name: source_options(hosting.settings, query, name, row.cluster, _starting(row, name)) for name in query.sources
    }


def changes_in_its_run(hosting: Hosting, name: str, here: str, there: str) -> bool:
    """Whether a run can leave one cluster for another: by the companion's source, and with nothing else to change.

    The sink of an attached query changes with its source, between two batches.
    """
    query = hosting.query(name)
    if hosting.resume(name) is not Resume.SWITCH or query.application is not None:
        return False
    writes_there = query.attach is None and query.output is not None and query.output.cluster == ACTIVE
    return not writes_there and query.settings_on(here) == query.settings_on(there)


def is_switched(hosting: Hosting, assignment: Assignment) -> bool:
    """Whether a query reads through the companion's source: as it is configured, and where its checkpoint needs it.

    Raises ``CheckpointError``.
    """
    if hosting.resume(assignment.query) is Resume.SWITCH:
        return True
    return bool(read_moves(hosting.files, assignment.checkpoint, Placed.of(assignment)).chain)


class Sinks:
    """What queries that do not run here write through: read from the pipeline, once each."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        """By query: a pipeline that hangs while it is imported keeps no other query's fence waiting."""
        self._known: dict[str, WrittenTo] = {}

    def remember(self, query: str, sink: WrittenTo) -> None:
        """Take the answer of a pipeline that was called for another reason."""
        self._known[query] = sink

    def sink(self, assignment: Assignment) -> WrittenTo:
        """What a query writes through. Raises ``PipelineError``."""
        known = self._known.get(assignment.query)
        if known is not None:
            return known
        with self._locks[assignment.query]:
            if assignment.query not in self._known:
                query = self._hosting.query(assignment.query)
                session = query_session(self._hosting.session, assignment.query, query, assignment.epoch)
                writer = _pipeline_writer(self._hosting, assignment, session, CallbackGate())
                self._known[assignment.query] = written_to(query, writer)
            return self._known[assignment.query]


def dry_writer(
    hosting: Hosting, name: str, cluster: str, changed: Callable[[Options], Options], pinned: Mapping[str, str]
) -> tuple[DataStreamWriter, WrittenTo]:
    """A writer of the query's own plan on a cluster, through which no record goes, and which writes nowhere.

    Each source reads by the query's own options as they are ``changed``, and hands nothing on. The pipeline's function
    is called, and what it built is planned, compiled and run, but no user's code meets a record. ``pinned`` are the
    settings that its checkpoint would hold it to. Also what its real sink is. Raises ``PipelineError``, what Spark
    raises, and what ``changed`` does.
    """
    query = hosting.query(name)
    session = query_session(hosting.session, name, query, 0)
    for key, value in pinned.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)

    def read(source: str) -> DataFrame:
        ours = source_options(hosting.settings, query, source, cluster, None)
        # Spark cannot know that there is no such offset, so it plans and runs all that comes after.
        return read_source(session, changed(ours)).where("offset < 0")

    writer = _built(query, cluster, read, CallbackGate())
    check_mode(_pipeline_of(query), writer)
    sink = written_to(query, writer)
    return writer.format("noop"), sink


def drill_writer(
    hosting: Hosting, name: str, cluster: str, starting: Offsets | None, records: int, gate: CallbackGate
) -> tuple[SparkSession, DataStreamWriter]:
    """The query's own plan on a cluster, reading at most ``records`` a batch from each source, writing nowhere.

    ``starting``: by source, where a fresh checkpoint begins. Whatever sink the pipeline set is replaced; a function for
    ``foreachBatch`` is never called, and meets a closed ``gate`` if it were. Raises ``PipelineError`` and what Spark
    raises.
    """
    query = hosting.query(name)
    session = query_session(hosting.session, name, query, 0)
    gate.close()

    def read(source: str) -> DataFrame:
        options = source_options(hosting.settings, query, source, cluster, (starting or {}).get(source))
        kept = {key: value for key, value in options.items() if key.lower() not in _INTAKE}
        return read_source(session, {**kept, "maxOffsetsPerTrigger": str(records)})

    writer = _built(query, cluster, read, gate)
    check_mode(_pipeline_of(query), writer)
    return session, writer.format("noop").queryName(f"{name} (drill)")


_INTAKE = frozenset(
    {"maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "minpartitions", "maxrecordsperpartition"}
)
"""Options by which a source takes in more or later, or in more tasks, than a drill may; in small letters."""


def _pipeline_writer(
    hosting: Hosting, assignment: Assignment, session: SparkSession, gate: CallbackGate, *, switched: bool = False
) -> DataStreamWriter:
    query = hosting.query(assignment.query)
    options = switched_sources(hosting, assignment) if switched else _sources_of(hosting, assignment)

    def read(source: str) -> DataFrame:
        return read_source(session, options[source], SWITCHING if switched else "kafka")

    return _built(query, assignment.cluster, read, gate)


def _built(query: Query, cluster: str, read: Callable[[str], DataFrame], gate: CallbackGate) -> DataStreamWriter:
    name = _pipeline_of(query)
    pipeline = load_pipeline(name)
    sources = {source: read(source) for source in query.sources}
    with gated(gate):
        writer = build_writer(name, pipeline, sources, query.settings_on(cluster))
    check_sources(name, writer, query.sources)
    return writer


def _pipeline_of(query: Query) -> str:
    if query.pipeline is None:
        raise PipelineError(
            f"{f'application {query.attach}' if query.attach else 'its application'} builds this query itself, so a "
            "runner can neither build nor rehearse it"
        )
    return query.pipeline


def _starting(assignment: Assignment, source: str) -> Mapping[str, Mapping[str, int]] | None:
    """Where a source begins afresh. One that the query reads twice begins at the earlier of its places: one option
    serves both, and nothing is to be skipped."""
    if assignment.starting_offsets is None:
        return None
    least: dict[str, dict[str, int]] = {}
    for name, topics in assignment.starting_offsets.items():
        if declared_name(name) == source:
            for topic, partitions in topics.items():
                known = least.setdefault(topic, {})
                for partition, offset in partitions.items():
                    known[partition] = min(offset, known.get(partition, offset))
    return least or None


def _output_options(cluster: Cluster, topic: str) -> dict[str, str]:
    return {**cluster_options(cluster), "topic": topic}
