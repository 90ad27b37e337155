"""What each check measured of a query's standby, for plots of the last hours."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """The plots begin with the next check."""
    op.create_table(
        "standby_samples",
        sa.Column("query", NAME, primary_key=True),
        sa.Column("sampled_at", TIME, primary_key=True),
        sa.Column("source", NAME, nullable=False),
        sa.Column("target", NAME, nullable=False),
        sa.Column("ready", sa.Boolean()),
        sa.Column("exposure_records", sa.BigInteger()),
        sa.Column("exposure_seconds", sa.Double()),
        sa.Column("copy_age_seconds", sa.Double()),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
