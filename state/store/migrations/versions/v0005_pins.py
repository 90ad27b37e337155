"""Which Kafka cluster stands behind a name: the id that each look saw, and the one that is pinned."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
TIME = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Nothing is pinned: the first id that is seen from now on is."""
    op.add_column("sightings", sa.Column("cluster_id", sa.Text()))
    op.create_table(
        "pins",
        sa.Column("cluster", NAME, primary_key=True),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("pinned_at", TIME, nullable=False),
        sa.Column("replaced_at", TIME),
        sa.Column("former", sa.JSON(), nullable=False),
    )


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
