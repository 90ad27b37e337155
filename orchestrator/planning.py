"""A plan without an operation: the same facts and gates, from what the runners last reported. Changes nothing."""

from dataclasses import replace

from orchestrator.decide import gates
from orchestrator.decide.facts import Standby
from orchestrator.decide.plan import plan_json
from orchestrator.decide.wants import report_of_fact
from orchestrator.places import DESCRIBE_SECONDS, Places
from state.model import OperationKind, QueryFact
from state.ports import Store
from state.protocol import CheckpointReport
from streaming.errors import KafkaError


def plan_query(
    places: Places,
    store: Store,
    kind: OperationKind,
    query: str,
    target: str,
    *,
    consents: frozenset[str] = frozenset(),
    expect_active: str | None = None,
) -> dict[str, object]:
    """The plan as JSON (DESIGN section 6), ``refused`` when a gate says no."""
    facts = places.before(kind, query, target, consents=consents, expect_active=expect_active)
    facts = replace(facts, fence="pending")
    fact: QueryFact | None = next((fact for fact in store.query_facts() if fact.query == query), None)
    movable = facts.route is not None and facts.source != target and facts.assignment is not None
    if movable and facts.assignment is not None and facts.standby is not None and facts.standby.reachable:
        report = _last_report(fact, facts.assignment.checkpoint, facts.source)
        try:
            facts = places.after(facts, report, stateful=fact.stateful if fact else None)
        except KafkaError as error:
            gone = Standby(reachable=False, seconds=0.0, limit_seconds=DESCRIBE_SECONDS, error=str(error))
            facts = replace(facts, standby=gone)
    return plan_json(facts, gates.judge(facts))


def _last_report(fact: QueryFact | None, checkpoint: str, source: str) -> CheckpointReport:
    if fact is None or fact.cluster != source:
        return CheckpointReport(checkpoint=checkpoint, batch=None, offsets={})
    return report_of_fact(fact, checkpoint)
