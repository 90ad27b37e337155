"""The resolver's question and its answer: pure values.

A *want* is one partition's position on the old cluster; a *target* is its place on the standby. Offsets are
next-to-read. Method by method the rules are those of the module of the same name in this package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from state.model.entities import Fingerprint, TopicPartition
from state.settings.keys import MethodName


@dataclass(frozen=True, kw_only=True, slots=True)
class Want:
    """One partition of one source, as it was read on the old cluster."""

    source: str
    topic: str
    partition: int
    target_topic: str
    """The topic's name on the standby."""
    offset: int
    """Position to stand for: the checkpoint's end offset."""
    ring: Sequence[Fingerprint]
    """Records consumed before ``ring_offset``, oldest first, packed; empty when nothing is remembered."""
    ring_offset: int | None
    """Position at the end of the ring: ``offset`` when tracking was current, smaller when it lagged."""
    dense: bool | None
    """Whether every old offset in ``[ring_offset, offset)`` held a consumed record; None when not proven."""
    begin_known: int | None
    """Begin of the old partition when last sampled; ``offset == begin_known`` with an empty ring: nothing was read."""
    timestamp_ms: int | None
    """T: largest timestamp known to be consumed (also an idle partition's sampling time); None when unknown."""
    buffer_ms: int | None = None
    """X of ``T - X`` for this partition; None: that of the rules."""
    read_to: int | None = None
    """How far was read, where the old log was cut since and ``offset`` is not that far; None: to ``offset``."""
    uncommitted: frozenset[int] = frozenset()
    """Offsets in ``ring`` of records whose transaction was aborted, or had not ended as far as was read."""
    lost: str | None = None
    """The old log was cut, and it is unknown where: no method may go by this position, only this policy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """How places are looked for."""

    methods: tuple[MethodName, ...]
    buffer_ms: int
    """X of ``T - X``, for the methods ``timestamp`` and ``segment``, where a want has none of its own."""
    on_no_match: str = "fail"
    """``closest``, ``earliest``, ``latest`` or ``fail``: what holds when no method does."""
    committed_only: frozenset[str] = frozenset()
    """Sources whose ``isolation.level`` is read_committed."""
    context: int = 16
    """K: how many fingerprints must agree."""
    keeps_offsets: bool = False
    """The route is said to keep offsets, for the method ``identity``."""
    offset_syncs: str | None = None
    """The standby's topic with MirrorMaker 2's offset syncs, for the method ``synced``."""

    def buffer_of(self, want: Want) -> int:
        """X of one partition."""
        return self.buffer_ms if want.buffer_ms is None else want.buffer_ms

    @property
    def uses_times(self) -> bool:
        """Whether any rule may have to know what lies at a time."""
        return MethodName.TIMESTAMP in self.methods or self.on_no_match == MethodName.CLOSEST


@dataclass(frozen=True, kw_only=True, slots=True)
class AtMost:
    """Upper bounds of one partition whose own numbers are unknown, because the standby lags too far behind."""

    exposure_records: int
    exposure_seconds: float | None
    """None: no time is known for the bound."""
    replay_later_records: int
    by: str
    """What shows how far the copies reach: the end of a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where one partition resumes, with the forecast of what that costs."""

    source: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    buffer_ms: int
    target_topic: str
    target_partition: int
    target_offset: int | None
    """None: no method held; then ``note`` says why, and a gate refuses."""
    method: str | None
    exact: bool
    """Proven: nothing lost and nothing read twice by this choice."""
    begin: int | None
    end: int | None
    """Of the standby's partition, one snapshot."""
    replay_records: int | None
    """Records from ``target_offset`` that the query has already read; None when it is unknown."""
    replay_later_records: int | None
    """Records that the replicator has yet to append and that the query has already read."""
    exposure_records: int | None
    """Records known on the old cluster, unread or read, that the standby does not have."""
    exposure_seconds: float | None
    note: str
    error: str | None = None
    """The protocol's or the network's error for this partition, if its facts could not be had."""
    expired: bool = False
    """Retention on the standby has deleted the records around the position; unread ones may have been among them."""
    later: tuple[Fingerprint, ...] = ()
    """Of ``replay_later_records``, those that are remembered: by them they are known when they come."""
    last: Sequence[Fingerprint] = ()
    """What is remembered of the records before the position, where they belong to the standby's partition of that
    number: by them they are known when they are read again."""
    after_last: int = 0
    """How many records were read after the last of them."""
    sampled_end: int | None = None
    """Of the old partition, as last sampled: the exposure knows of nothing behind it. None: it was never sampled."""
    sampled_at: datetime | None = None
    """When that was."""
    at_most: AtMost | None = None
    """Bounds where ``exposure_records`` or ``replay_later_records`` is unknown; never a measured number."""
    sent_again: bool = False
    """The place would be exact, if no records that were read lay behind it a second time, or if that were known."""

    @property
    def there(self) -> TopicPartition:
        """The partition of the standby."""
        return TopicPartition(self.target_topic, self.target_partition)

    @property
    def is_proven(self) -> bool:
        """Whether the place is right behind the first copy of the last record read, whatever lies behind it."""
        return self.exact or self.sent_again


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution:
    """The answer for all partitions of the question."""

    targets: tuple[Target, ...]
    looked_up_at: datetime
    seconds: float
    missing_topics: tuple[str, ...] = ()
    fewer_partitions: Mapping[str, tuple[int, int]] | None = None
    """Topic to (old count, standby's count) where they differ."""
    timestamp_types: Mapping[str, str] | None = None
    """``message.timestamp.type`` per standby topic."""
    earliest_timestamps: Mapping[TopicPartition, int] | None = None
    """Timestamp of the first record still kept on the standby, where it was needed (retention)."""
    search_cut_short: bool = False
    """Whether a number of repeats is unknown because the time to search for them was over."""

    @property
    def is_complete(self) -> bool:
        """Whether every partition has a place."""
        return all(target.target_offset is not None for target in self.targets)
