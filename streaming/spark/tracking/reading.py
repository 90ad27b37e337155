"""Reading from a cluster what tracking needs: the records before positions, and the ends of topics."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from state.model.entities import EndSample, TopicPartition
from streaming.cluster_log import ClusterLog, OffsetAnswer, Spec, TopicFacts
from streaming.last_records import read_last_records
from streaming.spark.tracking.track import TAIL, RunProgress, TrackedPartition

_BEGIN_EVERY = 30
_DESCRIBE_EVERY = 10
_VALID_FOR = timedelta(seconds=10)
"""How long an end that grew is reported without the time of its newest record only by leaving the former sample."""


class EndSampler:
    """Reads from one cluster, about once a second; what changes slowly is read more rarely."""

    def __init__(self, cluster: str, log: ClusterLog) -> None:
        self._cluster = cluster
        self._log = log
        self._requested = 0
        self._begins: dict[TopicPartition, int] = {}
        self.topics: Mapping[str, TopicFacts] = {}
        """As last described."""
        self.samples: dict[TopicPartition, EndSample] = {}
        """The newest of each partition."""

    def sample(self, partitions: Collection[TopicPartition], now: datetime, *, timeout: float) -> list[EndSample]:
        """Read the ends of these partitions. Raises ``ClusterUnreachable``; a partition's error leaves it out.

        So does an answer that came in part only, from a broker that fell silent between two questions: what was sampled
        before says more than an end without its time. A broker that does not know the largest timestamp is no such one.

        Neither is a leader whose newest record is not on all replicas in sync yet. No consumer may read that one, and
        instead of the one before it the leader returns none (``ReplicaManager.fetchOffset``). That is so again and
        again where much is written, and for ``replica.lag.time.max.ms`` when a follower dies, first of its cluster for
        example. It gets the request once more; then an end that did not move has the time it had, and one that did
        waits for the next sample.
        """
        if not partitions:
            return []
        unknown = {each.topic for each in partitions} - set(self.topics)
        if unknown or self._requested % _DESCRIBE_EVERY == 0:
            self.topics = self._log.describe({each.topic for each in partitions}, timeout=timeout)
        if self._requested % _BEGIN_EVERY == 0 or not set(partitions) <= set(self._begins):
            begins = self._look(partitions, Spec.EARLIEST, timeout)
            self._begins |= {each: looked.offset for each, looked in begins.items() if looked.offset is not None}
        self._requested += 1
        ends = self._look(partitions, Spec.LATEST, timeout)
        newest = dict(self._look(partitions, Spec.MAX_TIMESTAMP, timeout))
        if ahead := [each for each, looked in newest.items() if looked.is_blank and self._has_records(each, ends)]:
            newest |= self._look(ahead, Spec.MAX_TIMESTAMP, timeout)
        whole = [
            self._of(partition, end, newest.get(partition), now)
            for partition, end in ends.items()
            if end.error is None and end.offset is not None and not _came_to_nothing(newest.get(partition))
        ]
        found = [sample for each in whole if (sample := self._timed(each)) is not None]
        self.samples |= {TopicPartition(each.topic, each.partition): each for each in found}
        return found

    def _timed(self, sample: EndSample) -> EndSample | None:
        """The sample, with the time of before where no record came that can be read; nothing where that one is still
        right.
        """
        former = self.samples.get(TopicPartition(sample.topic, sample.partition))
        if sample.newest_timestamp_ms is not None or former is None or former.newest_timestamp_ms is None:
            return sample
        if sample.begin == sample.end:
            return sample
        if (former.end, former.topic_id) == (sample.end, sample.topic_id):
            return replace(sample, newest_timestamp_ms=former.newest_timestamp_ms)
        return None if sample.sampled_at - former.sampled_at <= _VALID_FOR else sample

    def _has_records(self, partition: TopicPartition, ends: Mapping[TopicPartition, OffsetAnswer]) -> bool:
        end = ends.get(partition)
        return end is not None and (end.offset or 0) > self._begins.get(partition, 0)

    def _look(
        self, partitions: Collection[TopicPartition], spec: Spec, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        return self._log.offsets(dict.fromkeys(partitions, int(spec)), timeout=timeout)

    def _of(
        self, partition: TopicPartition, end: OffsetAnswer, newest: OffsetAnswer | None, now: datetime
    ) -> EndSample:
        """Two answers as one: where the newest record came after the end was looked up, the log ends behind it."""
        facts = self.topics.get(partition.topic)
        timestamp, last = (None, None) if newest is None or newest.error else (newest.timestamp_ms, newest.offset)
        return EndSample(
            cluster=self._cluster,
            topic=partition.topic,
            partition=partition.partition,
            begin=self._begins.get(partition, 0),
            end=max(end.offset or 0, 0 if last is None else last + 1),
            newest_timestamp_ms=timestamp if timestamp is not None and timestamp >= 0 else None,
            leader_epoch=end.leader_epoch,
            topic_id=facts.topic_id if facts is not None else None,
            sampled_at=now,
        )


def _came_to_nothing(looked: OffsetAnswer | None) -> bool:
    """Whether a retry might have found it."""
    return looked is None or (looked.error is not None and looked.error.retriable)


_Wanted = tuple[RunProgress, TrackedPartition, int]
_ISOLATIONS = (False, True)


def read_ends(log: ClusterLog, tracks: Collection[RunProgress], *, timeout: float) -> None:
    """Let each track learn what lies before its unread ends, each call within ``timeout`` seconds.

    Each source is read for under its own isolation level: what its query was given, and nothing else. A call takes one
    end per partition; several ends of one take several calls. Raises what ``log.fetch`` raises.
    """
    rounds = [(track, ends) for track in tracks for ends in track.unread()]
    wanted = [(track, place, end) for track, ends in rounds for place, end in ends.items()]
    for committed in _ISOLATIONS:
        alike = [each for each in wanted if (each[1].source in each[0].subject.committed_only) is committed]
        _read_alike(log, alike, read_committed=committed, timeout=timeout)


def _read_alike(log: ClusterLog, wanted: list[_Wanted], *, read_committed: bool, timeout: float) -> None:
    while wanted:
        ends = {place.partition: end for _, place, end in reversed(wanted)}
        answered, wanted = _split(wanted, ends)
        tails = read_last_records(
            log, ends, count=TAIL, known=_known(answered), timeout=timeout, read_committed=read_committed
        )
        for track, place, end in answered:
            tail = tails[place.partition]
            if tail.records or tail.error is None:
                track.learn(
                    place,
                    end,
                    tail.records,
                    whole=tail.error is None,
                    leader_epoch=tail.leader_epoch,
                    start=tail.start,
                )


def _split(wanted: list[_Wanted], ends: dict[TopicPartition, int]) -> tuple[list[_Wanted], list[_Wanted]]:
    """What one call answers, and what is left for the next."""
    answered = [each for each in wanted if ends[each[1].partition] == each[2]]
    return answered, [each for each in wanted if ends[each[1].partition] != each[2]]


def _known(wanted: list[_Wanted]) -> dict[TopicPartition, int]:
    """From where on each partition is to be read, so that all who want its records get them."""
    known: dict[TopicPartition, int] = {}
    for track, place, end in wanted:
        known[place.partition] = min(track.known(place, end), known.get(place.partition, end))
    return known
