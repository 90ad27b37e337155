"""The cluster that a query leaves: how far its topics go, which of them are new, what proves that it is copied, and who
stamps its records."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from orchestrator.decide.gates.gate import UNKNOWN
from orchestrator.decide.lookup_wants import newest_of
from orchestrator.decide.move_facts import EventTimes, MoveFacts, Replicating, Reset
from orchestrator.decide.times import length
from orchestrator.decide.truncation import sampled_standings
from state.errors import Damaged
from state.model.column_uses import TIMES
from state.model.entities import EndSample, OperationKind, Position, TopicPartition
from state.model.fingerprints import LIMIT
from state.settings.keys import Query, Route, Tideover
from state.settings.topics import pattern_of, renaming
from state.store.controller_store import ControllerStore
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Spec, TopicFacts
from streaming.errors import ClusterUnreachable, KafkaError
from streaming.last_records import read_last_records
from streaming.resolve.batched_lookups import request_newest
from streaming.resolve.comparison import validate
from streaming.resume.model import Rules, Target, Want
from streaming.resume.target import failed_target
from streaming.resume.truncation import Goto, Standing

TIMEOUT_SECONDS = 2.0


def has_patterns(query: Query) -> bool:
    """Whether any source of a query subscribes by a pattern."""
    return any(source.pattern is not None for source in query.sources.values())


def new_topic_wants(
    log: ClusterLog, settings: Tideover, query: Query, *, source: str, target: str, wants: Sequence[Want]
) -> tuple[Want, ...]:
    """One want for each partition of the topics that match on ``target`` and that no want of their source names.

    ``source`` is the cluster that is left; its name for such a topic is in the want.

    Raises ``KafkaError`` when the cluster cannot be reached.

    A pattern may find topics there that the query has not read: made during the outage, or only there. Spark reads
    whatever matches its pattern. A checkpoint that does not name such a topic lets it begin at offset 0, which fails
    where retention has worked. And starting offsets that do not name all that matches are refused. So every partition
    of them gets a place like any other: nothing was read of it, so it begins at the standby's begin.
    """
    names = log.names(timeout=TIMEOUT_SECONDS)
    found = list(_matching(settings, query, target, names=sorted(names), wants=wants))
    described = log.describe(sorted({topic for _, topic in found}), timeout=TIMEOUT_SECONDS) if found else {}
    there = renaming(settings, target, source)
    return tuple(
        Want(
            source=name,
            topic=there(topic),
            partition=partition,
            target_topic=topic,
            offset=0,
            ring=(),
            ring_offset=None,
            dense=None,
            begin_known=0,
            timestamp_ms=None,
        )
        for name, topic in found
        for partition in sorted(described[topic].partitions)
    )


def _matching(
    settings: Tideover, query: Query, target: str, *, names: Sequence[str], wants: Sequence[Want]
) -> Iterator[tuple[str, str]]:
    for name, source in query.sources.items():
        pattern = pattern_of(settings, query, source, target)
        if pattern is None:
            continue
        known = {want.target_topic for want in wants if want.source == name}
        yield from ((name, topic) for topic in names if topic not in known and re.fullmatch(pattern, topic))


def unseen_samples(wants: Sequence[Want], cluster: str, now: datetime) -> Mapping[TopicPartition, EndSample]:
    """Samples of partitions that the old cluster was never seen to have: they lack nothing there."""
    return {
        TopicPartition(want.topic, want.partition): EndSample(
            cluster=cluster,
            topic=want.topic,
            partition=want.partition,
            begin=0,
            end=0,
            newest_timestamp_ms=None,
            leader_epoch=None,
            topic_id=None,
            sampled_at=now,
        )
        for want in wants
    }


DESCRIBE_SECONDS = 2.0
LEFT_SECONDS = 0.5
"""How long a cluster that is being left in a failover may take to answer whether its log was cut."""
JUST_NOW = timedelta(seconds=2)
"""Ends sampled so lately say that a cluster answers."""


def standings_of(
    log: ClusterLog | None,
    facts: MoveFacts,
    positions: Sequence[Position],
    ends: Mapping[TopicPartition, EndSample],
    now: datetime,
) -> tuple[Standing, ...] | None:
    """What became of the positions in the log that they were read from; None where nothing shows it.

    As a rule a failover leaves a cluster that is gone, and does not wait for it. It is read only for a person who moves
    away from one that answered a moment ago. Else what was last sampled of it must do. Without a ``log`` no cluster can
    be read.
    """
    seen = max((sample.sampled_at for sample in ends.values()), default=None)
    answered = seen is not None and now - seen < JUST_NOW
    planned = facts.kind is not OperationKind.FAILOVER
    if log is not None and positions and (planned or (facts.attended and answered)):
        with suppress(KafkaError):
            return validate(log, positions, timeout=DESCRIBE_SECONDS if planned else LEFT_SECONDS)
    return sampled_standings(positions, ends)


def common_history(
    log: ClusterLog | None, positions: Sequence[Position], resets: Iterable[Reset], committed_only: Collection[str]
) -> list[Position]:
    """Positions at the offsets of divergence, with the records before them as the cut log still holds them.

    Up to there both histories are one, and a reader that had come further may remember nothing of it. Sources in
    ``committed_only`` see only what is committed. Empty where the cluster does not answer; then what was remembered
    must do.
    """
    back = {
        (reset.source, reset.partition): reset.divergence
        for reset in resets
        if reset.goto is Goto.DIVERGENCE and reset.divergence
    }
    rows = [row for row in newest_of(positions) if (row.source, TopicPartition(row.topic, row.partition)) in back]
    found: list[Position] = []
    if log is None:
        return found
    for committed in (False, True):
        alike = [row for row in rows if (row.source in committed_only) is committed]
        try:
            found += _with_records(log, alike, back, read_committed=committed)
        except KafkaError:
            return []
    return found


def _with_records(
    log: ClusterLog, rows: Sequence[Position], back: Mapping[tuple[str, TopicPartition], int], *, read_committed: bool
) -> list[Position]:
    ends = {(key := TopicPartition(row.topic, row.partition)): back[row.source, key] for row in rows}
    tails = (
        read_last_records(log, ends, count=LIMIT, timeout=DESCRIBE_SECONDS, read_committed=read_committed)
        if rows
        else {}
    )
    found = []
    for row in rows:
        key = TopicPartition(row.topic, row.partition)
        tail, divergence = tails[key], back[row.source, key]
        if tail.error is None and tail.records and divergence == ends[key]:
            newest_ms = tail.records.newest_timestamp
            found.append(replace(row, offset=divergence, ring=tail.records, timestamp_ms=newest_ms, dense=None))
    return found


def end_wants(log: ClusterLog, topic: str, *, timeout: float) -> tuple[Want, ...]:
    """One want for the end of each partition of a topic, with the records before it; empty where there is no topic.

    Raises ``KafkaError`` where one of them is unknown.
    """
    described = log.describe([topic], timeout=timeout).get(topic)
    keys = [TopicPartition(topic, number) for number in sorted(described.partitions)] if described is not None else []
    ends = _offsets(log, keys, Spec.LATEST, timeout=timeout)
    begins = _offsets(log, keys, Spec.EARLIEST, timeout=timeout)
    tails = read_last_records(log, ends, count=LIMIT, timeout=timeout) if keys else {}
    failed = next((tail.error for tail in tails.values() if tail.error is not None), None)
    if failed is not None:
        raise ClusterUnreachable(f"the end of {topic} cannot be read: {failed.text}")
    return tuple(
        Want(
            source=topic,
            topic=topic,
            partition=key.partition,
            target_topic=topic,
            offset=ends[key],
            ring=tails[key].records,
            ring_offset=ends[key] if tails[key].records else None,
            dense=True if tails[key].records else None,
            begin_known=begins[key],
            timestamp_ms=tails[key].records.newest_timestamp,
        )
        for key in keys
    )


def ends_of(log: ClusterLog, topic: str, *, timeout: float) -> dict[int, int]:
    """By partition, the end of a topic's log, open transactions included; empty where there is no topic.

    Raises ``KafkaError`` where one of them is unknown.
    """
    described = log.describe([topic], timeout=timeout).get(topic)
    keys = [TopicPartition(topic, number) for number in described.partitions] if described is not None else []
    ends = _offsets(log, keys, Spec.LATEST, timeout=timeout, read_committed=False)
    return {key.partition: end for key, end in ends.items()}


def unknown_end(topic: str, rules: Rules, why: str) -> Target:
    """What stands for the ends of a topic that could not be compared."""
    want = Want(
        source=topic, topic=topic, partition=0, target_topic=topic, offset=0, ring=(), ring_offset=None, dense=None,
        begin_known=None, timestamp_ms=None,
    )  # fmt: skip
    return replace(failed_target(want, rules, None), note=why)


def _offsets(
    log: ClusterLog, keys: Sequence[TopicPartition], spec: Spec, *, timeout: float, read_committed: bool = True
) -> dict[TopicPartition, int]:
    found = log.offsets(dict.fromkeys(keys, spec), read_committed=read_committed, timeout=timeout) if keys else {}
    unknown = next((key for key, each in found.items() if each.offset is None), None)
    if unknown is not None:
        raise ClusterUnreachable(f"the {spec.name.lower()} offset of {unknown.topic}-{unknown.partition} is unknown")
    return {key: each.offset for key, each in found.items() if each.offset is not None}


ANSWER_SECONDS = 2.0
COPIED_WITHIN_SECONDS = 30.0
"""How old the newest copy may be. MirrorMaker 2 sends a heartbeat each second, and may wait for a full batch."""
STILL_WITHIN_SECONDS = 10.0
"""A replicator that shall not run counts as running up to this age, so that no move waits long after it was stopped."""


def query_replicator(
    log: ClusterLog, route: Route, now: datetime, *, within_seconds: float = COPIED_WITHIN_SECONDS
) -> Replicating:
    """What the newest heartbeat on a route's target says of its replicator. ``now`` is the store's time.

    A heartbeat is written to the source and copied like any record (MirrorMaker 2, KIP-382), so the newest one on the
    standby shows when the replicator copied last. Records are no proof: a producer may write to the standby, too.
    """
    heartbeats = route.heartbeats
    if heartbeats is None:
        text = f"the route from {route.source} to {route.target} declares no heartbeats: nothing proves that it copies"
        todo = f"declare its heartbeats under routes, as those of {route.source}"
        return Replicating(proven=False, measured="no heartbeats declared", text=text, todo=todo)
    where = f"{heartbeats} on {route.target}"
    try:
        partitions = log.describe([heartbeats], timeout=ANSWER_SECONDS)[heartbeats].partitions
        keys = [TopicPartition(heartbeats, number) for number in partitions]
        looked = request_newest(log, keys, Deadline.after(ANSWER_SECONDS))
    except KafkaError as error:
        return Replicating(proven=False, measured=UNKNOWN, text=f"{where} cannot be read: {error}")
    newest_ms = max((each.timestamp_ms for each in looked.values() if each.timestamp_ms is not None), default=None)
    if newest_ms is None:
        failed = next((each.error for each in looked.values() if each.error is not None), None)
        why = f": {failed.name}" if failed is not None else ""
        return Replicating(proven=False, measured="none", text=f"{where} holds no heartbeat of {route.source}{why}")
    age = max(0.0, (now - datetime.fromtimestamp(newest_ms / 1000, UTC)).total_seconds())
    proven = age <= within_seconds
    limit = "" if proven else f", the limit is {within_seconds:.0f} s"
    old = f"{age:.0f} s" if age < 300 else length(timedelta(seconds=age))
    text = f"the newest heartbeat copied from {route.source} is {old} old{limit}"
    return Replicating(proven=proven, measured=f"{age:.0f} s", text=text)


def event_times(store: ControllerStore, facts: MoveFacts) -> EventTimes | None:
    """From the newest samples of both clusters; None for a query that uses no time of Kafka's. Raises ``StoreError``.

    A sample that cannot be read is none: it must not keep a query from being moved.
    """
    columns = (facts.fact.columns if facts.fact is not None else None) or ()
    if not any(use.column in TIMES for use in columns):
        return None
    sample = None
    with suppress(Damaged):
        sample = store.replication(facts.query)
    if sample is not None and (sample.source, sample.target) != (facts.source, facts.target):
        sample = None
    ends = store.ends(facts.source, topics=frozenset(facts.topics or ()))
    ahead = {
        partition: each.newest_timestamp_ms - round(each.sampled_at.timestamp() * 1000)
        for partition, each in ends.items()
        if each.newest_timestamp_ms is not None
    }
    return EventTimes(
        stamps=sample.stamps if sample is not None else {},
        latencies=sample.latencies if sample is not None else {},
        ahead={partition: by for partition, by in ahead.items() if by > 0},
    )


def stamps_of(topics: Mapping[str, TopicFacts]) -> dict[str, str]:
    """By topic who stamps its records (``message.timestamp.type``), of those that say it."""
    return {name: topic.timestamp_type for name, topic in topics.items() if topic.timestamp_type is not None}
