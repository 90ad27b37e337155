"""How far each receiver of notices has been told of the history."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """No notice was sent yet."""
    op.create_table(
        "notice_cursors",
        sa.Column("target", NAME, primary_key=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("incidents", sa.JSON(), nullable=False),
        sa.Column("told_at", TIME),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("failing_since", TIME),
        sa.Column("error", sa.Text(), nullable=False),
    )


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
