"""The tables as the program sees them; the columns carry the names of the nouns' fields.

``state.migrations`` builds them, with the triggers that guard what a key or a check cannot; a test compares the two.
"""

from enum import StrEnum

import sqlalchemy as sa

from state.model.cluster_status import Fault, Layer, Verdict
from state.model.entities import Desired, IntentKind, IntentState, OperationKind, Phase, RunState
from state.store.sql.columns import (
    Big,
    Bucket,
    Disorders,
    Instant,
    Instants,
    Json,
    Measures,
    Name,
    Objects,
    Packed,
    Placements,
    Planned,
    Rows,
    Seen,
    Uses,
    Word,
    Words,
)

metadata = sa.MetaData()

VERSION_TABLE = "tideover_schema"


def _one_of(column: str, words: type[StrEnum], table: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word.value}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_known")


leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("term", Big, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.CheckConstraint("term >= 1", name="leases_term_positive"),
)

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("group", Name, nullable=False),
    sa.Column("kind", Word(OperationKind), nullable=False),
    sa.Column("query", Name, nullable=False),
    sa.Column("target", Name),
    sa.Column("expect_active", Name),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("consents", Words, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("expires_at", Instant, nullable=False),
    sa.Column("operation", Name),
    sa.Column("refused", sa.Text),
    sa.Column("parameters", sa.JSON, nullable=False, server_default="{}"),
    _one_of("kind", OperationKind, "requests"),
    sa.CheckConstraint("expires_at > created_at", name="requests_expire"),
    sa.CheckConstraint("operation IS NULL OR refused IS NULL", name="requests_answered_once"),
)
sa.Index(
    "requests_open",
    requests.c.created_at,
    sqlite_where=sa.and_(requests.c.operation.is_(None), requests.c.refused.is_(None)),
    postgresql_where=sa.and_(requests.c.operation.is_(None), requests.c.refused.is_(None)),
)

assignments = sa.Table(
    "assignments",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("epoch", Big, nullable=False),
    sa.Column("placed_epoch", Big, nullable=False),
    sa.Column("desired", Word(Desired), nullable=False),
    sa.Column("cluster", Name, nullable=False),
    sa.Column("runner", Name, nullable=False),
    sa.Column("checkpoint", sa.Text, nullable=False),
    sa.Column("starting_offsets", Json),
    sa.Column("operation", Name),
    sa.Column("changed_at", Instant, nullable=False),
    sa.Column("mapping", sa.Text),
    sa.CheckConstraint("epoch >= 1", name="assignments_epoch_positive"),
    sa.CheckConstraint("placed_epoch >= 1 AND placed_epoch <= epoch", name="assignments_placed_before"),
    _one_of("desired", Desired, "assignments"),
)

OPEN_MOVE = sa.text("outcome IS NULL AND kind <> 'drill'")
OPEN_DRILL = sa.text("outcome IS NULL AND kind = 'drill'")
"""A query moves once at a time; a drill of it may run at the same time. Literal, as SQLite wants it for a partial
index.
"""

