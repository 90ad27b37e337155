"""What a runner reported last of one query, and which process that was."""

from collections.abc import Iterable

from state.model import Assignment, QueryFact, RunnerFact
from state.ports import Store
from state.protocol import Process


def fact_of(store: Store, query: str) -> QueryFact | None:
    """The newest report of a query; None before the first. Raises ``StoreError``.

    Who also asks for the assignment asks for it after this: else a move in between would look like an older store.
    """
    return next((fact for fact in store.query_facts() if fact.query == query), None)


def hosting_process(assignment: Assignment, fact: QueryFact | None, runners: Iterable[RunnerFact]) -> Process | None:
    """The process that ran the query last, or may have.

    A runner to which the query was given without a word from it since, where the fact is another runner's of before,
    may have started it all the same.
    """
    if fact is None or (fact.epoch != assignment.epoch and fact.runner != assignment.runner):
        given = next((registered for registered in runners if registered.runner == assignment.runner), None)
        return Process.of_fact(given) if given is not None else None
    return Process.of_query(fact)
