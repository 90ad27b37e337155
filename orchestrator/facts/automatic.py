"""What automatic mode judges by, read from the store: before it asks for a move, and again before the move is begun.

Between the two a leader may die, freeze, or be told to leave the query alone; so what was judged once is never acted
upon, only what is judged now.
"""

from collections.abc import Mapping

from orchestrator.decide.gates.automatic import AutomaticFacts
from orchestrator.decide.move_facts import MoveFacts
from state.model.cluster_status import ClusterStatus
from state.store.controller_store import ControllerStore


def automatic_facts_of(
    store: ControllerStore, facts: MoveFacts, *, statuses: Mapping[str, ClusterStatus], term: int
) -> AutomaticFacts:
    """The facts for one automatic move as they are now, for the process that leads. Raises ``StoreError``."""
    return AutomaticFacts(
        facts=facts,
        now=store.now(),
        term=term,
        statuses=statuses,
        pauses=tuple(store.pauses()),
        operations=tuple(store.operations(query=facts.query)),
        acknowledged=frozenset(each.operation for each in store.acknowledgements(facts.query)),
    )
