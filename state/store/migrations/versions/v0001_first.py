"""The first schema: tables, and the triggers that guard what keys and checks cannot.

Written out and not imported from the program, because a version stays as it is while the program moves on.
"""

import sqlalchemy as sa
from alembic import op

from state.store.migrations.elements import (
    BIG,
    BYTES,
    FLAG,
    JSON,
    NAME,
    NUMBER,
    REAL,
    TEXT,
    TIME,
    create_index,
    key,
    may,
    need,
    one_of,
)
from state.store.migrations.guards import EVIDENCE_STAYS, FIRST_GUARDS, create_guard

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KINDS = ("failover", "switchover", "failback", "rewind", "drill")
PHASES = (
    *("WATCHING", "SUSPECT", "CONFIRMED", "FENCING", "RESOLVING", "PREPARING", "STARTING", "VERIFYING", "SETTLED"),
    *("ABORTED", "BLOCKED"),
)

VERDICTS = ("UP", "DEGRADED", "SUSPECT", "DOWN", "UNREACHABLE_FROM_HERE", "UNKNOWN", "CONFIG_ERROR", "NOT_HERE")


def upgrade() -> None:
    """Build everything."""
    create_decisions()
    create_work()
    create_facts()
    create_found_places()
    create_positions()
    create_timelines()
    create_automation()
    create_probes()
    create_upkeep()
    create_schedules_and_notices()
    create_history()
    create_evidence()
    if op.get_context().dialect.name == "postgresql":
        create_server_triggers()
    for guard in FIRST_GUARDS:
        create_guard(guard)


def downgrade() -> None:
    """There is nothing older."""
    raise NotImplementedError("the first schema has no older one")


def create_decisions() -> None:
    op.create_table(
        "leases",
        *(key("name", NAME), need("holder", TEXT), need("term", BIG), need("expires_at", TIME)),
        sa.CheckConstraint("term >= 1", name="leases_term_positive"),
    )
    op.create_table(
        "requests",
        *(key("id", NAME), need("group", NAME), need("kind", TEXT), need("query", NAME), may("target", NAME)),
        *(may("expect_active", NAME), need("actor", TEXT), need("reason", TEXT), need("consents", JSON)),
        *(need("created_at", TIME), need("expires_at", TIME), may("operation", NAME), may("refused", TEXT)),
        sa.Column("parameters", JSON, nullable=False, server_default="{}"),
        one_of("requests", "kind", *KINDS),
        sa.CheckConstraint("expires_at > created_at", name="requests_expire"),
        sa.CheckConstraint("operation IS NULL OR refused IS NULL", name="requests_answered_once"),
    )
    create_index("requests_open", "requests", ["created_at"], "operation IS NULL AND refused IS NULL")
    op.create_table(
        "assignments",
        *(key("query", NAME), need("epoch", BIG), need("placed_epoch", BIG), need("desired", TEXT)),
        *(need("cluster", NAME), need("runner", NAME), need("checkpoint", TEXT), may("starting_offsets", JSON)),
        *(may("operation", NAME), need("changed_at", TIME), may("mapping", TEXT)),
        sa.CheckConstraint("epoch >= 1", name="assignments_epoch_positive"),
        sa.CheckConstraint("placed_epoch >= 1 AND placed_epoch <= epoch", name="assignments_placed_before"),
        one_of("assignments", "desired", "running", "held"),
    )


