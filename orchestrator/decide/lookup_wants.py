"""The questions to the resolver: a checkpoint's end offsets joined with what was remembered of the records before them.
Pure.

The checkpoint is the truth about *where* the query was; tracking only adds what was there. Tracking may be behind (the
cluster died between commit and tracking) or ahead (a planned batch was tracked before it was committed). So a row's
ring is cut to the records before the checkpoint's offset. What tracking did not see is said to be dense only where
consecutive rows prove it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from state.messages import CheckpointReport, Offsets
from state.model.entities import Assignment, EndSample, Position, QueryFact, TopicPartition
from state.model.fingerprints import LIMIT, Counted, Fingerprints
from state.settings.canonical import copied_as
from state.settings.keys import Query, Route
from streaming.resume.model import Rules, Want

DEFAULT_BUFFER = timedelta(minutes=15)
"""Is used for ``buffer: measured`` where too little was measured."""


def rules_of(query: Query, on_no_match: str, route: Route | None) -> Rules:
    """How places are looked for, as the settings of the query and of its route say."""
    buffer = DEFAULT_BUFFER if query.buffer == "measured" else query.buffer
    return Rules(
        methods=query.methods,
        buffer_ms=round(buffer.total_seconds() * 1000),
        on_no_match=on_no_match,
        committed_only=query.committed_only,
        keeps_offsets=route is not None and route.keeps_offsets,
        offset_syncs=route.offset_syncs if route is not None else None,
    )


def standby_topic(route: Route, topic: str) -> str | None:
    """The topic's name behind a route; None when an explicit map does not name it."""
    return copied_as(route.topics, topic)


def since_placed(positions: Iterable[Position], assignment: Assignment | None) -> list[Position]:
    """Positions of the place in use: what was tracked before the last commit speaks of other offsets or batches.

    A hold and an abort change the epoch, not the place: a batch that was tracked before and after one counts once, as
    it was seen last. But where the cluster died in between, what was remembered before cannot be read again.
    """
    if assignment is None:
        return []
    seen_last: dict[tuple[int, str, str, int], Position] = {}
    for row in sorted(positions, key=lambda position: position.epoch):
        if row.epoch >= assignment.placed_epoch and row.cluster == assignment.cluster:
            key = row.batch, row.source, row.topic, row.partition
            if key not in seen_last or not _knows_more(seen_last[key], row):
                seen_last[key] = row
    return list(seen_last.values())


def _knows_more(before: Position, after: Position) -> bool:
    """Whether the former of two rows of one batch remembers records at the same end of the same log, the other none."""
    same = before.offset == after.offset and not _are_two_topics(before.topic_id, after.topic_id)
    return same and bool(before.ring) and not after.ring


def newest_of(positions: Iterable[Position]) -> list[Position]:
    """The position of the newest batch in each partition of each source, in their order."""
    newest = {(row.source, row.topic, row.partition): row for row in sorted(positions, key=lambda row: row.batch)}
    return [row for _, row in sorted(newest.items())]


def sound_ends(
    ends: Mapping[TopicPartition, EndSample], positions: Iterable[Position]
) -> dict[TopicPartition, EndSample]:
    """The samples without those of a log that is not the one that was read: created again, or cut below the position.

    Such an end says nothing of what was read up to it. Taken for the old log's, it would call an unread partition read
    up to the time of the sample, and the query would resume late.
    """
    other = {
        key
        for row in newest_of(positions)
        if (sample := ends.get(key := TopicPartition(row.topic, row.partition))) is not None
        and (is_recreated(row, sample) or is_cut_off(row, sample))
    }
    return {key: sample for key, sample in ends.items() if key not in other}


def is_recreated(row: Position, sample: EndSample) -> bool:
    """Whether the sample is of another topic of that name."""
    return _are_two_topics(row.topic_id, sample.topic_id)


def _are_two_topics(before: str | None, after: str | None) -> bool:
    """By their ids, where both are known."""
    return None not in (before, after) and before != after


def is_cut_off(row: Position, sample: EndSample) -> bool:
    """An end below a position is that of an older sample, as a rule; a later leader's, seen later, is not."""
    elected = row.leader_epoch is not None and (sample.leader_epoch or 0) > row.leader_epoch
    return elected and sample.end < row.offset and sample.sampled_at > row.tracked_at


def report_of_fact(fact: QueryFact, checkpoint: str) -> CheckpointReport:
    """A runner's latest fact as the checkpoint report that an inspection would probably give: for plans only."""
    offsets: Offsets = {
        source: {topic: dict(partitions) for topic, partitions in topics.items()}
        for source, topics in (fact.offsets or {}).items()
    }
    return CheckpointReport(
        checkpoint=checkpoint,
        batch=fact.batch if offsets else None,
        offsets=offsets,
        deduplicates_ahead=bool(fact.deduplicates_ahead),
    )


def topics_by_pattern(query: Query, offsets: Mapping[str, Iterable[str]] | None) -> frozenset[str] | None:
    """The topics of those sources that subscribe by a pattern, as these end offsets name them.

    None where they do not name one of these sources: what it reads is unknown then.
    """
    by_pattern = [name for name, source in query.sources.items() if source.pattern is not None]
    if any(name not in (offsets or {}) for name in by_pattern):
        return None
    return frozenset(topic for name in by_pattern for topic in (offsets or {})[name])


