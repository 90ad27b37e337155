"""The last record of one cluster that another one has too: behind it a replicator of the other direction begins.

A record is known on both clusters by key, value and timestamp, which a replicator keeps. The search goes from the end
of the log backwards in windows. Of the other cluster it reads only what is as young as the window or younger. With the
first record found in common the search is over, so a long history is not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from replication_tool.errors import Refused
from state.model.entities import TopicPartition
from streaming.cluster_log import ClusterLog, LogRecord, PartitionError, Spec

WINDOW = 20_000
"""Offsets of a partition that are compared at once."""
_SECONDS = 60.0
_FIRST_BYTES = 1 << 20

Content = tuple[bytes, int]
"""Digest of key and value, and the timestamp."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Where a partition begins to be copied, or why that cannot be decided."""

    offset: int | None
    """Of the cluster that is copied from; None where both have records and none in common."""
    end: int
    """Where that log ends now."""
    copies: int = 0
    """Where the log of the other cluster ends."""


def begins(source: ClusterLog, target: ClusterLog, topic: str) -> Mapping[int, Begin]:
    """By partition of the source: behind its last record that the target has; 0 where the target has no record.

    Raises Refused where a partition cannot be read, ClusterUnreachable and CredentialRefused.
    """
    searches = _searches(source, target, topic)
    while left := {partition: each for partition, each in searches.items() if not each.over}:
        _compare(source, target, left)
    return {partition.partition: each.result() for partition, each in searches.items()}


@dataclass(kw_only=True)
class _Search:
    """One partition: how far the source was compared, and what is known of the target."""

    begin: int
    end: int
    low: int
    """First offset of the target; its end where it has no record."""
    copies: int
    high: int = field(init=False)
    """The source was compared from here on."""
    read: int = field(init=False)
    """The target was read from here on."""
    known: set[Content] = field(default_factory=set)
    found: int | None = None

    def __post_init__(self) -> None:
        self.high, self.read = self.end, self.copies

    @property
    def over(self) -> bool:
        return self.found is not None or self.high <= self.begin or self.low >= self.copies

    @property
    def window(self) -> tuple[int, int]:
        return max(self.begin, self.high - WINDOW), self.high

    def result(self) -> Begin:
        if self.found is not None:
            return Begin(offset=self.found + 1, end=self.end, copies=self.copies)
        is_open = self.low < self.copies and self.begin < self.end
        return Begin(offset=None if is_open else 0, end=self.end, copies=self.copies)


def _searches(source: ClusterLog, target: ClusterLog, topic: str) -> dict[TopicPartition, _Search]:
    ours = _partitions(source, topic)
    theirs = [each for each in _partitions(target, topic) if each in ours]
    lows, highs = _offsets(source, ours, Spec.EARLIEST), _offsets(source, ours, Spec.LATEST)
    low, high = _offsets(target, theirs, Spec.EARLIEST), _offsets(target, theirs, Spec.LATEST)
    return {
        each: _Search(begin=lows[each], end=highs[each], low=low.get(each, 0), copies=high.get(each, 0))
        for each in ours
    }


def _compare(source: ClusterLog, target: ClusterLog, left: Mapping[TopicPartition, _Search]) -> None:
    """One window more of each partition."""
    records = _read(source, {partition: each.window for partition, each in left.items()})
    oldest = {partition: min(each.timestamp_ms for each in found) for partition, found in records.items() if found}
    answers = target.offsets({each: max(0, time) for each, time in oldest.items()}, timeout=_SECONDS)
    spans = {}
    for partition, answer in answers.items():
        _require(partition, answer.error)
        search = left[partition]
        # A record without a time is younger than none, so with one all of the target is read.
        first = search.low if oldest[partition] < 0 else search.read if answer.offset is None else answer.offset
        if first < search.read:
            spans[partition] = first, search.read
            search.read = first
    for partition, found in _read(target, spans).items():
        left[partition].known |= {(each.digest, each.timestamp_ms) for each in found}
    for partition, search in left.items():
        common = (each.offset for each in records[partition] if (each.digest, each.timestamp_ms) in search.known)
        search.found = max(common, default=None)
        search.high = search.window[0]


def _read(log: ClusterLog, spans: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, list[LogRecord]]:
    """The records of these spans, aborted ones too: a replicator may have copied them."""
    found: dict[TopicPartition, list[LogRecord]] = {partition: [] for partition in spans}
    left = {partition: (begin, _FIRST_BYTES) for partition, (begin, _) in spans.items()}
    while left:
        answers = log.fetch(left, until={each: spans[each][1] for each in left}, timeout=_SECONDS)
        for partition, answer in answers.items():
            _require(partition, answer.error)
            found[partition] += answer.records
            at, size = left.pop(partition)
            if answer.next_offset <= at and answer.needs_bytes <= size:
                raise Refused(f"{partition.topic}/{partition.partition} cannot be read beyond offset {at:,}")
            if answer.next_offset < spans[partition][1]:
                left[partition] = answer.next_offset, max(size, answer.needs_bytes)
    return found


def _partitions(log: ClusterLog, topic: str) -> list[TopicPartition]:
    facts = log.describe([topic], timeout=_SECONDS)[topic]
    if facts.error is not None:
        raise Refused(f"topic {topic}: {facts.error.text}")
    return [TopicPartition(topic, number) for number in sorted(facts.partitions)]


def _offsets(log: ClusterLog, partitions: list[TopicPartition], which: Spec) -> dict[TopicPartition, int]:
    answers = log.offsets(dict.fromkeys(partitions, which), timeout=_SECONDS)
    for partition, answer in answers.items():
        _require(partition, answer.error)
    return {partition: answer.offset or 0 for partition, answer in answers.items()}


def _require(partition: TopicPartition, error: PartitionError | None) -> None:
    if error is not None:
        raise Refused(
            f"{partition.topic}/{partition.partition}: {error.text}", hint="nothing was written: run it again"
        )
