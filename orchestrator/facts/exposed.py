"""What only the old cluster had at a failover: found in both logs, and counted.

What the standby lacked is a range of offsets. It goes from behind the copy of the last record that the standby had, to
the end of the log at its first answer. No record's own time bounds it: a producer's clock may be ahead, and a record
that is dated after the look-up may still lie in the middle of the tail. Behind the last record that is dated before the
look-up nothing shows what was written then and what later. Such records are in doubt, unless the standby holds them by
now.

A replicator that continued may have copied some records since, so the standby's log is looked through, too, from where
it ended at the move. Every log is read as the query reads it: a record of an aborted transaction is none for a query
that reads what is committed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from orchestrator.decide.move.left_behind import Exposed, LeftPartition
from state.model.entities import TopicPartition
from state.model.fingerprints import Fingerprints
from state.model.plan import StandbyPartition
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, LogRecord
from streaming.last_records import read_last_records
from streaming.resolve.as_seen import Reader, Wanted, ends_as_seen, read_as_seen
from streaming.resolve.resolver import resolve
from streaming.resolve.standby_copies import Copies, copies_in
from streaming.resume.model import Rules, Want

COUNT_SECONDS = 5.0
MOST_READ = 200_000
"""Records of a partition that are read at most, on either side."""
LAST = 64
"""Records before the standby's end by which its last one is found on the old cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """What the old log holds of one partition's tail, and how far it could be read."""

    first: int
    last: int
    """The end of the log, open transactions included."""
    stable: int
    """How far a reader of the query's isolation can see; ``last`` where nothing is open."""
    records: tuple[LogRecord, ...] | None
    """What such a reader sees; None where it could not be read whole."""
    unsettled: tuple[LogRecord, ...] | None
    """What lies behind that, of transactions that may be committed or aborted yet."""

    def certain(self, asked_at_ms: int, sampled_end: int | None) -> int:
        """How many of the records were there at the look-up, whatever their own times are.

        Those to the last one that is dated at or before it, and those before the end that was sampled before it.
        """
        found = 0
        for number, each in enumerate(self.records or (), 1):
            if each.timestamp_ms <= asked_at_ms or (sampled_end is not None and each.offset < sampled_end):
                found = number
        return found

    def is_doubtful(self, certain: int) -> bool:
        """Whether records lie behind the certain ones."""
        return len(self.records or ()) > certain or bool(self.unsettled)


def count_exposed(
    old: ClusterLog, standby: ClusterLog, left: Sequence[LeftPartition], asked_at_ms: int
) -> dict[StandbyPartition, Exposed]:
    """Data records of the old log behind the last record that the standby had at the look-up, to the log's end.

    Where copies of what the standby had lie there as well, it is unknown. Raises ``KafkaError``.
    """
    deadline = Deadline.after(COUNT_SECONDS)
    alike = [each for each in left if each.scattered_from is None]
    places = _places(old, standby, alike, asked_at_ms, deadline) if alike else {}
    places |= {each.key: each.scattered_from for each in left if each.scattered_from is not None}
    stretches = stretches_of(old, {each: places[each.key] for each in left if each.key in places}, deadline)
    leave_out(stretches, left, held_at_look_up(standby, left, deadline))
    found = [each for each in left if each.key in stretches]
    certain = {each.key: stretches[each.key].certain(asked_at_ms, each.sampled_end) for each in found}
    doubtful = [each for each in found if stretches[each.key].is_doubtful(certain[each.key])]
    copies = copies_since(standby, doubtful, deadline) if doubtful else {}
    return {
        each.key: _exposed(each, stretches[each.key], certain[each.key], copies.get(each.key, Copies(())))
        for each in found
    }


def _topic(each: LeftPartition) -> tuple[str, str, bool]:
    """The topic of the standby as one source reads it."""
    return each.key.source, each.key.topic, each.committed


def held_at_look_up(
    standby: ClusterLog, left: Iterable[LeftPartition], deadline: Deadline
) -> dict[tuple[str, str, bool], Copies | None]:
    """What each topic with scattered partitions held at the look-up, in whichever partition; None where unknown."""
    topics: dict[tuple[str, str, bool], dict[StandbyPartition, Wanted]] = {}
    for each in left:
        if each.scattered_from is not None:
            wanted = Wanted(Reader(on_standby(each), each.committed), each.begin, each.end)
            topics.setdefault(_topic(each), {})[each.key] = wanted
    return {topic: copies_in(standby, ranges, most=MOST_READ, deadline=deadline) for topic, ranges in topics.items()}


def leave_out(
    stretches: dict[StandbyPartition, Stretch],
    left: Iterable[LeftPartition],
    held: Mapping[tuple[str, str, bool], Copies | None],
) -> None:
    """Take what the standby held out of the stretches of scattered partitions; out of all where that is unknown."""
    for each in left:
        if each.scattered_from is None or each.key not in stretches:
            continue
        stretch, copies = stretches.pop(each.key), held[_topic(each)]
        if copies is None or stretch.records is None:
            continue
        records = tuple(record for record in stretch.records if not copies.takes(record))
        unsettled = None if stretch.unsettled is None else tuple(r for r in stretch.unsettled if not copies.takes(r))
        stretches[each.key] = replace(stretch, records=records, unsettled=unsettled)


