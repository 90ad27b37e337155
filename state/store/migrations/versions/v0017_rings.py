"""What is remembered of a partition's records stands behind the other columns of a position."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

KEY = ("query", "epoch", "batch", "source", "topic", "partition")
OTHERS = ("cluster", "offset", "timestamp_ms", "leader_epoch", "topic_id", "dense", "tracked_at", "ring")
TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    **dict.fromkeys(("query", "source", "topic", "cluster", "topic_id", "tracked_at"), sa.Text()),
    **dict.fromkeys(("epoch", "batch", "offset", "timestamp_ms"), sa.BigInteger()),
    **dict.fromkeys(("partition", "leader_epoch"), sa.Integer()),
    "dense": sa.Boolean(),
    "ring": sa.LargeBinary(),
}
UNKNOWN = {"timestamp_ms", "leader_epoch", "topic_id", "dense"}
"""Columns that may be empty."""


def upgrade() -> None:
    """SQLite reads a row from its start, through 8 KB of a ring to what stands behind it; PostgreSQL keeps rings apart.

    A look-up of 3,500 partitions reads 42,000 positions, and the rings of 3,500 of them.
    """
    if op.get_bind().dialect.name != "sqlite":
        return
    names = ", ".join(f'"{name}"' for name in (*KEY, *OTHERS))
    op.rename_table("positions", "positions_before")
    op.create_table(
        "positions",
        *(sa.Column(name, TYPES[name], primary_key=True) for name in KEY),
        *(sa.Column(name, TYPES[name], nullable=name in UNKNOWN) for name in OTHERS),
    )
    op.execute(sa.text(f"INSERT INTO positions ({names}) SELECT {names} FROM positions_before"))
    op.drop_table("positions_before")


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
