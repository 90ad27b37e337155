"""Triggers that guard what a key or a check cannot, and those of the first schema."""

from dataclasses import dataclass

from alembic import op


@dataclass(frozen=True, slots=True)
class Guard:
    """A trigger that refuses what ``when`` says; the same text serves both databases."""

    name: str
    table: str
    verb: str
    when: str
    sentence: str
    looks_into_other_tables: bool = False
    """PostgreSQL has no room for such a condition in the trigger: a function of its own holds it there."""


EVIDENCE_STAYS = "evidence stays: later documents name its hash"

FIRST_GUARDS = (
    Guard(
        "leases_term_grows",
        "leases",
        "UPDATE",
        "NEW.term < OLD.term OR (NEW.holder <> OLD.holder AND NEW.term = OLD.term)",
        "a term only grows, and grows with every change of holder",
    ),
    Guard("leases_stay", "leases", "DELETE", "", "a lease stays: its term would start again"),
    Guard(
        "assignments_epoch_grows",
        "assignments",
        "UPDATE",
        "NEW.epoch < OLD.epoch OR NEW.epoch > OLD.epoch + 1",
        "an epoch only grows, by one",
    ),
    Guard(
        "assignments_say_where_they_are_placed",
        "assignments",
        "UPDATE",
        "NEW.placed_epoch < OLD.placed_epoch"
        " OR (NEW.placed_epoch <> NEW.epoch AND (NEW.cluster <> OLD.cluster OR NEW.checkpoint <> OLD.checkpoint))",
        "another cluster or checkpoint is placed by the epoch that commits it",
    ),
    Guard(
        "operations_stay_closed",
        "operations",
        "UPDATE",
        "OLD.outcome IS NOT NULL AND (NEW.outcome IS NULL OR NEW.outcome <> OLD.outcome)",
        "a closed operation is never opened again",
    ),
    Guard("intents_stay_answered", "intents", "UPDATE", "OLD.state <> 'pending'", "an intent is answered once"),
    Guard(
        "query_facts_epoch_grows",
        "query_facts",
        "UPDATE",
        "NEW.epoch < OLD.epoch",
        "a fact of an old epoch is late",
    ),
    Guard(
        "cluster_status_term_grows",
        "cluster_status",
        "UPDATE",
        "NEW.term < OLD.term",
        "a verdict of an old term is late",
    ),
    Guard("operations_end_first", "operations", "DELETE", "OLD.outcome IS NULL", "an open operation stays"),
    Guard("history_unchanged", "history", "UPDATE", "", "history is append-only"),
    Guard(
        "retention_moves_on",
        "retention",
        "UPDATE",
        "NEW.kept_from < OLD.kept_from OR NEW.kind <> OLD.kind",
        "what is not kept cannot be kept again",
    ),
    Guard(
        "evidence_unchanged",
        "evidence",
        "UPDATE",
        "NEW.document IS NOT NULL OR NEW.sequence <> OLD.sequence OR NEW.operation <> OLD.operation"
        " OR NEW.query <> OLD.query OR NEW.sha256 <> OLD.sha256 OR NEW.previous <> OLD.previous"
        " OR NEW.written_at <> OLD.written_at",
        "evidence is append-only: only its document may go",
    ),
    Guard("evidence_stays", "evidence", "DELETE", "", EVIDENCE_STAYS),
    Guard(
        "assignments_stay",
        "assignments",
        "DELETE",
        "EXISTS (SELECT 1 FROM query_facts WHERE query = OLD.query)"
        " OR EXISTS (SELECT 1 FROM operations WHERE query = OLD.query AND outcome IS NULL)",
        "an assignment stays while its query is reported or moved: its epoch would start again",
        looks_into_other_tables=True,
    ),
    Guard(
        "history_undeleted",
        "history",
        "DELETE",
        "COALESCE(OLD.at >= (SELECT kept_from FROM retention WHERE kind = 'history'), 1 = 1)",
        "history is append-only: lines go when they are older than what is kept",
        looks_into_other_tables=True,
    ),
)


def create_guard(guard: Guard) -> None:
    """Create the trigger. PostgreSQL needs the function ``tideover_refuse`` first."""
    head = f"CREATE TRIGGER {guard.name} BEFORE {guard.verb} ON {guard.table} FOR EACH ROW"
    when = f" WHEN ({guard.when})" if guard.when else ""
    if op.get_context().dialect.name == "sqlite":
        op.execute(f"{head}{when} BEGIN SELECT RAISE(ABORT, '{guard.sentence}'); END")
    elif guard.looks_into_other_tables:
        op.execute(
            f"CREATE FUNCTION tideover_{guard.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF {guard.when} THEN RAISE EXCEPTION '{guard.sentence}'"
            " USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN OLD; END $$"
        )
        op.execute(f"{head} EXECUTE FUNCTION tideover_{guard.name}()")
    else:
        op.execute(f"{head}{when} EXECUTE FUNCTION tideover_refuse('{guard.sentence}')")
