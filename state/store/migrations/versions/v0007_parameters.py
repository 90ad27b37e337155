"""What a kind of operation needs beside its target, and how far back a query's checkpoint reaches."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Requests and operations of before have none; runners tell the time with their next report."""
    for table in ("requests", "operations"):
        op.add_column(table, sa.Column("parameters", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("query_facts", sa.Column("retained_from", TIME))


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
