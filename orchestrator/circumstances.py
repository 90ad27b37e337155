"""What automatic mode judges by, read from the store: before it asks for a move, and again before the move is begun.

Between the two a leader may die, freeze, or be told to leave the query alone; so what was judged once is never acted
upon, only what is judged now.
"""

from collections.abc import Mapping

from orchestrator.decide.automatic import Circumstances
from orchestrator.decide.facts import Facts
from state.ports import Store
from state.sighting import Belief


def circumstances_of(store: Store, facts: Facts, *, beliefs: Mapping[str, Belief], term: int) -> Circumstances:
    """The circumstances of one move as they are now, for the process that leads. Raises ``StoreError``."""
    return Circumstances(
        facts=facts,
        now=store.now(),
        term=term,
        beliefs=beliefs,
        pauses=tuple(store.pauses()),
        operations=tuple(store.operations(query=facts.query)),
        acknowledged=frozenset(each.operation for each in store.acknowledgements(facts.query)),
    )
