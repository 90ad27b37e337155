"""An assignment may go with its query: once no runner reports the query and no operation of it is open.

Until now it never went, so that its epoch could not start again under a runner that still holds a later one.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SENTENCE = "an assignment stays while its query is reported or moved: its epoch would start again"
IN_USE = (
    "EXISTS (SELECT 1 FROM query_facts WHERE query = OLD.query)"
    " OR EXISTS (SELECT 1 FROM operations WHERE query = OLD.query AND outcome IS NULL)"
)
TRIGGER = "CREATE TRIGGER assignments_stay BEFORE DELETE ON assignments FOR EACH ROW"


def upgrade() -> None:
    """Put another condition in the place of none."""
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER assignments_stay")
        op.execute(f"{TRIGGER} WHEN {IN_USE} BEGIN SELECT RAISE(ABORT, '{SENTENCE}'); END")
        return
    op.execute("DROP TRIGGER assignments_stay ON assignments")
    op.execute(  # a condition that looks into other tables has no place in the trigger itself
        "CREATE FUNCTION tideover_keep_assignment() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {IN_USE} THEN RAISE EXCEPTION '{SENTENCE}'"
        " USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
    )
    op.execute(f"{TRIGGER} EXECUTE FUNCTION tideover_keep_assignment()")


def downgrade() -> None:
    """There is no way back but a backup."""
    raise NotImplementedError("restore the backup that was made before the upgrade")
