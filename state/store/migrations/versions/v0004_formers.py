"""The checkpoints that queries have left, and whether they were cleaned.

What was left before the upgrade is not known here: nothing will clean it.
"""

import sqlalchemy as sa
from alembic import op

from state.store.sql.columns import Instant, Name

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table of its own."""
    op.create_table(
        "formers",
        sa.Column("query", Name, primary_key=True),
        sa.Column("checkpoint", Name, primary_key=True),
        sa.Column("placed_epoch", sa.BigInteger(), nullable=False),
        sa.Column("left_epoch", sa.BigInteger(), nullable=False),
        sa.Column("left_at", Instant(), nullable=False),
        sa.Column("operation", Name),
        sa.Column("runner", Name),
        sa.Column("asked_at", Instant()),
        sa.Column("cleaned_at", Instant()),
        sa.Column("files", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("refused", sa.Text()),
        sa.CheckConstraint("cleaned_at IS NULL OR asked_at IS NOT NULL", name="formers_cleaned_as_asked"),
        sa.CheckConstraint("asked_at IS NULL OR runner IS NOT NULL", name="formers_asked_of_somebody"),
    )


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
