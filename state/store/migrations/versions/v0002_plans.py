"""What a standby runner found out about the plans of the queries that it may take over."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A registration of before tells of no query."""
    op.add_column("runners", sa.Column("plans", sa.JSON(), nullable=False, server_default="{}"))