def _exposed(each: LeftPartition, stretch: Stretch, certain: int, copies: Copies) -> Exposed:
    """The count of one partition, or two bounds where a record may be part of the tail or not."""
    records, first, last = stretch.records, stretch.first, stretch.last
    if records is None:
        return Exposed(None, first, last, at_most=last - first)
    if each.sampled_end is not None and each.sampled_end > last:  # the log was cut since, and records are gone
        return Exposed(None, first, last, at_least=len(records), at_most=max(0, each.sampled_end - first))
    copies.take(records[:certain])
    later = [record for record in records[certain:] if not copies.takes(record)]
    unread = last - stretch.stable if stretch.unsettled is None else None
    unsettled = [record for record in stretch.unsettled or () if not copies.takes(record)]
    sampled = None
    if each.sampled_end is not None:
        sampled = sum(record.offset < each.sampled_end for record in records)
    in_doubt = len(later) + (len(unsettled) if unread is None else unread)
    exact = certain if not in_doubt else None
    return Exposed(exact, first, last, at_least=certain, at_most=certain + in_doubt, sampled=sampled)


def _places(
    old: ClusterLog, standby: ClusterLog, left: Sequence[LeftPartition], asked_at_ms: int, deadline: Deadline
) -> dict[StandbyPartition, int]:
    """Of each partition the offset in the old log behind the last record that the standby had; only proven ones."""
    tails: dict[LeftPartition, Fingerprints] = {}
    for committed in (False, True):
        ends = {on_standby(each): each.end for each in left if each.committed is committed}
        if ends:
            read = read_last_records(
                standby, ends, count=LAST, timeout=deadline.remaining, read_committed=committed
            )  # fmt: skip
            tails |= {each: read[on_standby(each)].records for each in left if each.committed is committed}
    wants = [
        Want(
            source=each.key.source, topic=each.key.topic, partition=each.key.partition, target_topic=each.topic,
            offset=each.end, ring=tails[each], ring_offset=each.end, dense=None, begin_known=None,
            timestamp_ms=None,
        )
        for each in left
    ]  # fmt: skip
    now = datetime.fromtimestamp(asked_at_ms / 1000, UTC)
    only = frozenset(each.key.source for each in left if each.committed)
    rules = Rules(methods=(MethodName.EXACT,), buffer_ms=0, committed_only=only)
    found = resolve(old, wants, rules, old_ends={}, now=now, timeout=deadline.remaining)
    return {
        StandbyPartition(target.source, target.topic, target.partition): target.target_offset
        for target in found.targets
        if target.is_proven and target.target_offset is not None and not target.replay_records
    }


def stretches_of(
    old: ClusterLog, places: Mapping[LeftPartition, int], deadline: Deadline
) -> dict[StandbyPartition, Stretch]:
    """What the old log holds from each place to its end: as the query reads it, and what no transaction has ended.

    A partition that does not answer is left out.
    """
    readers = {each: Reader(on_source(each), each.committed) for each in places}
    seen, behind = {}, {}
    for each, ends in ends_as_seen(old, readers, deadline).items():
        if ends.stable is None or ends.last is None:
            continue
        last = max(places[each], ends.last if each.until is None else min(each.until, ends.last))
        stable = max(places[each], min(last, ends.stable))
        seen[each] = Wanted(readers[each], places[each], stable)
        if last > stable:
            behind[each] = Wanted(Reader(on_source(each), committed=False), stable, last)
    limit = MOST_READ // max(1, len(places))
    records = read_as_seen(old, seen, limit=limit, deadline=deadline)
    unsettled = read_as_seen(old, behind, limit=limit, deadline=deadline)
    return {
        each.key: Stretch(
            first=wanted.first,
            last=behind[each].last if each in behind else wanted.last,
            stable=wanted.last,
            records=records[each],
            unsettled=unsettled[each] if each in behind else (),
        )
        for each, wanted in seen.items()
    }


def copies_since(
    standby: ClusterLog, known: Sequence[LeftPartition], deadline: Deadline
) -> dict[StandbyPartition, Copies]:
    """What the standby got since the move, as the query reads it: of each partition the first ``MOST_READ`` records."""
    readers = {each: Reader(on_standby(each), each.committed) for each in known}
    most = MOST_READ // max(1, len(known))
    wanted = {
        each: Wanted(readers[each], each.end, max(each.end, min(ends.stable, each.end + most)))
        for each, ends in ends_as_seen(standby, readers, deadline).items()
        if ends.stable is not None
    }
    records = read_as_seen(standby, wanted, limit=MOST_READ, deadline=deadline)
    return {each.key: Copies(records.get(each) or ()) for each in known}


def on_source(each: LeftPartition) -> TopicPartition:
    """On the cluster that was left."""
    return TopicPartition(each.topic, each.partition)


def on_standby(each: LeftPartition) -> TopicPartition:
    """On the standby."""
    return TopicPartition(each.key.topic, each.key.partition)
