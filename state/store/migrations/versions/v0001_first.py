"""The first schema: tables, and the triggers that guard what keys and checks cannot.

Written out and not imported from the program, because a version stays as it is while the program moves on.
"""

from typing import Any, NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TEXT, BIG, FLAG, BYTES, JSON = sa.Text(), sa.BigInteger(), sa.Boolean(), sa.LargeBinary(), sa.JSON()
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
KINDS = ("failover", "switchover", "failback", "rewind", "drill")
PHASES = (
    *("WATCHING", "SUSPECT", "CONFIRMED", "FENCING", "RESOLVING", "PREPARING", "STARTING", "VERIFYING", "SETTLED"),
    *("ABORTED", "BLOCKED"),
)

VERDICTS = ("UP", "DEGRADED", "SUSPECT", "DOWN", "UNREACHABLE_FROM_HERE", "UNKNOWN", "CONFIG_ERROR")


class Guard(NamedTuple):
    """A trigger that refuses what ``when`` says; the same text serves both databases."""

    name: str
    table: str
    verb: str
    when: str
    sentence: str


GUARDS = (
    Guard(
        "leases_term_grows",
        "leases",
        "UPDATE",
        "NEW.term < OLD.term OR (NEW.holder <> OLD.holder AND NEW.term = OLD.term)",
        "a term only grows, and grows with every change of holder",
    ),
    Guard("leases_stay", "leases", "DELETE", "", "a lease stays: its term would start again"),
    Guard(
        "assignments_epoch_grows",
        "assignments",
        "UPDATE",
        "NEW.epoch < OLD.epoch OR NEW.epoch > OLD.epoch + 1",
        "an epoch only grows, by one",
    ),
    Guard(
        "assignments_say_where_they_are_placed",
        "assignments",
        "UPDATE",
        "NEW.placed_epoch < OLD.placed_epoch"
        " OR (NEW.placed_epoch <> NEW.epoch AND (NEW.cluster <> OLD.cluster OR NEW.checkpoint <> OLD.checkpoint))",
        "another cluster or checkpoint is placed by the epoch that commits it",
    ),
    Guard("assignments_stay", "assignments", "DELETE", "", "an assignment stays: its epoch would start again"),
    Guard(
        "operations_stay_closed",
        "operations",
        "UPDATE",
        "OLD.outcome IS NOT NULL AND (NEW.outcome IS NULL OR NEW.outcome <> OLD.outcome)",
        "a closed operation is never opened again",
    ),
    Guard("intents_stay_answered", "intents", "UPDATE", "OLD.state <> 'pending'", "an intent is answered once"),
    Guard(
        "query_facts_epoch_grows",
        "query_facts",
        "UPDATE",
        "NEW.epoch < OLD.epoch",
        "a fact of an old epoch is late",
    ),
    Guard("beliefs_term_grows", "beliefs", "UPDATE", "NEW.term < OLD.term", "a verdict of an old term is late"),
    Guard("operations_end_first", "operations", "DELETE", "OLD.outcome IS NULL", "an open operation stays"),
    Guard("history_unchanged", "history", "UPDATE", "", "history is append-only"),
    Guard(
        "retention_moves_on",
        "retention",
        "UPDATE",
        "NEW.kept_from < OLD.kept_from OR NEW.kind <> OLD.kind",
        "what is not kept cannot be kept again",
    ),
)
OLD_HISTORY = "history is append-only: lines go when they are older than what is kept"


def upgrade() -> None:
    """Build everything."""
    create_decisions()
    create_work()
    create_facts()
    create_positions()
    create_timelines()
    create_automation()
    create_sightings()
    create_upkeep()
    create_history()
    for guard in GUARDS:
        create_guard(guard)


def downgrade() -> None:
    """There is nothing older."""
    raise NotImplementedError("the first schema has no older one")


def key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True)


