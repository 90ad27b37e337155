"""What is known of one run's way through its topics, and the positions that follow from it; pure.

A position says three things, and each only where it was seen: the offset (from the checkpoint), the records right
before it (only when the log was read at that very offset), and whether the way there was dense (every offset held a
record that the query read). Spark's row count proves the last even of a dead cluster, but only for a source that is
read once per batch: a sink that runs two jobs counts its rows twice, and twice a half is a whole.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from state.model import EndSample, Fingerprint, Position, TopicPartition
from state.protocol import Offsets
from streaming.log import TopicFacts
from streaming.spark.follow import Batch
from streaming.spark.hosting import Subject
from streaming.spark.ring import Ring, before, covers, merge_ring, newest_timestamp, read_until

TAIL = 32
"""Records read before each end."""
_SURE = 8
"""Records of a partition that must lie side by side before a row count is believed."""
_KEPT = 12


class Place(NamedTuple):
    """A partition as one source reads it."""

    source: str
    partition: TopicPartition


class Track:
    """One run under one epoch on one cluster."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._batches: dict[int, dict[Place, int]] = {}
        self._committed: int | None = None
        self._rows: dict[int, Mapping[str, int]] = {}
        self._rings: dict[Place, Ring] = {}
        self._read_at: dict[Place, list[int]] = {}
        self._read_once: set[str] = set()
        self._stored: dict[int, bool] = {}
        """Batch to whether its row count was in when it was last made into positions."""

    def see(self, batch: Batch) -> None:
        """A batch was planned or committed."""
        self._batches[batch.id] = places(batch.offsets)
        if batch.committed:
            self._committed = max(batch.id, self._committed or 0)
            self._stored.pop(batch.id, None)
        for old in sorted(self._batches)[:-_KEPT]:
            del self._batches[old]
            self._rows.pop(old, None)
            self._stored.pop(old, None)

    def count(self, batch: int, rows: Mapping[str, int]) -> None:
        """Spark counted the rows of a batch, per source."""
        if batch in self._batches and batch not in self._rows:
            self._rows[batch] = rows
            self._stored.pop(batch, None)

    def partitions(self) -> set[TopicPartition]:
        """Every partition that the run reads."""
        return {place.partition for offsets in self._batches.values() for place in offsets}

    def unread(self) -> list[dict[Place, int]]:
        """Ends whose records are still to be read: of the committed batch first, then of the planned one."""
        due = [
            {place: end for place, end in self._batches[batch].items() if end not in self._read_at.get(place, ())}
            for batch in self._due()
        ]
        return [ends for ends in due if ends]

    def learn(self, place: Place, end: int, tail: Iterable[Fingerprint]) -> None:
        """The records right before an end were read; none means that there are none."""
        self._rings[place] = merge_ring(self._rings.get(place, ()), tuple(tail), limit=2 * 256)
        self._read_at[place] = [*self._read_at.get(place, ()), end][-4:]
        for batch in self._due():  # worth telling again
            if self._batches[batch].get(place) == end:
                self._stored.pop(batch, None)

    def positions(
        self, now: datetime, samples: Mapping[TopicPartition, EndSample], topics: Mapping[str, TopicFacts]
    ) -> list[Position]:
        """Positions that are new or better known than when they were last asked for.

        Also those of batches whose ends were never read: consecutive rows are what proves a gap dense when the newest
        ring is older than the checkpoint.
        """
        due = [batch for batch in sorted(self._batches) if batch not in self._stored]
        for batch in due:
            self._believe(batch)
            self._stored[batch] = batch in self._rows
        return [self._position(batch, place, now, samples, topics) for batch in due for place in self._batches[batch]]

    def _due(self) -> list[int]:
        """The newest committed batch, and the planned one after it."""
        return [batch for batch in sorted(self._batches) if self._committed is None or batch >= self._committed][-2:]

    def _position(
        self,
        batch: int,
        place: Place,
        now: datetime,
        samples: Mapping[TopicPartition, EndSample],
        topics: Mapping[str, TopicFacts],
    ) -> Position:
        topic, partition = place.partition
        offset = self._batches[batch][place]
        ring = before(self._rings.get(place, ()), offset) if offset in self._read_at.get(place, ()) else ()
        facts = topics.get(topic)
        leader = facts.partitions.get(partition) if facts is not None else None
        return Position(
            query=self.subject.query,
            source=place.source,
            topic=topic,
            partition=partition,
            batch=batch,
            offset=offset,
            timestamp_ms=read_until(offset, newest_timestamp(ring), samples.get(place.partition)),
            leader_epoch=leader.leader_epoch if leader is not None else None,
            topic_id=facts.topic_id if facts is not None else None,
            ring=ring,
            dense=self._dense(batch, place),
            tracked_at=now,
        )

    def _dense(self, batch: int, place: Place) -> bool | None:
        begin = self._begin(batch, place)
        if begin is None:
            return None
        end = self._batches[batch][place]
        ring = self._rings.get(place, ())
        if covers(ring, begin, end):
            return True
        if place.source in self._read_once and self._counts_match(batch, place.source):
            return True
        return False if self._has_gap(place, begin, end) else None

    def _begin(self, batch: int, place: Place) -> int | None:
        """Where the batch before it ended."""
        return self._batches.get(batch - 1, {}).get(place)

    def _has_gap(self, place: Place, begin: int, end: int) -> bool:
        """Whether the log was read at the end and an offset before it, inside the batch, held no record."""
        if end not in self._read_at.get(place, ()):
            return False
        newest = before(self._rings.get(place, ()), end, limit=TAIL)
        start = max(begin, newest[0].offset) if newest else begin
        return not covers(newest, start, end)

    def _counts_match(self, batch: int, source: str) -> bool:
        rows = self._rows.get(batch, {}).get(source)
        return rows is not None and rows == self._advance(batch, source)

    def _advance(self, batch: int, source: str) -> int | None:
        """By how many offsets a batch moved a source on; None when the batch before is not known."""
        ways = [
            (self._begin(batch, place), end) for place, end in self._batches[batch].items() if place.source == source
        ]
        return None if any(begin is None for begin, _ in ways) else sum(end - (begin or 0) for begin, end in ways)

    def _believe(self, batch: int) -> None:
        """Note the sources whose row count and log agree: they are read once per batch."""
        for source in self._rows.get(batch, {}):
            if not self._counts_match(batch, source):
                self._read_once.discard(source)
            elif self._advance(batch, source) and self._all_side_by_side(batch, source):
                self._read_once.add(source)

    def _all_side_by_side(self, batch: int, source: str) -> bool:
        for place, end in self._batches[batch].items():
            begin = self._begin(batch, place)
            if place.source == source and begin is not None and end > begin:
                start = max(begin, end - _SURE)
                if not covers(self._rings.get(place, ()), start, end):
                    return False
        return True


def places(offsets: Offsets) -> dict[Place, int]:
    """Offsets as a checkpoint nests them, by place."""
    return {
        Place(source, TopicPartition(topic, int(partition))): offset
        for source, topics in offsets.items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
