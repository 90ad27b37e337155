"""Counting what a move announced: records that the replicator appended later, and that the query read again.

The standby's log is read from where the query resumed to where it stands now, and the fingerprints kept with the
operation are looked for. A controller does so each minute, keeps the number, and goes on from there the next time;
without one it is done when somebody looks, all at once, and there is a limit to that. Where it cannot be done, as when
the query has moved on, the number that was kept last stands, and none at all is unknown.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.decide.awaited import announced, came_later, looked_at, to_look_at
from orchestrator.outcome import with_outcome
from orchestrator.places import Logs
from orchestrator.reread import reached_by, read_again
from state.model import Event, Operation
from state.ports import Store
from streaming.errors import KafkaError

LONGEST = timedelta(days=1)
"""How long after a move its records are waited for: a replicator that comes back later has its offsets expired."""
MEASURE = "replay_later_records"


def with_later(operation: Operation, store: Store, logs: Logs) -> Operation:
    """The operation, with what has come of its announced records by now. Where none were announced nobody is asked."""
    if not announced(operation) or operation.measured.get(MEASURE) == announced(operation):
        return operation
    reached = reached_by(operation, store)
    if reached is None:
        return operation
    ranges = to_look_at(operation.plan or {}, reached)
    try:
        whole = read_again(logs(operation.target), ranges)
    except KafkaError:
        return operation
    plan = looked_at(operation.plan or {}, whole)
    if len(whole) < len(ranges):
        return replace(operation, plan=plan)
    return replace(operation, plan=plan, measured={**operation.measured, MEASURE: came_later(plan)})


def keep_counts(
    queries: Iterable[str], store: Store, logs: Logs, *, term: Callable[[], int | None], at: datetime, actor: str
) -> int:
    """Count anew for the last move of each query and keep it, with a line of history when the number has grown.

    What its forecast came to is measured and kept, too. Returns how many numbers grew. Raises ``StoreError``; what was
    kept before stays.
    """
    grew, silent = 0, set[str]()
    for query in queries:
        newest = next(iter(store.operations(query=query, limit=1)), None)
        if newest is None or newest.ended_at is None or at - newest.ended_at > LONGEST:
            continue
        counted = with_outcome(with_later(newest, store, logs), store, logs, silent)
        leading = term()
        if leading is None:
            return grew
        if counted == newest:
            continue
        has_grown = _number(counted) > _number(newest)
        store.record(counted, term=leading, events=[_told(counted, at=at, actor=actor)] if has_grown else [])
        grew += has_grown
    return grew


def _number(operation: Operation) -> int:
    known = operation.measured.get(MEASURE)
    return known if isinstance(known, int) else 0


def _told(operation: Operation, *, at: datetime, actor: str) -> Event:
    text = (
        f"{operation.measured[MEASURE]} of {announced(operation)} announced records came to {operation.target}"
        f" and were read again by {operation.query}"
    )
    return Event(
        sequence=None,
        at=at,
        kind="replayed",
        query=operation.query,
        operation=operation.id,
        epoch=operation.epoch,
        actor=actor,
        text=text,
    )
