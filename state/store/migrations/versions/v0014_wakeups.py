"""On PostgreSQL a request, an order, its answer and an assignment wake whoever waits for them."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Triggers that notify, once for each transaction; ``state.store.wakeups`` listens."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(
        "CREATE FUNCTION tideover_wake() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_notify('tideover', TG_TABLE_NAME); RETURN NULL; END $$"
    )
    for table in ("requests", "intents", "assignments"):
        op.execute(
            f"CREATE TRIGGER tideover_wake AFTER INSERT OR UPDATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION tideover_wake()"
        )


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
