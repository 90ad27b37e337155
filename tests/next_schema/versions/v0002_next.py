"""The next schema: operations carry a ticket, and an index finds it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Every operation of before has the ticket "none"."""
    op.add_column("operations", sa.Column("ticket", sa.Text(), nullable=False, server_default="none"))
    op.create_index("operations_ticket", "operations", ["ticket"])


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
