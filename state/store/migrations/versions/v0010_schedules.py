"""What shall be asked for later: switchovers at a time, and drills again and again."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
KINDS = ("failover", "switchover", "failback", "rewind", "drill")


def upgrade() -> None:
    """Nothing is scheduled yet."""
    listed = ", ".join(f"'{kind}'" for kind in KINDS)
    op.create_table(
        "schedules",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("queries", sa.JSON(), nullable=False),
        sa.Column("target", NAME),
        sa.Column("cron", sa.Text()),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("consents", sa.JSON(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("next_at", TIME),
        sa.Column("last_at", TIME),
        sa.Column("last_outcome", sa.Text()),
        sa.Column("cancelled_by", sa.Text()),
        sa.CheckConstraint(f"kind IN ({listed})", name="schedules_kind_known"),
    )


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