def need(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def may(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def one_of(table: str, column: str, *words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_known")


def create_index(name: str, table: str, columns: list[str], where: str = "", *, unique: bool = False) -> None:
    condition = sa.text(where) if where else None
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


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
        one_of("requests", "kind", *KINDS),
        sa.CheckConstraint("expires_at > created_at", name="requests_expire"),
        sa.CheckConstraint("operation IS NULL OR refused IS NULL", name="requests_answered_once"),
    )
    create_index("requests_open", "requests", ["created_at"], "operation IS NULL AND refused IS NULL")
    op.create_table(
        "assignments",
        *(key("query", NAME), need("epoch", BIG), need("placed_epoch", BIG), need("desired", TEXT)),
        *(need("cluster", NAME), need("runner", NAME), need("checkpoint", TEXT), may("starting_offsets", JSON)),
        *(may("operation", NAME), need("changed_at", TIME)),
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
        one_of("operations", "kind", *KINDS),
        one_of("operations", "phase", *PHASES),
        one_of("operations", "outcome", "done", "refused", "aborted", "failed"),
    )
    create_index("operations_one_open", "operations", ["query"], "outcome IS NULL", unique=True)
    create_index("operations_started_at", "operations", ["started_at"])
    op.create_table(
        "steps",
        sa.Column("operation", NAME, sa.ForeignKey("operations.id"), primary_key=True),
        *(key("sequence", sa.Integer()), need("name", TEXT), need("started_at", TIME), may("ended_at", TIME)),
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
        one_of("intents", "kind", "inspect", "fence", "prepare", "release"),
        one_of("intents", "state", "pending", "done", "failed", "withdrawn"),
    )
    create_index("intents_pending", "intents", ["runner"], "state = 'pending'")


def create_facts() -> None:
    op.create_table(
        "runners",
        *(key("runner", NAME), need("instance", NAME), need("site", TEXT), need("host", TEXT), need("boot_id", TEXT)),
        *(need("pid", BIG), need("pid_started", BIG), need("spark_master", TEXT), may("application_id", TEXT)),
        *(need("warm", FLAG), need("started_at", TIME), need("seen_at", TIME)),
    )
    op.create_table(
        "query_facts",
        *(key("query", NAME), need("runner", NAME), need("instance", NAME), need("host", TEXT), need("boot_id", TEXT)),
        *(need("pid", BIG), need("pid_started", BIG), need("spark_master", TEXT), may("application_id", TEXT)),
        *(need("epoch", BIG), need("cluster", NAME)),
        *(need("checkpoint", TEXT), need("state", TEXT), may("run_id", TEXT), may("batch", BIG), may("offsets", JSON)),
        may("started_at", TIME),
        *(may("first_commit_at", TIME), may("progressed_at", TIME), may("input_rows", BIG)),
        *(may("dropped_late_rows", BIG), may("stateful", FLAG), may("deduplicates_ahead", FLAG), may("error", TEXT)),
        *(may("held_by", TEXT), may("held_epoch", BIG)),
        need("reported_at", TIME),
        one_of("query_facts", "state", "starting", "running", "failed", "stopped"),
    )


def create_positions() -> None:
    op.create_table(
        "positions",
        *(key("query", NAME), key("epoch", BIG), key("batch", BIG), key("source", NAME), key("topic", NAME)),
        *(key("partition", sa.Integer()), need("cluster", NAME), need("offset", BIG), may("timestamp_ms", BIG)),
        *(may("leader_epoch", sa.Integer()), may("topic_id", TEXT), need("ring", BYTES), may("dense", FLAG)),
        need("tracked_at", TIME),
    )
    op.create_table(
        "ends",
        *(
            key("cluster", NAME),
            key("topic", NAME),
            key("partition", sa.Integer()),
            need("begin", BIG),
            need("end", BIG),
        ),
        *(may("newest_timestamp_ms", BIG), may("leader_epoch", sa.Integer()), may("topic_id", TEXT)),
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


def create_sightings() -> None:
    number = sa.Integer()
    op.create_table(
        "sightings",
        *(key("cluster", NAME), key("viewpoint", NAME), need("instance", NAME), may("layer", TEXT), may("fault", TEXT)),
        *(may("kind", TEXT), need("text", TEXT), may("retriable", FLAG), may("latency_ms", sa.Double())),
        need("layers_ms", JSON),
        *(may("brokers", number), may("brokers_silent", number), may("partitions", number), may("leaderless", number)),
        *(may("unreadable", number), may("under_replicated", number), may("under_min_isr", number)),
        *(need("successes_in_a_row", BIG), need("failures_in_a_row", BIG), need("failed_at", JSON)),
        *(may("first_failed_at", TIME), need("longest_row", BIG), may("last_ok_at", TIME), may("due_at", TIME)),
        *(may("voided_at", TIME), need("seen_at", TIME)),
        one_of("sightings", "layer", "tcp", "security", "metadata", "leaders", "read"),
        one_of("sightings", "fault", "ours", "here", "theirs"),
    )
    op.create_table(
        "beliefs",
        *(key("cluster", NAME), need("verdict", TEXT), need("since", TIME), may("down_since", TIME)),
        *(need("reasons", JSON), may("first_failed_at", TIME), may("leaderless", number), may("unreadable", number)),
        *(may("under_replicated", number), may("under_min_isr", number), need("decided_at", TIME), need("term", BIG)),
        one_of("beliefs", "verdict", *VERDICTS),
    )


def create_upkeep() -> None:
    op.create_table(
        "readiness",
        *(key("query", NAME), need("target", NAME), may("ready", FLAG), need("gates", JSON), need("since", TIME)),
        *(need("sampled_at", TIME), may("replication", BYTES)),
    )
    op.create_table(
        "disorders",
        *(key("query", NAME), need("placed_epoch", BIG), need("cluster", NAME), need("topics", JSON)),
        need("measured_at", TIME),
    )
    op.create_table("retention", key("kind", NAME), need("kept_from", TIME))


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
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE FUNCTION tideover_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation'; END $$"
        )
        op.execute(
            "CREATE TRIGGER history_untruncated BEFORE TRUNCATE ON history FOR EACH STATEMENT"
            " EXECUTE FUNCTION tideover_refuse('history is append-only')"
        )
    guard_old_history()


def guard_old_history() -> None:
    """A line may go only when ``retention`` says that it is not kept: a condition that looks into another table."""
    kept = "COALESCE(OLD.at >= (SELECT kept_from FROM retention WHERE kind = 'history'), {true})"
    if op.get_context().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER history_undeleted BEFORE DELETE ON history FOR EACH ROW"
            f" WHEN {kept.format(true='1')} BEGIN SELECT RAISE(ABORT, '{OLD_HISTORY}'); END"
        )
        return
    op.execute(
        "CREATE FUNCTION tideover_keep_history() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {kept.format(true='true')} THEN RAISE EXCEPTION '{OLD_HISTORY}'"
        " USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
    )
    op.execute(
        "CREATE TRIGGER history_undeleted BEFORE DELETE ON history FOR EACH ROW"
        " EXECUTE FUNCTION tideover_keep_history()"
    )


def create_guard(guard: Guard) -> None:
    head = f"CREATE TRIGGER {guard.name} BEFORE {guard.verb} ON {guard.table} FOR EACH ROW"
    when = f" WHEN ({guard.when})" if guard.when else ""
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{head}{when} BEGIN SELECT RAISE(ABORT, '{guard.sentence}'); END")
    else:
        op.execute(f"{head}{when} EXECUTE FUNCTION tideover_refuse('{guard.sentence}')")
