"""What became of a move: what was read again, what came late, and what never came.

``with_outcome`` measures what the forecast came to, ``with_later`` counts what the move announced.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from orchestrator.decide.evidence.rows import operation_rows, rows_since
from orchestrator.decide.move.left_behind import to_compare, with_compared
from orchestrator.decide.move.outcome import (
    Reached,
    announced,
    came_later,
    looked_at,
    read_committed_of,
    to_look_at,
    to_read,
    totals_of,
    with_read,
)
from orchestrator.facts.current import latest_fact
from orchestrator.facts.exposed import count_exposed as count_exposed
from orchestrator.rounds import apart
from state.model.entities import Event, Operation, TopicPartition
from state.model.plan import Plan, StandbyPartition
from state.store.controller_store import ControllerStore
from state.store.runner_store import RunnerStore
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, LogRecord, Logs
from streaming.errors import KafkaError
from streaming.resolve.as_seen import Reader, Wanted, read_as_seen

MOST_READ = 200_000
"""Records of a partition that one look reads at most."""
READ_SECONDS = 5.0


def reached_by(operation: Operation, store: RunnerStore) -> Reached | None:
    """How far the query has read since this move; None where it has moved on, or has said nothing yet."""
    fact = latest_fact(store, operation.query)
    return None if fact is None or fact.epoch != operation.epoch else fact.offsets


def read_again(
    log: ClusterLog, ranges: Mapping[StandbyPartition, tuple[int, int]], plan: Plan
) -> dict[StandbyPartition, tuple[int, Sequence[LogRecord]]]:
    """The records of each range with its end, as the query reads them; what could not be read whole is left out.

    Raises ``KafkaError``.
    """
    only = read_committed_of(plan)
    wanted = {
        key: Wanted(Reader(TopicPartition(key.topic, key.partition), key in only), *between)
        for key, between in ranges.items()
    }
    found = read_as_seen(log, wanted, limit=MOST_READ, deadline=Deadline.after(READ_SECONDS))
    return {key: (ranges[key][1], records) for key, records in found.items() if records is not None}


ANSWER_SECONDS = 1.0
"""Within which a cluster that was left must answer a first question."""


def rows_now(operation: Operation, store: RunnerStore) -> dict[str, object] | None:
    """What the sink got before and after a move that was made, as far as it is known by now."""
    return operation_rows(_with_rows(operation, store))


def with_outcome(operation: Operation, store: ControllerStore, logs: Logs, silent: set[str] | None = None) -> Operation:
    """The operation with what can be measured by now. ``silent`` clusters get no request, and are found out here.

    The standby's log is read from where the query resumed, as far as the query has read it, and what was read last on
    the old cluster is looked for. The old cluster is read once, when it answers again: its log is searched for the
    last record that the standby had. So a switchover is measured at once, and a failover when the dead cluster is back.
    """
    if operation.outcome != "done" or operation.plan is None or operation.plan.followed is None:
        return operation
    silent = set() if silent is None else silent
    operation = _with_rows(operation, store)
    for measure in (_with_replay, _with_exposure):
        try:
            operation = measure(operation, store, logs, silent)
        except KafkaError:
            continue
    return replace(operation, measured=totals_of(operation))


def _with_rows(operation: Operation, store: RunnerStore) -> Operation:
    """With the rows that went through the query since, as its run reported them last; no cluster is read."""
    fact = latest_fact(store, operation.query)
    if fact is None or fact.epoch != operation.epoch:
        return operation
    since = rows_since(operation.measured.rows_since, fact)
    if since is None:
        return operation
    measured = replace(operation.measured, rows_since=since, dropped_late_rows=since.total.dropped)
    return replace(operation, measured=measured)


def _with_replay(operation: Operation, store: RunnerStore, logs: Logs, silent: set[str]) -> Operation:
    reached, plan = reached_by(operation, store), operation.plan
    if reached is None or plan is None:
        return operation
    ranges = to_read(plan, reached, most=MOST_READ)
    if not ranges or operation.target in silent:
        return operation
    whole = read_again(logs(operation.target), ranges, plan)
    return replace(operation, plan=with_read(plan, whole)) if whole else operation


def _with_exposure(operation: Operation, store: ControllerStore, logs: Logs, silent: set[str]) -> Operation:
    plan = operation.plan
    asked_at_ms, left = to_compare(plan)
    if plan is None or not left or operation.source in silent:
        return operation
    old = logs(operation.source)
    try:
        old.describe(sorted({each.topic for each in left}), timeout=ANSWER_SECONDS)
    except KafkaError:
        silent.add(operation.source)
        raise
    exposed = count_exposed(old, logs(operation.target), left, asked_at_ms)
    return replace(operation, plan=with_compared(plan, exposed))


LONGEST = timedelta(days=1)
"""How long after a move its records are waited for: a replicator that comes back later has its offsets expired."""


def with_later(operation: Operation, store: RunnerStore, logs: Logs) -> Operation:
    """The operation, with what has come of its announced records by now. Without any, no cluster is read.

    Those are records that the replicator appended later, and that the query read again. The standby's log is read from
    the resume offset to the newest record read, and the fingerprints kept with the operation are looked for. A
    controller does so each minute, keeps the number, and continues from there the next time. Without one a verb that
    looks does it, all at once, and there is a limit to that. Where it cannot be done, as when the query has moved on,
    the number that was kept last counts, and none at all is unknown.
    """
    if not announced(operation) or operation.measured.replay_later_records == announced(operation):
        return operation
    reached, plan = reached_by(operation, store), operation.plan
    if reached is None or plan is None:
        return operation
    ranges = to_look_at(plan, reached)
    try:
        whole = read_again(logs(operation.target), ranges, plan)
    except KafkaError:
        return operation
    plan = looked_at(plan, whole)
    if len(whole) < len(ranges):
        return replace(operation, plan=plan)
    measured = replace(operation.measured, replay_later_records=came_later(plan))
    return replace(operation, plan=plan, measured=measured)


def keep_counts(
    queries: Iterable[str],
    store: ControllerStore,
    logs: Logs,
    *,
    term: Callable[[], int | None],
    at: datetime,
    actor: str,
) -> int:
    """Count again for the last move of each query and keep it, with a line of history when the number has grown.

    What its forecast came to is measured and kept, too. Returns how many numbers grew. Raises ``StoreError``; what was
    kept before stays. What goes wrong with one query is raised when all others have been measured.
    """
    grew, silent, wrong = 0, set[str](), list[Exception]()
    for query in queries:
        with apart(wrong):
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
            store.record(counted, term=leading, events=[_event(counted, at=at, actor=actor)] if has_grown else [])
            grew += has_grown
    if wrong:
        raise wrong[0]
    return grew


def _number(operation: Operation) -> int:
    return operation.measured.replay_later_records or 0


def _event(operation: Operation, *, at: datetime, actor: str) -> Event:
    text = (
        f"{operation.measured.replay_later_records} of {announced(operation)} announced records came to"
        f" {operation.target} and were read again by {operation.query}"
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
