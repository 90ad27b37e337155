"""What the tab in Spark's UI shows of each query, as the store has it: its state, its readiness, its last move.

Where the query reads and as what it was admitted is known in the driver, and shown from there.
"""

from collections.abc import Mapping

from state.model.entities import Assignment, Desired, Operation, QueryFact
from state.model.maintenance import ReadinessFact
from state.store.runner_store import RunnerStore

Shown = Mapping[str, str]


def shown_queries(store: RunnerStore, queries: Mapping[str, str]) -> list[Shown]:
    """One entry for each query; ``queries`` is by the key of a checkpoint. Raises ``StoreError``."""
    found: list[Shown] = []
    for key, query in sorted(queries.items()):
        row = store.assignment(query)
        fact = next(iter(store.query_facts(query=query)), None)
        ready = next(iter(store.readiness(query=query)), None)
        operation = None if row is None or row.operation is None else store.operation(row.operation)
        found.append({
            "key": key,
            "query": query,
            "reads": "" if row is None else row.cluster,
            "epoch": "" if row is None else str(row.epoch),
            "state": _state(row, fact),
            "readiness": _readiness(ready),
            "move": _move(operation),
        })  # fmt: skip
    return found


def _state(row: Assignment | None, fact: QueryFact | None) -> str:
    if row is None:
        return "not started yet"
    if row.desired is not Desired.RUNNING:
        return f"held by operation {row.operation}"
    if fact is None:
        return "not started yet"
    return str(fact.state) if fact.error is None else f"{fact.state}: {fact.error}"


def _readiness(ready: ReadinessFact | None) -> str:
    if ready is None:
        return "no check yet: a controller makes them"
    word = {True: "READY", False: "NOT READY", None: "UNKNOWN"}[ready.ready]
    against = [f"{gate['name']}: {gate['text']}" for gate in ready.gates if not gate["ok"]]
    return "; ".join([f"{word} for {ready.target}", *against])


def _move(operation: Operation | None) -> str:
    if operation is None:
        return "none"
    at = operation.ended_at or operation.started_at
    what = f"{operation.kind} from {operation.source} to {operation.target}"
    return f"{what}: {operation.outcome or operation.phase}, {at.isoformat(timespec='seconds')} ({operation.id})"