def create_work() -> None:
    op.create_table(
        "operations",
        *(key("id", NAME), need("group", NAME), need("kind", TEXT), need("query", NAME), need("source", NAME)),
        *(need("target", NAME), need("epoch", BIG), need("phase", TEXT), may("outcome", TEXT), need("actor", TEXT)),
        *(need("reason", TEXT), need("consents", JSON), may("plan", JSON), need("measured", JSON)),
        *(need("sentence", TEXT), need("started_at", TIME), may("ended_at", TIME)),
        sa.Column("parameters", JSON, nullable=False, server_default="{}"),
        one_of("operations", "kind", *KINDS),
        one_of("operations", "phase", *PHASES),
        one_of("operations", "outcome", "done", "refused", "aborted", "failed"),
    )
    for name, which in (("operations_one_open", "kind <> 'drill'"), ("operations_one_drill", "kind = 'drill'")):
        create_index(name, "operations", ["query"], f"outcome IS NULL AND {which}", unique=True)
    create_index("operations_started_at", "operations", ["started_at"])
    op.create_table(
        "steps",
        sa.Column("operation", NAME, sa.ForeignKey("operations.id"), primary_key=True),
        *(key("sequence", NUMBER), need("name", TEXT), need("started_at", TIME), may("ended_at", TIME)),
        *(may("outcome", TEXT), need("detail", JSON)),
    )
    op.create_table(
        "intents",
        key("id", NAME),
        sa.Column("operation", NAME, sa.ForeignKey("operations.id"), nullable=False),
        *(need("name", NAME), need("kind", TEXT), need("query", NAME), need("runner", NAME), need("epoch", BIG)),
        *(need("request", JSON), need("state", TEXT), may("result", JSON), need("created_at", TIME)),
        may("ended_at", TIME),
        sa.UniqueConstraint("operation", "name", name="intents_asked_once"),
        one_of("intents", "kind", "inspect", "fence", "prepare", "release", "drill"),
        one_of("intents", "state", "pending", "done", "failed", "withdrawn"),
    )
    create_index("intents_pending", "intents", ["runner"], "state = 'pending'")


def create_facts() -> None:
    op.create_table(
        "runners",
        *(key("runner", NAME), need("instance", NAME), need("site", TEXT), need("host", TEXT), need("boot_id", TEXT)),
        *(need("pid", BIG), need("pid_started", BIG), need("spark_master", TEXT)),
        *(may("application_id", TEXT), may("pod", TEXT)),
        sa.Column("companion", FLAG, nullable=False, server_default=sa.false()),
        sa.Column("companion_missing", TEXT, nullable=False, server_default=""),
        need("warm", FLAG),
        sa.Column("plans", JSON, nullable=False, server_default="{}"),
        *(need("started_at", TIME), need("seen_at", TIME)),
    )
    op.create_table(
        "query_facts",
        *(key("query", NAME), need("runner", NAME), need("instance", NAME), need("host", TEXT), need("boot_id", TEXT)),
        *(need("pid", BIG), need("pid_started", BIG), need("spark_master", TEXT)),
        *(may("application_id", TEXT), may("pod", TEXT)),
        *(need("epoch", BIG), need("cluster", NAME)),
        *(need("checkpoint", TEXT), need("state", TEXT), may("run_id", TEXT), may("batch", BIG), may("offsets", JSON)),
        may("started_at", TIME),
        *(may("first_commit_at", TIME), may("progressed_at", TIME), may("input_rows", BIG)),
        *(may("dropped_late_rows", BIG), may("stateful", FLAG), may("deduplicates_ahead", FLAG), may("error", TEXT)),
        *(may("held_by", TEXT), may("held_epoch", BIG)),
        *(need("reported_at", TIME), may("retained_from", TIME), may("silent_since", TIME)),
        may("sink_took", FLAG),
        may("mapping", TEXT),
        may("rows", JSON),
        may("columns", JSON),
        *(may("seen", JSON), may("sink", TEXT), may("contradicted", TEXT), may("bucket", JSON)),
        one_of("query_facts", "state", "starting", "running", "failed", "stopped", "finished", "awaited"),
    )


def create_found_places() -> None:
    op.create_table(
        "found_places",
        *(key("query", NAME), need("runner", NAME), need("instance", NAME), need("row_epoch", BIG)),
        need("row_held", FLAG),
        *(may("checkpoint", TEXT), may("cluster", NAME), may("mapping", TEXT), may("batch", BIG)),
        need("epoch", BIG),
        *(may("moved_by", NAME), may("held_by", NAME), may("held_epoch", BIG), need("text", TEXT)),
        need("found_at", TIME),
    )
    op.create_table("mappings", *(key("query", NAME), key("name", NAME), need("content", TEXT)))


