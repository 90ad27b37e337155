"""What else than content speaks for a place: the same offsets on both sides, and the replicator's own offset syncs.

Both are read only where the route says that they may exist and the rules allow their method. The syncs are read only
for partitions that content has not placed already, for their topic may be large.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from state.model.entities import TopicPartition
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Entry, LogRecord, Spec
from streaming.errors import KafkaError
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.lookup import Case, Lookup
from streaming.resolve.ranges import read_entries, read_ranges
from streaming.resume import notes, topic_checks
from streaming.resume.methods import same_offset, synced
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.offset_syncs import Sync, Syncs

MOST_RECORDS = 100_000
"""How many of the newest are read."""
MOST_SECONDS = 1.5
"""How long reading may take, of the time that the whole answer has."""
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_OFFSETS = struct.Struct(">qq")


def read_syncs(log: ClusterLog, topic: str, deadline: Deadline) -> Mapping[TopicPartition, Syncs] | str:
    """Return the syncs by old topic and partition, or in one sentence why they could not be had.

    Half a topic would hide that the standby was created again, so it counts as nothing. Never raises for the cluster's
    sake: without syncs there are other methods.

    The topic's newest records are read, all in the one partition that MirrorMaker 2 writes to. It lies on the standby
    with ``offset-syncs.topic.location=target``, and is called ``mm2-offset-syncs.ALIAS.internal`` by the source's alias
    there. By default it lies on the source, and is of no use once that is gone.
    """
    try:
        known = _known(log, topic, deadline.soonest(min(MOST_SECONDS, deadline.remaining / 2)))
    except KafkaError as error:
        known = str(error)
    return f"{topic}: {known}" if isinstance(known, str) else known


def _known(log: ClusterLog, topic: str, deadline: Deadline) -> Mapping[TopicPartition, Syncs] | str:
    key = TopicPartition(topic, 0)
    ends = request_offsets(log, [(key, Spec.LATEST), (key, Spec.EARLIEST)], deadline)
    begin, end = ends[key, Spec.EARLIEST], ends[key, Spec.LATEST]
    if begin.offset is None or end.offset is None:
        error = begin.error or end.error
        return notes.failed(error) if error is not None else "its ends are unknown"
    first = max(begin.offset, end.offset - MOST_RECORDS)
    records = read_entries(log, key, first, end.offset, deadline)
    if isinstance(records, str):
        return records
    written: dict[TopicPartition, list[Sync]] = defaultdict(list)
    for record in records:
        parsed = parse_sync(record)
        if parsed is None:
            return f"the record at offset {record.offset} is not an offset sync of MirrorMaker 2"
        written[parsed[0]].append(parsed[1])
    return {partition: Syncs.of(syncs) for partition, syncs in written.items()}


def parse_sync(record: Entry) -> tuple[TopicPartition, Sync] | None:
    """Return one offset sync, or None where the record is none.

    The binary form is that of ``org.apache.kafka.connect.mirror.OffsetSync``, without a version in front. The key is
    the old topic's name (two bytes of length, UTF-8) and partition (four bytes). The value is the old offset and the
    standby's (eight bytes each), all big-endian.
    """
    key, value = record.key, record.value
    if key is None or value is None or len(key) < _LENGTH.size or len(value) != _OFFSETS.size:
        return None
    (length,) = _LENGTH.unpack_from(key)
    if length < 0 or len(key) != _LENGTH.size + length + _PARTITION.size:
        return None
    (partition,) = _PARTITION.unpack_from(key, _LENGTH.size + length)
    upstream, downstream = _OFFSETS.unpack(value)
    if min(partition, upstream, downstream) < 0:
        return None
    try:
        name = key[_LENGTH.size : _LENGTH.size + length].decode()
    except UnicodeDecodeError:
        return None
    return TopicPartition(name, partition), Sync(upstream, downstream)


def prove_copies(run: Lookup, cases: Sequence[Case]) -> None:
    """Compare what is remembered with the standby's records at the same offsets; what is proven needs no search."""
    if not run.rules.keeps_offsets or MethodName.IDENTITY not in run.rules.methods:
        return
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for case in cases:
        bounds = run.bound(case.key, Spec.EARLIEST), run.bound(case.key, Spec.LATEST)
        kept = same_offset.sampled(case.want, begin=bounds[0], end=bounds[1]) if case.partner else ()
        wanted[case.key] += (record.offset for record in kept)
        last = same_offset.tracked_to(case.want, end=bounds[1]) - 1
        if kept and kept[0].offset <= last < kept[0].offset + same_offset.WIDEST:
            wanted[case.key].append(last)
    records = _read_offsets(run, wanted)
    for case in cases:
        if not case.partner or case.added:
            continue
        here = same_offset.Lineage(
            begin=run.bound(case.key, Spec.EARLIEST),
            end=run.bound(case.key, Spec.LATEST),
            newest_ms=run.newest_ms(case.key),
            newest_at=run.answers[case.key, Spec.MAX_TIMESTAMP].offset,
            append_time=run.uses_append_time(case.key.topic),
            topic_id=run.facts[case.key.topic].topic_id,
            old=run.old(case.want),
        )
        proof = same_offset.prove(case.want, here, records.get(case.key))
        case.copy = notes.unproven_copy(proof) if isinstance(proof, str) else proof
        if isinstance(proof, Found):
            case.alignment = proof
        elif not case.want.ring and here.old is not None and here.old.end <= case.want.offset < here.end:
            # T is the time at which the old log was seen to end here, and the standby holds more at these offsets.
            case.want = replace(case.want, timestamp_ms=None)


