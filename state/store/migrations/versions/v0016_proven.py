"""Of how many partitions the last check of a query found the exact resume offset."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The next check of each query tells it."""
    op.add_column("readiness", sa.Column("proven", sa.BigInteger()))
    op.add_column("readiness", sa.Column("partitions", sa.BigInteger()))


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