def create_positions() -> None:
    """The ring comes last: SQLite reads a row from its start, through 8 KB of it to what lies behind.

    A look-up of 3,500 partitions reads 42,000 positions, and the rings of 3,500 of them.
    """
    op.create_table(
        "positions",
        *(key("query", NAME), key("epoch", BIG), key("batch", BIG), key("source", NAME), key("topic", NAME)),
        *(key("partition", NUMBER), need("cluster", NAME), need("offset", BIG), may("timestamp_ms", BIG)),
        *(may("leader_epoch", NUMBER), may("topic_id", TEXT), may("dense", FLAG), need("tracked_at", TIME)),
        need("ring", BYTES),
    )
    op.create_table(
        "ends",
        *(key("cluster", NAME), key("topic", NAME), key("partition", NUMBER), need("begin", BIG), need("end", BIG)),
        *(may("newest_timestamp_ms", BIG), may("leader_epoch", NUMBER), may("topic_id", TEXT)),
        need("sampled_at", TIME),
    )


def create_timelines() -> None:
    op.create_table(
        "timelines",
        *(key("query", NAME), key("epoch", BIG), key("cluster", NAME), key("begin", TIME), need("until", TIME)),
        need("packed", BYTES),
        sa.CheckConstraint("until >= begin", name="timelines_end_later"),
    )


def create_automation() -> None:
    op.create_table(
        "pauses",
        *(key("scope", NAME), need("since", TIME), may("until", TIME), need("reason", TEXT), need("actor", TEXT)),
        may("resumed_at", TIME),
        sa.CheckConstraint("until IS NULL OR until > since", name="pauses_end_later"),
    )
    op.create_table(
        "acknowledgements",
        sa.Column("operation", NAME, sa.ForeignKey("operations.id"), primary_key=True),
        *(need("query", NAME), need("actor", TEXT), need("reason", TEXT), need("at", TIME)),
    )


def create_probes() -> None:
    op.create_table(
        "probe_reports",
        *(key("cluster", NAME), key("viewpoint", NAME), need("instance", NAME), may("layer", TEXT), may("fault", TEXT)),
        *(may("kind", TEXT), need("text", TEXT), may("retriable", FLAG), may("latency_ms", REAL)),
        *(may("cluster_id", TEXT), need("layers_ms", JSON)),
        *(may("brokers", NUMBER), may("brokers_silent", NUMBER), may("partitions", NUMBER), may("leaderless", NUMBER)),
        *(may("unreadable", NUMBER), may("under_replicated", NUMBER), may("under_min_isr", NUMBER)),
        *(need("successes_in_a_row", BIG), need("failures_in_a_row", BIG), need("failed_at", JSON)),
        *(may("first_failed_at", TIME), need("longest_row", BIG), may("last_ok_at", TIME), may("due_at", TIME)),
        *(may("voided_at", TIME), need("seen_at", TIME)),
        one_of("probe_reports", "layer", "tcp", "security", "metadata", "leaders", "read"),
        one_of("probe_reports", "fault", "ours", "here", "theirs"),
    )
    op.create_table(
        "cluster_status",
        *(key("cluster", NAME), need("verdict", TEXT), need("since", TIME), may("down_since", TIME)),
        *(need("reasons", JSON), may("first_failed_at", TIME), may("leaderless", NUMBER), may("unreadable", NUMBER)),
        *(may("under_replicated", NUMBER), may("under_min_isr", NUMBER), need("decided_at", TIME), need("term", BIG)),
        one_of("cluster_status", "verdict", *VERDICTS),
    )


