"""Drills: a runner may be asked for one, and one may be open beside the move of its query.

SQLite cannot change a check of a table, so ``intents`` is created again there; every row is kept.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
KINDS = ("inspect", "fence", "prepare", "release", "drill")
STATES = ("pending", "done", "failed", "withdrawn")
COLUMNS = "id, operation, name, kind, query, runner, epoch, request, state, result, created_at, ended_at"
GUARD = "CREATE TRIGGER intents_stay_answered BEFORE UPDATE ON intents FOR EACH ROW"
SENTENCE = "an intent is answered once"


def upgrade() -> None:
    """Widen the check of intents, and count open moves and open drills of a query apart."""
    op.drop_index("operations_one_open", "operations")
    for name, condition in (("operations_one_open", "kind <> 'drill'"), ("operations_one_drill", "kind = 'drill'")):
        where = sa.text(f"outcome IS NULL AND {condition}")
        op.create_index(name, "operations", ["query"], unique=True, sqlite_where=where, postgresql_where=where)
    if op.get_context().dialect.name == "sqlite":
        make_intents_anew()
        return
    op.drop_constraint("intents_kind_known", "intents", type_="check")
    op.create_check_constraint("intents_kind_known", "intents", one_of("kind", KINDS))


def make_intents_anew() -> None:
    """Under another name first; dropping the old table takes its index and its trigger along."""
    op.create_table(
        "intents_0009",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("operation", NAME, sa.ForeignKey("operations.id"), nullable=False),
        *(sa.Column(name, NAME, nullable=False) for name in ("name", "kind", "query", "runner")),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("result", sa.JSON()),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.UniqueConstraint("operation", "name", name="intents_asked_once"),
        sa.CheckConstraint(one_of("kind", KINDS), name="intents_kind_known"),
        sa.CheckConstraint(one_of("state", STATES), name="intents_state_known"),
    )
    op.execute(f"INSERT INTO intents_0009 ({COLUMNS}) SELECT {COLUMNS} FROM intents")
    op.drop_table("intents")
    op.rename_table("intents_0009", "intents")
    waiting = sa.text("state = 'pending'")
    op.create_index("intents_pending", "intents", ["runner"], sqlite_where=waiting)
    op.execute(f"{GUARD} WHEN (OLD.state <> 'pending') BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END")


def one_of(column: str, words: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"{column} IN ({listed})"


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
