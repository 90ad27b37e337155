"""Measuring what a move's forecast came to: records read again on the standby, and records that it never had.

The standby's log is read from where the query resumed, as far as the query has read it, and what was read last on the
old cluster is looked for. The old cluster is asked once, when it answers again: its log is searched for the last record
that the standby had. So a switchover is measured at once, and a failover when the dead cluster is back.
"""

from dataclasses import replace
from datetime import UTC, datetime

from orchestrator.decide.outcome import Left, to_compare, to_read, with_compared, with_read
from orchestrator.decide.reread import Key
from orchestrator.places import Logs
from orchestrator.reread import MOST_READ, READ_SECONDS, reached_by, read_again
from state.model import Operation, TopicPartition
from state.ports import Store
from state.settings import MethodName
from streaming.deadline import Deadline
from streaming.errors import KafkaError
from streaming.kafka.tail import read_tails
from streaming.log import Log, Spec
from streaming.lookup import ask
from streaming.ranges import read_ranges
from streaming.resolver import resolve
from streaming.resume.model import Rules, Want

ANSWER_SECONDS = 1.0
"""Within which a cluster that was left must answer a first question."""
TAIL = 64
"""Records before the standby's end by which its last one is found on the old cluster."""


def with_outcome(operation: Operation, store: Store, logs: Logs, silent: set[str] | None = None) -> Operation:
    """The operation with what can be measured by now. ``silent`` clusters are not asked, and are found out here."""
    if operation.outcome != "done" or "followed" not in (operation.plan or {}):
        return operation
    silent = set() if silent is None else silent
    for measure in (_with_replay, _with_exposure):
        try:
            operation = measure(operation, store, logs, silent)
        except KafkaError:
            continue
    return operation


def _with_replay(operation: Operation, store: Store, logs: Logs, silent: set[str]) -> Operation:
    reached = reached_by(operation, store)
    if reached is None:
        return operation
    plan = operation.plan or {}
    ranges = to_read(plan, reached, most=MOST_READ)
    if not ranges or operation.target in silent:
        return operation
    whole = read_again(logs(operation.target), ranges)
    return replace(operation, plan=with_read(plan, whole)) if whole else operation


def _with_exposure(operation: Operation, store: Store, logs: Logs, silent: set[str]) -> Operation:
    plan = operation.plan or {}
    asked_at_ms, left = to_compare(plan)
    if not left or operation.source in silent:
        return operation
    old = logs(operation.source)
    try:
        old.describe(sorted({each.topic for each in left}), timeout=ANSWER_SECONDS)
    except KafkaError:
        silent.add(operation.source)
        raise
    exposed = _exposed(old, logs(operation.target), left, asked_at_ms)
    return replace(operation, plan=with_compared(plan, exposed))


def _exposed(old: Log, standby: Log, left: list[Left], asked_at_ms: int) -> dict[Key, int | None]:
    """Data records of the old log between the last record that the standby had, and the time of the look-up."""
    deadline = Deadline.after(READ_SECONDS)
    ends = {TopicPartition(each.key.topic, each.key.partition): each.end for each in left}
    tails = read_tails(standby, ends, count=TAIL, timeout=deadline.remaining)
    wants = [
        Want(
            source=each.key.source, topic=each.key.topic, partition=each.key.partition, target_topic=each.topic,
            offset=each.end, ring=tuple(tails[TopicPartition(each.key.topic, each.key.partition)].records),
            ring_offset=each.end, dense=None, begin_known=None, timestamp_ms=None,
        )
        for each in left
    ]  # fmt: skip
    now = datetime.fromtimestamp(asked_at_ms / 1000, UTC)
    rules = Rules(methods=(MethodName.EXACT,), buffer_ms=0)
    found = resolve(old, wants, rules, old_ends={}, now=now, timeout=deadline.remaining)
    places = {
        Key(target.source, target.topic, target.partition): target.target_offset
        for target in found.targets
        if target.exact and target.target_offset is not None
    }
    keys = {each.key: TopicPartition(each.topic, each.partition) for each in left if each.key in places}
    later = ask(old, [(key, time) for key in keys.values() for time in (asked_at_ms + 1, Spec.LATEST)], deadline)
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for key, there in keys.items():
        after, end = later[there, asked_at_ms + 1], later[there, Spec.LATEST]
        last = end.offset if after.offset is None and after.error is None else after.offset
        if last is not None:
            ranges[there] = (places[key] or 0, max(places[key] or 0, last))
    records = read_ranges(old, ranges, limit=MOST_READ // max(1, len(ranges)), timeout=deadline.remaining)
    return {key: _count(records.get(there), ranges.get(there)) for key, there in keys.items()}


def _count(records: tuple[object, ...] | None, between: tuple[int, int] | None) -> int | None:
    """Records, or offsets where there are too many of them to read."""
    if records is not None:
        return len(records)
    return None if between is None else between[1] - between[0]
