"""One want on its way to a target, and what was asked of the standby for all of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from state.model.entities import EndSample, TopicPartition
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, OffsetAnswer, PartitionError, Segments, Spec, TopicFacts
from streaming.resolve.batched_lookups import Question, ask_offsets
from streaming.resolve.scan import Scan
from streaming.resume.methods.content_search import Found, NoPlace
from streaming.resume.model import Rules, Want
from streaming.resume.offset_syncs import Syncs
from streaming.resume.sent_again import NOTHING, Resent


@dataclass(kw_only=True, slots=True)
class Lookup:
    """One resolution: of whom, under which rules, by when, and what came back."""

    log: ClusterLog
    rules: Rules
    old_ends: Mapping[TopicPartition, EndSample]
    now: datetime
    deadline: Deadline
    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    answers: dict[Question, OffsetAnswer] = field(default_factory=dict)
    visible: dict[Question, OffsetAnswer] = field(default_factory=dict)
    segments: dict[Question, Segments] = field(default_factory=dict)

    def ask(self, questions: Iterable[Question]) -> None:
        """Ask what was not asked before."""
        new = [question for question in questions if question not in self.answers]
        self.answers |= ask_offsets(self.log, new, self.deadline)

    def error(self, key: TopicPartition) -> PartitionError | None:
        """The error that leaves a partition without begin or end."""
        asked = [self.answers[key, Spec.LATEST], self.answers[key, Spec.EARLIEST]]
        if (visible := self.visible.get((key, Spec.LATEST))) is not None:
            asked.append(visible)
        return next((looked.error for looked in asked if looked.error is not None), None)

    def tells_times(self, key: TopicPartition, time: int) -> bool:
        """Whether a time was asked for, and was answered or may be answered when it is asked again."""
        looked = self.answers.get((key, time)) if MethodName.TIMESTAMP in self.rules.methods else None
        return looked is not None and (looked.error is None or looked.error.retriable)

    def bound(self, key: TopicPartition, spec: Spec) -> int:
        """Begin or end of a partition without an ``error``."""
        offset = self.answers[key, spec].offset
        assert offset is not None
        return offset

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
    ever_read: int = 0
    note: str = ""
    added: bool = False
    """Whether the standby has this partition beyond those that were known of the old topic."""
    copy: Found | str = ""
    """What came of comparing the same offsets on both sides; empty when that was not asked."""
    syncs: Syncs | str = ""
    """The replicator's offset syncs of the old partition, or why there are none; empty when that was not asked."""
    resent: Resent = NOTHING
    """What was sent again behind the place found by content."""