def wants_of(
    offsets: Offsets, *, positions: Sequence[Position], ends: Mapping[TopicPartition, EndSample], route: Route
) -> tuple[Want, ...]:
    """One want for each partition of these end offsets, ordered by source, topic, partition.

    ``positions`` are the query's rows of the cluster in use (all batches that are kept), ``ends`` the last samples of
    that cluster. Topics that the route does not name keep their name; a gate refuses them before.
    """
    rows = _by_partition(positions)
    return tuple(
        _want(source, topic, int(partition), offset, rows.get((source, topic, int(partition)), []), ends, route)
        for source, topics in sorted(offsets.items())
        for topic, partitions in sorted(topics.items())
        for partition, offset in sorted(partitions.items(), key=lambda item: int(item[0]))
    )


def batches_looked_into(positions: Iterable[Position], *wanted: Offsets) -> frozenset[int]:
    """The batches whose rings ``wants_of`` goes by, for these end offsets; of all others it counts the records alone.

    ``positions`` may have their rings counted. Mostly it is one batch, the checkpoint's.
    """
    return frozenset(
        row.batch
        for (source, topic, partition), rows in _by_partition(positions).items()
        for offsets in wanted
        if (offset := offsets.get(source, {}).get(topic, {}).get(str(partition))) is not None
        for row in _nearest(rows, offset)
    )


def with_rings(positions: Iterable[Position], batches: Collection[int], read: Iterable[Position]) -> list[Position]:
    """Positions whose rings were counted, those of some batches as they were ``read`` since.

    A store drops batches at any time: one that is gone by then remembers nothing.
    """
    known = {_row(row): row for row in read}
    return [
        known.get(_row(row)) or replace(row, ring=Fingerprints()) if is_counted(row) and row.batch in batches else row
        for row in positions
    ]


def is_counted(position: Position) -> bool:
    """Whether its remembered records are still to be read."""
    return isinstance(position.ring, Counted)


def _row(position: Position) -> tuple[int, int, str, str, int]:
    return position.epoch, position.batch, position.source, position.topic, position.partition


def _by_partition(positions: Iterable[Position]) -> dict[tuple[str, str, int], list[Position]]:
    """By source, topic and partition, the oldest batch first."""
    rows: dict[tuple[str, str, int], list[Position]] = {}
    for row in sorted(positions, key=lambda position: position.batch):
        rows.setdefault((row.source, row.topic, row.partition), []).append(row)
    return rows


def _want(
    source: str,
    topic: str,
    partition: int,
    offset: int,
    rows: Sequence[Position],
    ends: Mapping[TopicPartition, EndSample],
    route: Route,
) -> Want:
    ring, ring_offset = _best_ring(rows, offset)
    sample = ends.get(TopicPartition(topic, partition))
    return Want(
        source=source,
        topic=topic,
        partition=partition,
        target_topic=standby_topic(route, topic) or topic,
        offset=offset,
        ring=ring,
        ring_offset=ring_offset,
        dense=_proven_dense(rows, ring_offset, offset),
        begin_known=sample.begin if sample else None,
        timestamp_ms=_read_up_to(rows, ring, offset, sample),
        uncommitted=ring.uncommitted,
    )


def _best_ring(rows: Sequence[Position], offset: int) -> tuple[Fingerprints, int | None]:
    """The ring that reaches nearest to ``offset``, of these the longest, and how far it reaches.

    A ring from beyond is cut, and then reaches only as far as its last record. What lay between that and ``offset`` may
    have been skipped when the later end was read.
    """
    best, best_reach = Fingerprints(), None
    for row in _nearest(rows, offset):
        ring = Fingerprints.of(row.ring)
        if row.offset > offset:
            ring = ring.before(offset)
        if not ring:
            continue
        reach = row.offset if row.offset <= offset else ring[-1].offset + 1
        if best_reach is None or (reach, len(ring)) >= (best_reach, len(best)):
            best, best_reach = ring, reach
    return best, best_reach


def _nearest(rows: Sequence[Position], offset: int) -> list[Position]:
    """The rows of a partition of which one has that ring; recognized by their offsets, and by how many records they
    have.
    """
    known = [row for row in rows if row.ring]
    upto = max((row for row in known if row.offset <= offset), key=_reach, default=None)
    if upto is not None and upto.offset == offset and len(upto.ring) >= LIMIT:
        return [upto]
    return [*([] if upto is None else [upto]), *(row for row in known if row.offset > offset)]


def _reach(row: Position) -> tuple[int, int, int]:
    return row.offset, len(row.ring), row.batch


def _proven_dense(rows: Sequence[Position], start: int | None, offset: int) -> bool | None:
    """Whether consecutive rows prove that each offset in ``[start, offset)`` held a consumed record."""
    if start is None:
        return None
    if start >= offset:
        return True
    proofs: list[bool | None] = []
    for before, row in pairwise(rows):
        if row.offset <= start or before.offset >= offset:
            continue
        if before.batch + 1 != row.batch or (not proofs and before.offset > start):
            return None
        proofs.append(row.dense)
        if row.offset >= offset:
            return False if False in proofs else True if all(proofs) else None
    return None


def _read_up_to(rows: Sequence[Position], ring: Fingerprints, offset: int, sample: EndSample | None) -> int | None:
    """T: the largest timestamp known to be consumed; a fully read partition counts as read up to its sample's time."""
    times = [] if ring.newest_timestamp is None else [ring.newest_timestamp]
    times += [row.timestamp_ms for row in rows if row.offset <= offset and row.timestamp_ms is not None]
    newest = max(times, default=None)
    if sample is None or offset < sample.end:
        return newest
    sampled_ms = int(sample.sampled_at.timestamp() * 1000)
    if newest is None:
        return sampled_ms
    return max(newest, sampled_ms) if offset == sample.end else newest
