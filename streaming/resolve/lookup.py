"""What one resolution keeps: all that the standby answered, and what is known of each partition so far.

The steps of the resolver share these two. Each adds to them, and none requests again what an earlier one has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from state.model.entities import EndSample, TopicPartition
from state.settings.keys import MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, LogRecord, OffsetAnswer, PartitionError, Segments, Spec, TopicFacts
from streaming.resolve.batched_lookups import Question, request_offsets
from streaming.resolve.scan import Scan
from streaming.resume.contradictions import Snapshot, doubted
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
    search_seconds: float
    """For how long what was sent again is searched for."""
    search_cut_short: bool = False
    """Whether that was too short."""
    facts: Mapping[str, TopicFacts] = field(default_factory=dict)
    answers: dict[Question, OffsetAnswer] = field(default_factory=dict)
    visible: dict[Question, OffsetAnswer] = field(default_factory=dict)
    segments: dict[Question, Segments] = field(default_factory=dict)
    stamped: set[str] = field(default_factory=set)
    """Topics of which a record shows that the standby stamps them itself, whatever is known of their settings."""

    def request(self, questions: Iterable[Question]) -> None:
        """Look up what was not looked up before."""
        new = [question for question in questions if question not in self.answers]
        self.answers |= request_offsets(self.log, new, self.deadline)

    def error(self, key: TopicPartition) -> PartitionError | None:
        """The error that leaves a partition without begin or end."""
        requested = [self.answers[key, Spec.LATEST], self.answers[key, Spec.EARLIEST]]
        if (visible := self.visible.get((key, Spec.LATEST))) is not None:
            requested.append(visible)
        error = next((looked.error for looked in requested if looked.error is not None), None)
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

    def answers_times(self, key: TopicPartition, time: int) -> bool:
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

    def uses_append_time(self, topic: str) -> bool:
        """Whether its broker stamps the records itself, as it says or as they show."""
        return topic in self.stamped or self.facts[topic].timestamp_type == "LogAppendTime"

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
    """A want, the partition of the standby that may hold its place, and what was found out about it so far."""

    want: Want
    key: TopicPartition
    partner: bool = True
    """Whether the standby's partition is the old one's copy; not so where partitions do not match one to one."""
    alignment: Found | NoPlace | None = None
    by_committed: Found | NoPlace | None = None
    """What the committed ones of the records read show, where that gave no better place; None: not looked at."""
    scan: Scan | None = None
    idle: bool | None = None
    oldest_ms: int | None = None
    """Oldest time of the records read last of all partitions of the topic, where any of them may lie here."""
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
