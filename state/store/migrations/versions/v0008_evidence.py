"""The evidence of closed operations, in a chain of hashes: rows are added, and only a document may go.

Operations that closed before the upgrade get theirs from the next controller that leads.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TEXT = sa.Text()
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")

STAYS = "evidence stays: later documents name its hash"
UNCHANGED = "evidence is append-only: only its document may go"
CHANGED = (
    "NEW.document IS NOT NULL OR NEW.sequence <> OLD.sequence OR NEW.operation <> OLD.operation"
    " OR NEW.query <> OLD.query OR NEW.sha256 <> OLD.sha256 OR NEW.previous <> OLD.previous"
    " OR NEW.written_at <> OLD.written_at"
)


def upgrade() -> None:
    """A table of its own, and the triggers that keep it."""
    op.create_table(
        "evidence",
        sa.Column("sequence", sa.BigInteger(), primary_key=True, autoincrement=False),
        sa.Column("operation", NAME, nullable=False, unique=True),
        sa.Column("query", NAME, nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("previous", TEXT, nullable=False, unique=True),
        sa.Column("written_at", TIME, nullable=False),
        sa.Column("document", TEXT),
        sa.CheckConstraint("sequence >= 1", name="evidence_sequence_positive"),
    )
    guard("evidence_unchanged", "UPDATE", f" WHEN ({CHANGED})", UNCHANGED)
    guard("evidence_stays", "DELETE", "", STAYS)
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE TRIGGER evidence_untruncated BEFORE TRUNCATE ON evidence FOR EACH STATEMENT"
            f" EXECUTE FUNCTION tideover_refuse('{STAYS}')"
        )


def guard(name: str, verb: str, when: str, sentence: str) -> None:
    head = f"CREATE TRIGGER {name} BEFORE {verb} ON evidence FOR EACH ROW{when}"
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{head} BEGIN SELECT RAISE(ABORT, '{sentence}'); END")
    else:
        op.execute(f"{head} EXECUTE FUNCTION tideover_refuse('{sentence}')")


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
