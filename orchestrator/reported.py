"""What a runner reported last of one query."""

from state.model import QueryFact
from state.ports import Store


def fact_of(store: Store, query: str) -> QueryFact | None:
    """The newest report of a query; None before the first. Raises ``StoreError``.

    Who also asks for the assignment asks for it after this: else a move in between would look like an older store.
    """
    return next((fact for fact in store.query_facts() if fact.query == query), None)
