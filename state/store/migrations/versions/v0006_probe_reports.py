"""The tables of probe reports and of verdicts get the names that the program has for them.

``sightings`` becomes ``probe_reports``, ``beliefs`` becomes ``cluster_status``; every row is kept. The tables are made
again, so that checks and triggers are renamed with them on both databases.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TEXT, BIG, FLAG, NUMBER, JSON = sa.Text(), sa.BigInteger(), sa.Boolean(), sa.Integer(), sa.JSON()
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

PROBE_REPORTS: Sequence[tuple[str, Any, bool]] = (
    *(("cluster", NAME, True), ("viewpoint", NAME, True), ("instance", NAME, True)),
    *(("layer", TEXT, False), ("fault", TEXT, False), ("kind", TEXT, False), ("text", TEXT, True)),
    *(("retriable", FLAG, False), ("latency_ms", sa.Double(), False), ("cluster_id", TEXT, False)),
    *(("layers_ms", JSON, True), ("brokers", NUMBER, False), ("brokers_silent", NUMBER, False)),
    *(("partitions", NUMBER, False), ("leaderless", NUMBER, False), ("unreadable", NUMBER, False)),
    *(("under_replicated", NUMBER, False), ("under_min_isr", NUMBER, False)),
    *(("successes_in_a_row", BIG, True), ("failures_in_a_row", BIG, True), ("failed_at", JSON, True)),
    *(("first_failed_at", TIME, False), ("longest_row", BIG, True), ("last_ok_at", TIME, False)),
    *(("due_at", TIME, False), ("voided_at", TIME, False), ("seen_at", TIME, True)),
)
"""Name, type, and whether there is always a value."""

CLUSTER_STATUS: Sequence[tuple[str, Any, bool]] = (
    *(("cluster", NAME, True), ("verdict", TEXT, True), ("since", TIME, True), ("down_since", TIME, False)),
    *(("reasons", JSON, True), ("first_failed_at", TIME, False), ("leaderless", NUMBER, False)),
    *(("unreadable", NUMBER, False), ("under_replicated", NUMBER, False), ("under_min_isr", NUMBER, False)),
    *(("decided_at", TIME, True), ("term", BIG, True)),
)
VERDICTS = ("UP", "DEGRADED", "SUSPECT", "DOWN", "UNREACHABLE_FROM_HERE", "UNKNOWN", "CONFIG_ERROR")
GUARD = "CREATE TRIGGER cluster_status_term_grows BEFORE UPDATE ON cluster_status FOR EACH ROW"
SENTENCE = "a verdict of an old term is late"


def upgrade() -> None:
    """Make each table under its new name, move the rows, and drop the old one with its checks and trigger."""
    layers = one_of("probe_reports", "layer", "tcp", "security", "metadata", "leaders", "read")
    faults = one_of("probe_reports", "fault", "ours", "here", "theirs")
    move("sightings", "probe_reports", ("cluster", "viewpoint"), PROBE_REPORTS, layers, faults)
    verdicts = one_of("cluster_status", "verdict", *VERDICTS)
    move("beliefs", "cluster_status", ("cluster",), CLUSTER_STATUS, verdicts)
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{GUARD} WHEN (NEW.term < OLD.term) BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END")
    else:
        op.execute(f"{GUARD} WHEN (NEW.term < OLD.term) EXECUTE FUNCTION tideover_refuse('{SENTENCE}')")


def move(
    old: str,
    new: str,
    keys: Sequence[str],
    columns: Sequence[tuple[str, Any, bool]],
    *checks: sa.CheckConstraint,
) -> None:
    """Copy a table to one of another name; dropping it takes its trigger along."""
    made: list[sa.Column[Any]] = [
        sa.Column(name, kind, primary_key=name in keys, nullable=not (needed or name in keys))
        for name, kind, needed in columns
    ]
    op.create_table(new, *made, *checks)
    names = ", ".join(name for name, _, _ in columns)
    op.execute(f"INSERT INTO {new} ({names}) SELECT {names} FROM {old}")
    op.drop_table(old)


def one_of(table: str, column: str, *words: str) -> sa.CheckConstraint:
    listed = ", ".join(f"'{word}'" for word in words)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=f"{table}_{column}_known")


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