def add_syncs(run: Lookup, cases: Sequence[Case]) -> None:
    """Give each partition that content did not place what the replicator wrote of it.

    Where content contradicts, a remembered record is not where it should be, the syncs must prove themselves first.
    """
    topic = run.rules.offset_syncs
    if topic is None or MethodName.SYNCED not in run.rules.methods:
        return
    by_content = MethodName.EXACT in run.rules.methods
    open_cases = [case for case in cases if case.partner and not case.added and _is_open(case, by_content=by_content)]
    if not open_cases:
        return
    known = read_syncs(run.log, topic, run.deadline)
    for case in open_cases:
        old = TopicPartition(case.want.topic, case.want.partition)
        case.syncs = known if isinstance(known, str) else known.get(old, Syncs())
    _confirm(run, [case for case in open_cases if _is_mismatch(case)])


def _is_open(case: Case, *, by_content: bool) -> bool:
    return not by_content or (isinstance(case.alignment, NoPlace) and case.alignment.cause not in topic_checks.BEHIND)


def _is_mismatch(case: Case) -> bool:
    return isinstance(case.alignment, NoPlace) and case.alignment.cause is Cause.MISMATCH


def _confirm(run: Lookup, cases: Sequence[Case]) -> None:
    """Look at the records that syncs speak of: times survive a replicator that changes keys or values."""
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for case in cases:
        if isinstance(case.syncs, Syncs):
            wanted[case.key] += synced.witnesses(case.want, case.syncs)
    records = _read_offsets(run, wanted)
    for case in cases:
        if isinstance(case.syncs, Syncs):
            case.syncs = synced.against(case.want, case.syncs, records.get(case.key)) or case.syncs


def _read_offsets(
    run: Lookup, wanted: Mapping[TopicPartition, Sequence[int]]
) -> Mapping[TopicPartition, tuple[LogRecord, ...] | None]:
    """The standby's records from the first wanted offset to the last, in one go for all partitions."""
    ranges = {key: (min(offsets), max(offsets) + 1) for key, offsets in wanted.items() if offsets}
    return read_ranges(run.log, ranges, limit=same_offset.WIDEST, timeout=run.deadline.remaining / 2)
