"""Whether a runner's Spark has the companion."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Runners tell it with their next heartbeat; one of before has none as far as a plan knows."""
    op.add_column("runners", sa.Column("companion", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
