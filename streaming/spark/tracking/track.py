"""What is known of one run's way through its topics, and the positions that follow from it; pure.

A position says three things, and each only where it was seen. It says the offset (from the checkpoint), and the records
right before it (only when the log was read at that very offset). And it says whether the way there was dense (every
offset held a record that the query read). Spark's row count proves the last even of a dead cluster, but only for a
source that is read once per batch. A sink that runs two jobs counts its rows twice, and twice a half is a whole.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from state.messages import Offsets
from state.model.entities import EndSample, Fingerprint, Position, TopicPartition
from state.model.fingerprints import LIMIT, Fingerprints
from streaming.cluster_log import TopicFacts
from streaming.spark.checkpoint.follower import Batch
from streaming.spark.hosting import Subject

TAIL = 32
"""Records read before each end."""
_SURE = 8
"""Records of a partition that must lie side by side before a row count is believed."""
_KEPT = 12
_REMEMBERED_ENDS = 4


class TrackedPartition(NamedTuple):
    """A partition as one source reads it."""

    source: str
    partition: TopicPartition


class _Read(NamedTuple):
    """What one reading of an end showed."""

    leader_epoch: int | None
    """Of the newest record before the end."""
    since: int
    """From here to the end every offset was looked at."""


@dataclass(slots=True)
class _Known:
    """What was read of one partition."""

    ring: Fingerprints = field(default_factory=Fingerprints)
    read_at: dict[int, _Read] = field(default_factory=dict)
    """The ends that were read, newest last."""
    until: int = 0
    """The largest of them that was read as a whole."""
    leader_epoch: int | None = None
    """Of the newest record before that."""


class RunProgress:
    """One run under one epoch on one cluster."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._batches: dict[int, dict[TrackedPartition, int]] = {}
        self._committed: int | None = None
        self._rows: dict[int, Mapping[str, int]] = {}
        self._known: dict[TrackedPartition, _Known] = {}
        self._read_once: set[str] = set()
        self._reported: dict[int, dict[TrackedPartition, bool | None]] = {}
        """Per batch what was last reported of each place: whether the way there is dense."""
        self._reported_at: dict[int, datetime] = {}
        self._news: dict[int, set[TrackedPartition]] = {}
        """Per batch with something to report: the places to report, whether or not their density is known better."""
        self._inherited: set[int] = set()
        """Batches of an earlier run, whose positions are stored already and may hold what can no longer be read."""

    def see(self, batch: Batch) -> None:
        """A batch was planned or committed; the latter changes nothing about where it ended."""
        known, ends = self._batches.get(batch.id, {}), places(batch.offsets)
        moved = {place for place, end in ends.items() if known.get(place) != end}
        if batch.id not in self._batches and batch.planned_after is None:
            self._inherited.add(batch.id)
        elif (
            batch.id in self._inherited
            and batch.committed
            and batch.id > (-1 if self._committed is None else self._committed)
        ):
            self._inherited.discard(batch.id)  # by this run; a run that begins again only sees again what was there
            moved = set(ends)
        if moved:
            self._batches[batch.id] = ends
            self._news.setdefault(batch.id, set()).update(moved)
        if batch.committed:
            self._committed = max(batch.id, self._committed or 0)
        for old in sorted(self._batches)[:-_KEPT]:
            del self._batches[old]
            for kept in (self._rows, self._reported, self._reported_at, self._news):
                kept.pop(old, None)
            self._inherited.discard(old)

    def count(self, batch: int, rows: Mapping[str, int]) -> None:
        """Spark counted the rows of a batch, per source."""
        if batch in self._batches and batch not in self._rows:
            self._rows[batch] = rows
            self._news.setdefault(batch, set())

    def partitions(self) -> set[TopicPartition]:
        """Every partition that the run reads."""
        return {place.partition for place in self._batches[max(self._batches)]} if self._batches else set()

    def unread(self) -> list[dict[TrackedPartition, int]]:
        """Ends whose records are still to be read: of the committed batch first, then of the planned one."""
        due = [
            {place: end for place, end in self._batches[batch].items() if not self._was_read(place, end)}
            for batch in self._due()
        ]
        return [ends for ends in due if ends]

    def known(self, place: TrackedPartition, end: int) -> int:
        """Where reading back from an end may stop: what counts before it was read already; 0 where nothing was."""
        until = self._known[place].until if place in self._known else 0
        return until if until < end else 0

    def learn(
        self,
        place: TrackedPartition,
        end: int,
        tail: Iterable[Fingerprint],
        *,
        whole: bool = True,
        leader_epoch: int | None = None,
        start: int | None = None,
    ) -> None:
        """The records right before an end were read, back to what was known; none means that there are none.

        From ``start`` on every offset was looked at; without it, from the first of the records on.
        ``leader_epoch`` is that of the newest of them. Where it is another than before, what was known may not have
        survived the change of leaders: then the end counts as unread once more, and nothing as known.
        """
        known = self._known.setdefault(place, _Known())
        epochs = {known.leader_epoch, leader_epoch} - {None}
        if self.known(place, end) and len(epochs) > 1:
            known.until, known.leader_epoch = 0, None
            return
        ring = Fingerprints.of(tail)
        since = start if start is not None else ring.first if ring else end
        if known.until < end and since <= known.until and known.until in known.read_at:
            since = known.read_at[known.until].since
        known.ring = known.ring.merged(ring, limit=2 * LIMIT)
        before = known.leader_epoch if leader_epoch is None and known.until <= end else leader_epoch
        ends = [each for each in known.read_at.items() if each[0] != end]
        known.read_at = dict([*ends, (end, _Read(before, since))][-_REMEMBERED_ENDS:])
        if whole and end > known.until:
            known.until = end
            known.leader_epoch = known.leader_epoch if leader_epoch is None else leader_epoch
        for batch in self._due():
            if self._batches[batch].get(place) == end:
                self._news.setdefault(batch, set()).add(place)

    def positions(
        self, now: datetime, samples: Mapping[TopicPartition, EndSample], topics: Mapping[str, TopicFacts]
    ) -> list[Position]:
        """Positions that are new or better known than when they were last fetched. What is reported again keeps the
        time of the first report. To a store, a newer batch that was tracked before an older one belongs to a checkpoint
        that is gone. Also reported are this run's batches whose ends were never read: consecutive rows are what proves
        a gap dense when the newest ring is older than the checkpoint. What an earlier run left is reported only where
        it was read again: its own rows may know more, and the cluster may be dead by now.
        """
        news, self._news = self._news, {}
        found: list[Position] = []
        for batch, changed in sorted(news.items()):
            counted = self._believe(batch)
            announced, at = self._reported.setdefault(batch, {}), self._reported_at.setdefault(batch, now)
            for place in self._batches[batch] if batch in self._rows else changed:
                if batch in self._inherited and not self._was_read(place, self._batches[batch][place]):
                    continue
                dense = self._dense(batch, place, counted)
                if place in changed or announced.get(place) != dense:
                    announced[place] = dense
                    found.append(self._position(batch, place, at, samples, topics, dense))
        return found

    def consumed(self) -> dict[TrackedPartition, tuple[int, Fingerprints]]:
        """Where the newest committed batch ended, with the last records known of before; nothing before the first."""
        ends = {} if self._committed is None else self._batches.get(self._committed, {})
        return {place: (end, self._ring(place).before(end, limit=TAIL)) for place, end in ends.items()}

    def _ring(self, place: TrackedPartition) -> Fingerprints:
        return self._known[place].ring if place in self._known else Fingerprints()

    def _was_read(self, place: TrackedPartition, end: int) -> bool:
        return place in self._known and end in self._known[place].read_at

    def _due(self) -> list[int]:
        """The newest committed batch, and the planned one after it."""
        return [batch for batch in sorted(self._batches) if self._committed is None or batch >= self._committed][-2:]

    def _position(
        self,
        batch: int,
        place: TrackedPartition,
        tracked_at: datetime,
        samples: Mapping[TopicPartition, EndSample],
        topics: Mapping[str, TopicFacts],
        dense: bool | None,
    ) -> Position:
        topic, partition = place.partition
        offset = self._batches[batch][place]
        ring = self._remembered(place, offset)
        facts = topics.get(topic)
        return Position(
            query=self.subject.query,
            epoch=self.subject.epoch,
            cluster=self.subject.cluster,
            source=place.source,
            topic=topic,
            partition=partition,
            batch=batch,
            offset=offset,
            timestamp_ms=read_until(offset, ring.newest_timestamp, samples.get(place.partition)),
            leader_epoch=self._leader_epoch(place, offset, samples.get(place.partition)),
            topic_id=facts.topic_id if facts is not None else None,
            ring=ring,
            dense=dense,
            tracked_at=tracked_at,
        )

    def _remembered(self, place: TrackedPartition, offset: int) -> Fingerprints:
        """The records read last before an end.

        Where some are uncommitted, only as far back as every offset was looked at. The standby may lack them, and its
        next record is then unread only if none was read unseen between.
        """
        if not self._was_read(place, offset):
            return Fingerprints()
        ring = self._ring(place).before(offset)
        return ring.after(self._known[place].read_at[offset].since) if ring.uncommitted else ring

    def _leader_epoch(self, place: TrackedPartition, offset: int, sample: EndSample | None) -> int | None:
        """Of the newest record before an offset, as it was read or, at the sampled end, as the cluster answered
        (KIP-320).

        Never that of the leader of now: a log that was cut since would then confirm what it has lost.
        """
        read = self._known[place].read_at.get(offset) if place in self._known else None
        if read is not None and read.leader_epoch is not None:
            return read.leader_epoch
        return sample.leader_epoch if sample is not None and sample.end == offset else None

    def _dense(self, batch: int, place: TrackedPartition, counted: Collection[str]) -> bool | None:
        begin = self._begin(batch, place)
        if begin is None:
            return None
        end = self._batches[batch][place]
        if place.source in counted or self._ring(place).covers(begin, end):
            return True
        return False if self._has_gap(place, begin, end) else None

    def _begin(self, batch: int, place: TrackedPartition) -> int | None:
        """Where the batch before it ended."""
        return self._batches.get(batch - 1, {}).get(place)

    def _has_gap(self, place: TrackedPartition, begin: int, end: int) -> bool:
        """Whether the log was read at the end and an offset before it, inside the batch, held no record."""
        if not self._was_read(place, end):
            return False
        newest = self._ring(place).before(end, limit=TAIL)
        start = max(begin, newest[0].offset) if newest else begin
        return not newest.covers(start, end)

    def _counts_match(self, batch: int, source: str) -> bool:
        rows = self._rows.get(batch, {}).get(source)
        return rows is not None and rows == self._advance(batch, source)

    def _advance(self, batch: int, source: str) -> int | None:
        """By how many offsets a batch moved a source on; None when the batch before is not known."""
        ways = [
            (self._begin(batch, place), end) for place, end in self._batches[batch].items() if place.source == source
        ]
        return None if any(begin is None for begin, _ in ways) else sum(end - (begin or 0) for begin, end in ways)

    def _believe(self, batch: int) -> set[str]:
        """The sources whose row count proves this batch dense: it agrees with the log, and they are read once.

        Read once per batch is a source whose count agreed where the log itself was seen to be dense, until a count
        disagrees.
        """
        proven: set[str] = set()
        for source in self._rows.get(batch, {}):
            if not self._counts_match(batch, source):
                self._read_once.discard(source)
                continue
            if self._advance(batch, source) and self._all_side_by_side(batch, source):
                self._read_once.add(source)
            if source in self._read_once:
                proven.add(source)
        return proven

    def _all_side_by_side(self, batch: int, source: str) -> bool:
        for place, end in self._batches[batch].items():
            begin = self._begin(batch, place)
            if place.source == source and begin is not None and end > begin:
                start = max(begin, end - _SURE)
                if not self._ring(place).covers(start, end):
                    return False
        return True


def read_until(offset: int, timestamp_ms: int | None, sample: EndSample | None) -> int | None:
    """The time up to which a partition counts as read, in milliseconds.

    A position at the sampled end has read all that there was when it was sampled. So an idle partition does not drag
    the time of its query into the past.
    """
    if sample is None or sample.end != offset:
        return timestamp_ms
    sampled_ms = int(sample.sampled_at.timestamp() * 1000)
    return sampled_ms if timestamp_ms is None else max(timestamp_ms, sampled_ms)


def places(offsets: Offsets) -> dict[TrackedPartition, int]:
    """Offsets as a checkpoint nests them, by place."""
    return {
        TrackedPartition(source, TopicPartition(topic, int(partition))): offset
        for source, topics in offsets.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
