"""What else than content speaks for a place: the same offsets on both sides, and the replicator's own offset syncs.

Both are read only where the route says that they may exist and the rules allow their method; the syncs only for
partitions that content has not placed already, for their topic may be large.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from state.model.entities import EndSample, TopicPartition
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Entry, LogRecord, OffsetAnswer, PartitionError, Segments, Spec, TopicFacts
from streaming.errors import KafkaError
from streaming.resolve.batched_lookups import Question, ask_offsets
from streaming.resolve.ranges import read_entries, read_ranges
from streaming.resolve.scan import Scan
from streaming.resume import notes, topic_checks
from streaming.resume.contradictions import Snapshot, doubted
from streaming.resume.methods import same_offset, synced
from streaming.resume.methods.content_search import Cause, Found, NoPlace
from streaming.resume.model import Rules, Want
from streaming.resume.offset_syncs import Sync, Syncs
from streaming.resume.sent_again import NOTHING, Resent


@dataclass(kw_only=True, slots=True)
class Lookup:
    """One resolution: of whom, under which rules, by when, and what came back."""

    log: ClusterLog
    rules: Rules
    old_ends: Mapping[TopicPartition, EndSample]
    now: datetime
    deadline: Deadline
    search_seconds: float
    """For how long what was sent again is searched for."""
    search_cut_short: bool = False
    """Whether that was too short."""
    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    answers: dict[Question, OffsetAnswer] = field(default_factory=dict)
    visible: dict[Question, OffsetAnswer] = field(default_factory=dict)
    segments: dict[Question, Segments] = field(default_factory=dict)

    def ask(self, questions: Iterable[Question]) -> None:
        """Look up what was not looked up before."""
        new = [question for question in questions if question not in self.answers]
        self.answers |= ask_offsets(self.log, new, self.deadline)

    def error(self, key: TopicPartition) -> PartitionError | None:
        """The error that leaves a partition without begin or end."""
        asked = [self.answers[key, Spec.LATEST], self.answers[key, Spec.EARLIEST]]
        if (visible := self.visible.get((key, Spec.LATEST))) is not None:
            asked.append(visible)
        error = next((looked.error for looked in asked if looked.error is not None), None)
        if error is None and (
            why := doubted(self.snapshot(key), Spec.LATEST) or doubted(self.snapshot(key), Spec.EARLIEST)
        ):
            error = PartitionError(name="CONTRADICTION", text=f"its answers do not agree: {why}", retriable=True)
        return error

    def lengthen(self, keys: Iterable[TopicPartition]) -> None:
        """Put the end behind each record that another answer names: the log has grown, or the end was an old one."""
        for key in keys:
            known = self.snapshot(key)
            named = [known.newest, *known.times.values()]
            last = max((each.offset for each in named if each is not None and each.offset is not None), default=-1)
            if last >= known.end:
                self.answers[key, Spec.LATEST] = replace(self.answers[key, Spec.LATEST], offset=last + 1)

    def snapshot(
        self, key: TopicPartition, records: Sequence[LogRecord] = (), *, read_from: int = 0, read_to: int = 0
    ) -> Snapshot:
        """All that a partition without an ``error`` answered, with records of it that were read."""
        visible = self.visible.get((key, Spec.LATEST))
        return Snapshot(
            begin=self.bound(key, Spec.EARLIEST),
            end=self.bound(key, Spec.LATEST),
            visible=None if visible is None else visible.offset,
            newest=self.answers.get((key, Spec.MAX_TIMESTAMP)),
            times={at: each for (of, at), each in self.answers.items() if of == key and at > 0 and each.error is None},
            records=records,
            read_from=read_from,
            read_to=read_to,
        )

    def tells_times(self, key: TopicPartition, time: int) -> bool:
        """Whether a time was looked up, and was answered or may be answered by a retry."""
        looked = self.answers.get((key, time)) if MethodName.TIMESTAMP in self.rules.methods else None
        return looked is not None and (looked.error is None or looked.error.retriable)

    def bound(self, key: TopicPartition, spec: Spec) -> int:
        """Begin or end of a partition without an ``error``."""
        offset = self.answers[key, spec].offset
        assert offset is not None
        return offset

    def first_kept(self, key: TopicPartition) -> OffsetAnswer | None:
        """The first record that retention has left; None unknown, or where nothing was deleted.

        The time 0 may have been looked up of any partition, for T minus a long buffer is not below it.
        """
        begin = self.answers[key, Spec.EARLIEST].offset
        deleted = begin is not None and begin > 0
        return self.answers.get((key, 0)) if deleted else None

    def end(self, key: TopicPartition, source: str) -> int:
        """Where a reader under the source's isolation level ends."""
        looked = self.visible.get((key, Spec.LATEST)) if source in self.rules.committed_only else None
        offset = None if looked is None else looked.offset
        return self.bound(key, Spec.LATEST) if offset is None else offset

    def asks_append_time(self, topic: str) -> bool:
        """Whether its broker says that it stamps the records itself."""
        return self.facts[topic].timestamp_type == "LogAppendTime"

    def is_compacted(self, topic: str) -> bool:
        """Whether older records of a key may be gone."""
        return "compact" in (self.facts[topic].cleanup_policy or "")

    def newest_ms(self, key: TopicPartition) -> int | None:
        """Largest timestamp on the standby; None unknown or empty."""
        newest = self.answers[key, Spec.MAX_TIMESTAMP]
        return newest.timestamp_ms if newest.error is None and (newest.timestamp_ms or 0) >= 0 else None

    def old(self, want: Want) -> EndSample | None:
        """The last sample of the old partition's end."""
        return self.old_ends.get(TopicPartition(want.topic, want.partition))


@dataclass(kw_only=True, slots=True, eq=False)
class Case:
    """A want, the partition of the standby that may hold its place, and the evidence."""

    want: Want
    key: TopicPartition
    partner: bool = True
    """Whether the standby's partition is the old one's copy; not so where partitions do not match one to one."""
    alignment: Found | NoPlace | None = None
    scan: Scan | None = None
    idle: bool | None = None
    note: str = ""
    is_cut: bool = False
    """Whether the standby's begin could not be read: records were deleted, whatever its begin is said to be."""
    added: bool = False
    """Whether the standby has this partition beyond those that were known of the old topic."""
    copy: Found | str = ""
    """What came of comparing the same offsets on both sides; empty when that was not looked up."""
    syncs: Syncs | str = ""
    """The replicator's offset syncs of the old partition, or why there are none; empty when that was not looked up."""
    behind: Sequence[LogRecord] | None = None
    """All records from that place up to the end; None where not all were read."""
    resent: Resent = NOTHING
    """What was sent again behind the place found by content."""


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
    there; by default it lies on the source, and is of no use once that is gone.
    """
    try:
        known = _known(log, topic, deadline.soonest(min(MOST_SECONDS, deadline.remaining / 2)))
    except KafkaError as error:
        known = str(error)
    return f"{topic}: {known}" if isinstance(known, str) else known


def _known(log: ClusterLog, topic: str, deadline: Deadline) -> Mapping[TopicPartition, Syncs] | str:
    key = TopicPartition(topic, 0)
    ends = ask_offsets(log, [(key, Spec.LATEST), (key, Spec.EARLIEST)], deadline)
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

    The binary form is that of ``org.apache.kafka.connect.mirror.OffsetSync``, without a version in front: the key is
    the old topic's name (two bytes of length, UTF-8) and partition (four bytes), the value the old offset and the
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
            append_time=run.asks_append_time(case.key.topic),
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