operations = sa.Table(
    "operations",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("group", Name, nullable=False),
    sa.Column("kind", Word(OperationKind), nullable=False),
    sa.Column("query", Name, nullable=False),
    sa.Column("source", Name, nullable=False),
    sa.Column("target", Name, nullable=False),
    sa.Column("epoch", Big, nullable=False),
    sa.Column("phase", Word(Phase), nullable=False),
    sa.Column("outcome", sa.Text),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("consents", Words, nullable=False),
    sa.Column("plan", Planned),
    sa.Column("measured", Measures, nullable=False),
    sa.Column("sentence", sa.Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.Column("parameters", sa.JSON, nullable=False, server_default="{}"),
    _one_of("kind", OperationKind, "operations"),
    _one_of("phase", Phase, "operations"),
    sa.CheckConstraint("outcome IN ('done', 'refused', 'aborted', 'failed')", name="operations_outcome_known"),
)
sa.Index(
    "operations_one_open",
    operations.c.query,
    unique=True,
    sqlite_where=OPEN_MOVE,
    postgresql_where=OPEN_MOVE,
)
sa.Index("operations_one_drill", operations.c.query, unique=True, sqlite_where=OPEN_DRILL, postgresql_where=OPEN_DRILL)
sa.Index("operations_started_at", operations.c.started_at)

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("operation", Name, sa.ForeignKey("operations.id"), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.Column("outcome", sa.Text),
    sa.Column("detail", Json, nullable=False),
)

intents = sa.Table(
    "intents",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("operation", Name, sa.ForeignKey("operations.id"), nullable=False),
    sa.Column("name", Name, nullable=False),
    sa.Column("kind", Word(IntentKind), nullable=False),
    sa.Column("query", Name, nullable=False),
    sa.Column("runner", Name, nullable=False),
    sa.Column("epoch", Big, nullable=False),
    sa.Column("request", Json, nullable=False),
    sa.Column("state", Word(IntentState), nullable=False),
    sa.Column("result", Json),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("ended_at", Instant),
    sa.UniqueConstraint("operation", "name", name="intents_asked_once"),
    _one_of("kind", IntentKind, "intents"),
    _one_of("state", IntentState, "intents"),
)
sa.Index(
    "intents_pending",
    intents.c.runner,
    sqlite_where=sa.text("state = 'pending'"),
    postgresql_where=sa.text("state = 'pending'"),
)

runners = sa.Table(
    "runners",
    metadata,
    sa.Column("runner", Name, primary_key=True),
    sa.Column("instance", Name, nullable=False),
    sa.Column("site", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("boot_id", sa.Text, nullable=False),
    sa.Column("pid", Big, nullable=False),
    sa.Column("pid_started", Big, nullable=False),
    sa.Column("spark_master", sa.Text, nullable=False),
    sa.Column("application_id", sa.Text),
    sa.Column("pod", sa.Text),
    sa.Column("companion", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("companion_missing", sa.Text, nullable=False, server_default=""),
    sa.Column("warm", sa.Boolean, nullable=False),
    sa.Column("plans", sa.JSON, nullable=False, server_default="{}"),
    sa.Column("started_at", Instant, nullable=False),
    sa.Column("seen_at", Instant, nullable=False),
)

query_facts = sa.Table(
    "query_facts",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("runner", Name, nullable=False),
    sa.Column("instance", Name, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("boot_id", sa.Text, nullable=False),
    sa.Column("pid", Big, nullable=False),
    sa.Column("pid_started", Big, nullable=False),
    sa.Column("spark_master", sa.Text, nullable=False),
    sa.Column("application_id", sa.Text),
    sa.Column("pod", sa.Text),
    sa.Column("epoch", Big, nullable=False),
    sa.Column("cluster", Name, nullable=False),
    sa.Column("checkpoint", sa.Text, nullable=False),
    sa.Column("state", Word(RunState), nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("batch", Big),
    sa.Column("offsets", Json),
    sa.Column("started_at", Instant),
    sa.Column("first_commit_at", Instant),
    sa.Column("progressed_at", Instant),
    sa.Column("input_rows", Big),
    sa.Column("dropped_late_rows", Big),
    sa.Column("stateful", sa.Boolean),
    sa.Column("deduplicates_ahead", sa.Boolean),
    sa.Column("error", sa.Text),
    sa.Column("held_by", sa.Text),
    sa.Column("held_epoch", Big),
    sa.Column("reported_at", Instant, nullable=False),
    sa.Column("retained_from", Instant),
    sa.Column("silent_since", Instant),
    sa.Column("sink_took", sa.Boolean),
    sa.Column("mapping", sa.Text),
    sa.Column("rows", Rows()),
    sa.Column("columns", Uses()),
    sa.Column("seen", Seen()),
    sa.Column("sink", sa.Text),
    sa.Column("contradicted", sa.Text),
    sa.Column("bucket", Bucket()),
    _one_of("state", RunState, "query_facts"),
)

found_places = sa.Table(
    "found_places",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("runner", Name, nullable=False),
    sa.Column("instance", Name, nullable=False),
    sa.Column("row_epoch", Big, nullable=False),
    sa.Column("row_held", sa.Boolean, nullable=False),
    sa.Column("checkpoint", sa.Text),
    sa.Column("cluster", Name),
    sa.Column("mapping", sa.Text),
    sa.Column("batch", Big),
    sa.Column("epoch", Big, nullable=False),
    sa.Column("moved_by", Name),
    sa.Column("held_by", Name),
    sa.Column("held_epoch", Big),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("found_at", Instant, nullable=False),
)

mappings = sa.Table(
    "mappings",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("name", Name, primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
)
"""What lies in ``_tideover_mappings`` beside its checkpoints, as long as the query is known."""

positions = sa.Table(
    "positions",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("epoch", Big, primary_key=True),
    sa.Column("batch", Big, primary_key=True),
    sa.Column("source", Name, primary_key=True),
    sa.Column("topic", Name, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("cluster", Name, nullable=False),
    sa.Column("offset", Big, nullable=False),
    sa.Column("timestamp_ms", Big),
    sa.Column("leader_epoch", sa.Integer),
    sa.Column("topic_id", sa.Text),
    sa.Column("dense", sa.Boolean),
    sa.Column("tracked_at", Instant, nullable=False),
    sa.Column("ring", Packed, nullable=False),
)

ends = sa.Table(
    "ends",
    metadata,
    sa.Column("cluster", Name, primary_key=True),
    sa.Column("topic", Name, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("begin", Big, nullable=False),
    sa.Column("end", Big, nullable=False),
    sa.Column("newest_timestamp_ms", Big),
    sa.Column("leader_epoch", sa.Integer),
    sa.Column("topic_id", sa.Text),
    sa.Column("sampled_at", Instant, nullable=False),
)

timelines = sa.Table(
    "timelines",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("epoch", Big, primary_key=True),
    sa.Column("cluster", Name, primary_key=True),
    sa.Column("begin", Instant, primary_key=True),
    sa.Column("until", Instant, nullable=False),
    sa.Column("packed", sa.LargeBinary, nullable=False),
    sa.CheckConstraint("until >= begin", name="timelines_end_later"),
)
"""The large column comes last: who looks for a row need not read past it."""

pauses = sa.Table(
    "pauses",
    metadata,
    sa.Column("scope", Name, primary_key=True),
    sa.Column("since", Instant, nullable=False),
    sa.Column("until", Instant),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("resumed_at", Instant),
    sa.CheckConstraint("until IS NULL OR until > since", name="pauses_end_later"),
)

acknowledgements = sa.Table(
    "acknowledgements",
    metadata,
    sa.Column("operation", Name, sa.ForeignKey("operations.id"), primary_key=True),
    sa.Column("query", Name, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", Instant, nullable=False),
)

pins = sa.Table(
    "pins",
    metadata,
    sa.Column("cluster", Name, primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("pinned_at", Instant, nullable=False),
    sa.Column("replaced_at", Instant),
    sa.Column("former", Placements, nullable=False),
)

probe_reports = sa.Table(
    "probe_reports",
    metadata,
    sa.Column("cluster", Name, primary_key=True),
    sa.Column("viewpoint", Name, primary_key=True),
    sa.Column("instance", Name, nullable=False),
    sa.Column("layer", Word(Layer)),
    sa.Column("fault", Word(Fault)),
    sa.Column("kind", sa.Text),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("retriable", sa.Boolean),
    sa.Column("latency_ms", sa.Double),
    sa.Column("cluster_id", sa.Text),
    sa.Column("layers_ms", Json, nullable=False),
    sa.Column("brokers", sa.Integer),
    sa.Column("brokers_silent", sa.Integer),
    sa.Column("partitions", sa.Integer),
    sa.Column("leaderless", sa.Integer),
    sa.Column("unreadable", sa.Integer),
    sa.Column("under_replicated", sa.Integer),
    sa.Column("under_min_isr", sa.Integer),
    sa.Column("successes_in_a_row", Big, nullable=False),
    sa.Column("failures_in_a_row", Big, nullable=False),
    sa.Column("failed_at", Instants, nullable=False),
    sa.Column("first_failed_at", Instant),
    sa.Column("longest_row", Big, nullable=False),
    sa.Column("last_ok_at", Instant),
    sa.Column("due_at", Instant),
    sa.Column("voided_at", Instant),
    sa.Column("seen_at", Instant, nullable=False),
    _one_of("layer", Layer, "probe_reports"),
    _one_of("fault", Fault, "probe_reports"),
)

cluster_statuses = sa.Table(
    "cluster_status",
    metadata,
    sa.Column("cluster", Name, primary_key=True),
    sa.Column("verdict", Word(Verdict), nullable=False),
    sa.Column("since", Instant, nullable=False),
    sa.Column("down_since", Instant),
    sa.Column("reasons", Words, nullable=False),
    sa.Column("first_failed_at", Instant),
    sa.Column("leaderless", sa.Integer),
    sa.Column("unreadable", sa.Integer),
    sa.Column("under_replicated", sa.Integer),
    sa.Column("under_min_isr", sa.Integer),
    sa.Column("decided_at", Instant, nullable=False),
    sa.Column("term", Big, nullable=False),
    _one_of("verdict", Verdict, "cluster_status"),
)

readiness = sa.Table(
    "readiness",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("target", Name, nullable=False),
    sa.Column("ready", sa.Boolean),
    sa.Column("gates", Objects, nullable=False),
    sa.Column("proven", Big),
    sa.Column("partitions", Big),
    sa.Column("since", Instant, nullable=False),
    sa.Column("sampled_at", Instant, nullable=False),
    sa.Column("replication", sa.LargeBinary),
)

standby_samples = sa.Table(
    "standby_samples",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("sampled_at", Instant, primary_key=True),
    sa.Column("source", Name, nullable=False),
    sa.Column("target", Name, nullable=False),
    sa.Column("ready", sa.Boolean),
    sa.Column("exposure_records", Big),
    sa.Column("exposure_seconds", sa.Double),
    sa.Column("copy_age_seconds", sa.Double),
    sa.Column("run_id", sa.Text),
    sa.Column("read_records", Big),
    sa.Column("read_at", Instant),
    sa.Column("lag_records", Big),
    sqlite_with_rowid=False,
)
"""A row for each query and minute: of a hundred queries a day is 144,000 rows."""

disorders = sa.Table(
    "disorders",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("placed_epoch", Big, nullable=False),
    sa.Column("cluster", Name, nullable=False),
    sa.Column("topics", Disorders, nullable=False),
    sa.Column("measured_at", Instant, nullable=False),
)

notice_cursors = sa.Table(
    "notice_cursors",
    metadata,
    sa.Column("target", Name, primary_key=True),
    sa.Column("sequence", Big, nullable=False),
    sa.Column("incidents", Json, nullable=False),
    sa.Column("told_at", Instant),
    sa.Column("failures", Big, nullable=False),
    sa.Column("failing_since", Instant),
    sa.Column("error", sa.Text, nullable=False),
)

formers = sa.Table(
    "formers",
    metadata,
    sa.Column("query", Name, primary_key=True),
    sa.Column("checkpoint", Name, primary_key=True),
    sa.Column("placed_epoch", Big, nullable=False),
    sa.Column("left_epoch", Big, nullable=False),
    sa.Column("left_at", Instant, nullable=False),
    sa.Column("operation", Name),
    sa.Column("runner", Name),
    sa.Column("asked_at", Instant),
    sa.Column("cleaned_at", Instant),
    sa.Column("files", Big),
    sa.Column("bytes", Big),
    sa.Column("refused", sa.Text),
    sa.CheckConstraint("cleaned_at IS NULL OR asked_at IS NOT NULL", name="formers_cleaned_as_asked"),
    sa.CheckConstraint("asked_at IS NULL OR runner IS NOT NULL", name="formers_asked_of_somebody"),
)

schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("kind", Word(OperationKind), nullable=False),
    sa.Column("queries", Words, nullable=False),
    sa.Column("target", Name),
    sa.Column("cron", sa.Text),
    sa.Column("zone", sa.Text, nullable=False),
    sa.Column("consents", Words, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("created_at", Instant, nullable=False),
    sa.Column("next_at", Instant),
    sa.Column("last_at", Instant),
    sa.Column("last_outcome", sa.Text),
    sa.Column("cancelled_by", sa.Text),
    _one_of("kind", OperationKind, "schedules"),
)

retention = sa.Table(
    "retention",
    metadata,
    sa.Column("kind", Name, primary_key=True),
    sa.Column("kept_from", Instant, nullable=False),
)
"""From when on history is kept: its lines of before may be deleted, and no others."""

history = sa.Table(
    "history",
    metadata,
    sa.Column("sequence", Big.with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("at", Instant, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("query", Name),
    sa.Column("operation", Name),
    sa.Column("epoch", Big),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("detail", Json, nullable=False),
    sqlite_autoincrement=True,
)
sa.Index("history_at", history.c.at)
sa.Index("history_query", history.c.query, history.c.sequence)
sa.Index("history_operation", history.c.operation, history.c.sequence)

evidence = sa.Table(
    "evidence",
    metadata,
    sa.Column("sequence", Big, primary_key=True, autoincrement=False),
    sa.Column("operation", Name, nullable=False, unique=True),
    sa.Column("query", Name, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False, unique=True),
    sa.Column("written_at", Instant, nullable=False),
    sa.Column("document", sa.Text),
    sa.CheckConstraint("sequence >= 1", name="evidence_sequence_positive"),
)
"""Not tied to the operations: the hash of a document stays when its operation goes."""