def create_upkeep() -> None:
    op.create_table(
        "pins",
        *(key("cluster", NAME), need("id", TEXT), need("pinned_at", TIME), may("replaced_at", TIME)),
        need("former", JSON),
    )
    op.create_table(
        "readiness",
        *(key("query", NAME), need("target", NAME), may("ready", FLAG), need("gates", JSON)),
        *(may("proven", BIG), may("partitions", BIG), need("since", TIME)),
        *(need("sampled_at", TIME), may("replication", BYTES)),
    )
    op.create_table(
        "standby_samples",
        *(key("query", NAME), key("sampled_at", TIME), need("source", NAME), need("target", NAME)),
        *(may("ready", FLAG), may("exposure_records", BIG), may("exposure_seconds", REAL)),
        *(may("copy_age_seconds", REAL), may("run_id", TEXT), may("read_records", BIG), may("read_at", TIME)),
        may("lag_records", BIG),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "disorders",
        *(key("query", NAME), need("placed_epoch", BIG), need("cluster", NAME), need("topics", JSON)),
        need("measured_at", TIME),
    )
    op.create_table(
        "formers",
        *(key("query", NAME), key("checkpoint", NAME), need("placed_epoch", BIG), need("left_epoch", BIG)),
        *(need("left_at", TIME), may("operation", NAME), may("runner", NAME), may("asked_at", TIME)),
        *(may("cleaned_at", TIME), may("files", BIG), may("bytes", BIG), may("refused", TEXT)),
        sa.CheckConstraint("cleaned_at IS NULL OR asked_at IS NOT NULL", name="formers_cleaned_as_asked"),
        sa.CheckConstraint("asked_at IS NULL OR runner IS NOT NULL", name="formers_asked_of_somebody"),
    )
    op.create_table("retention", key("kind", NAME), need("kept_from", TIME))


def create_schedules_and_notices() -> None:
    op.create_table(
        "notice_cursors",
        *(key("target", NAME), need("sequence", BIG), need("incidents", JSON), may("told_at", TIME)),
        *(need("failures", BIG), may("failing_since", TIME), need("error", TEXT)),
    )
    op.create_table(
        "schedules",
        *(key("id", NAME), need("kind", TEXT), need("queries", JSON), may("target", NAME), may("cron", TEXT)),
        *(need("zone", TEXT), need("consents", JSON), need("actor", TEXT), need("reason", TEXT)),
        *(need("created_at", TIME), may("next_at", TIME), may("last_at", TIME), may("last_outcome", TEXT)),
        may("cancelled_by", TEXT),
        one_of("schedules", "kind", *KINDS),
    )


def create_history() -> None:
    op.create_table(
        "history",
        sa.Column("sequence", BIG.with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        *(need("at", TIME), need("kind", TEXT), may("query", NAME), may("operation", NAME), may("epoch", BIG)),
        *(need("actor", TEXT), need("text", TEXT), need("detail", JSON)),
        sqlite_autoincrement=True,
    )
    create_index("history_at", "history", ["at"])
    create_index("history_query", "history", ["query", "sequence"])
    create_index("history_operation", "history", ["operation", "sequence"])


def create_evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("sequence", BIG, primary_key=True, autoincrement=False),
        sa.Column("operation", NAME, nullable=False, unique=True),
        need("query", NAME),
        need("sha256", TEXT),
        sa.Column("previous", TEXT, nullable=False, unique=True),
        *(need("written_at", TIME), may("document", TEXT)),
        sa.CheckConstraint("sequence >= 1", name="evidence_sequence_positive"),
    )


def create_server_triggers() -> None:
    """What only PostgreSQL has: the function behind every guard, no truncation, and a wake-up for those who wait.

    A request, an order, its answer and an assignment notify, once for each transaction, and
    ``state.store.wakeups`` listens.
    """
    op.execute(
        "CREATE FUNCTION tideover_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; END $$"
    )
    for table, sentence in (("history", "history is append-only"), ("evidence", EVIDENCE_STAYS)):
        op.execute(
            f"CREATE TRIGGER {table}_untruncated BEFORE TRUNCATE ON {table} FOR EACH STATEMENT"
            f" EXECUTE FUNCTION tideover_refuse('{sentence}')"
        )
    op.execute(
        "CREATE FUNCTION tideover_wake() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_notify('tideover', TG_TABLE_NAME); RETURN NULL; END $$"
    )
    for table in ("requests", "intents", "assignments"):
        op.execute(
            f"CREATE TRIGGER tideover_wake AFTER INSERT OR UPDATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION tideover_wake()"
        )
