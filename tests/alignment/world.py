"""One world for all cases: their records are written, replicated, sent again, compacted or held back, side by side."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from state.model.entities import EndSample, TopicPartition
from state.model.fingerprints import LIMIT
from state.settings.keys import Cluster, MethodName
from streaming.cluster_log import Spec
from streaming.kafka.link import Link
from streaming.last_records import read_last_records
from streaming.resolve.resolver import resolve
from streaming.resume.model import Rules, Target, Want
from tests.alignment.cases import Case
from tests.alignment.judge import Judge, Verdict
from tests.alignment.pair import PARTITIONS, Pair
from tests.alignment.records import Kept, Writer, counting, put_foreign, read_all

BUFFER_MS = 900_000
METHODS = (MethodName.EXACT, MethodName.TIMESTAMP)
_FOREIGN_AGE_MS = 1_000_000_000
_START_AGE_MS = 86_400_000
_FLUSH_SECONDS = 2.5
"""By then the replicator has written down how far it read."""
_MORE_KILLS = 12
_COMPACTION_SECONDS = 240.0
_COMPACTED_FROM = 40
"""Of so many records some are left, whatever was overwritten: three of ten belong to a key of their own."""
_SOURCE = "source"
_TIMEOUT = 120.0


@dataclass(frozen=True)
class Answer:
    """One position, the place that the resolver gave, and what the judge says of it."""

    position: int
    target: Target
    verdict: Verdict


@dataclass
class Filled:
    """All topics as they lie on both sides when the positions are taken."""

    pair: Pair
    chance: random.Random
    _writers: dict[str, Writer] = field(default_factory=dict)
    _foreign: dict[str, dict[int, int]] = field(default_factory=dict)
    _start_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000 - _START_AGE_MS)

    def fill(self, cases: Sequence[Case], *, records: int, kills: int, burst_seconds: float) -> None:
        """Write at most ``records`` to each partition of each case and let all fates come true."""
        numbers = counting()
        for case in cases:
            self.pair.make(case.topic, primary=case.primary, standby=case.standby)
            self._foreign[case.topic] = put_foreign(self.pair.west, case.topic, self._start_ms - _FOREIGN_AGE_MS)
            writer = Writer(self.pair.east, case.topic, numbers, self.chance, case.producer)
            self._writers[case.topic] = writer
            case.write(writer, 30 if case.killed else min(case.most, records), self._start_ms)
            writer.flush()
        self.pair.replicate()
        self._replicated(cases)
        killed = [case for case in cases if case.killed]
        for _ in range(kills if killed else 0):
            self._kill(killed, burst_seconds)
        self._burst(killed, burst_seconds)
        self._replicated(killed)
        self._await_sent_again(killed, burst_seconds)
        self.pair.kill()
        for case in cases:
            if case.late:
                case.write(self._writers[case.topic], case.late, self._start_ms + _START_AGE_MS // 2)
                self._writers[case.topic].flush()
        self._await_compaction([case for case in cases if case.compacted])

    def _kill(self, killed: Sequence[Case], burst_seconds: float) -> None:
        """End the replicator amid a burst: what it has not written down as read it sends again once it is back."""
        time.sleep(_FLUSH_SECONDS)
        self._burst(killed, burst_seconds)
        self.pair.kill()
        before = self._held(killed)
        self._burst(killed, burst_seconds / 4)
        self.pair.replicate()
        for case in killed:
            self.pair.await_growth(case.topic, before[case.topic])

    def _await_sent_again(self, killed: Sequence[Case], burst_seconds: float) -> None:
        """Kill it again, a few times at most, where it had by chance just written down all that it had read."""
        for left in reversed(range(_MORE_KILLS + 1)):
            if all(all(sent_again(read_all(self.pair.west, case.topic))) for case in killed):
                return
            assert left, f"the replicator was killed {_MORE_KILLS} times more and sent nothing again"
            self._kill(killed, burst_seconds)
            self._replicated(killed)

    def _replicated(self, cases: Iterable[Case]) -> None:
        """Wait for all that was written; of a compacted primary only what is left of it can come."""
        least: dict[str, dict[int, int]] = {}
        for case in cases:
            foreign, written = self._foreign[case.topic], self._writers[case.topic].written
            least[case.topic] = {
                number: foreign[number] + (1 if case.primary else written[number]) for number in range(PARTITIONS)
            }
        self.pair.await_records(least)

    def _held(self, cases: Iterable[Case]) -> dict[str, int]:
        return {case.topic: sum(self.pair.ends(self.pair.west, case.topic).values()) for case in cases}

    def _burst(self, cases: Sequence[Case], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for case in cases:
                case.write(self._writers[case.topic], 8, self._start_ms)
                self._writers[case.topic].flush()
            time.sleep(0.05)

    def _await_compaction(self, cases: Sequence[Case]) -> None:
        deadline = time.monotonic() + _COMPACTION_SECONDS
        for case in cases:
            bootstrap = self.pair.east if case.primary else self.pair.west
            before = sum(self._writers[case.topic].written.values())
            while sum(map(len, read_all(bootstrap, case.topic).values())) > 0.8 * before:
                assert time.monotonic() < deadline, f"{case.topic} is not compacted"
                time.sleep(2)

    def answers(self, case: Case, positions: int) -> list[Answer]:
        """Resolve random positions of a case, one of each partition at a time as for a query; judge every place.

        Where the replicator was killed, every other position is right after a record that it sent twice.
        """
        old = read_all(self.pair.east, case.topic, read_committed=case.read_committed)
        here = read_all(self.pair.west, case.topic)
        judges = {number: Judge(old[number], here[number]) for number in range(PARTITIONS)}
        only = frozenset({_SOURCE}) if case.read_committed else frozenset()
        rules = Rules(methods=METHODS, buffer_ms=BUFFER_MS, committed_only=only)
        anywhere = [self._reach(case, old[number][-1].offset + 1) for number in range(PARTITIONS)]
        again = sent_again(here)
        twice = [[each.offset + 1 for each in old[n] if each.number in again[n]] for n in range(PARTITIONS)]
        answers: list[Answer] = []
        with (
            Link(Cluster(bootstrap=(self.pair.east,))) as east,
            Link(Cluster(bootstrap=(self.pair.west,))) as west,
        ):
            samples = _samples(east, case.topic)
            for turn in range(-(-positions // PARTITIONS)):
                among = twice if case.killed and turn % 2 == 0 else anywhere
                wanted = [self._want(east, case, number, among[number]) for number in range(PARTITIONS)]
                found = resolve(west, wanted, rules, old_ends=samples, now=datetime.now(UTC), timeout=_TIMEOUT)
                for want, target in zip(wanted, found.targets, strict=True):
                    assert target.target_offset is not None, target
                    assert target.target_partition == want.partition, target
                    verdict = judges[want.partition].judge(want.offset, target.target_offset)
                    answers.append(Answer(want.offset, target, verdict))
        return answers

    def _reach(self, case: Case, end: int) -> range:
        """Where a query may stand in a partition that ends there; in a compacted one, where something read is left.

        Where nothing is left the whole topic is resumed by time, as another partitioner is possible (docs/places.md).
        """
        if case.compacted:
            return range(_COMPACTED_FROM, end + 1)
        first, last = (case.first, end) if case.behind is None else (end - case.late + read for read in case.behind)
        return range(first, last + 1)

    def _want(self, east: Link, case: Case, number: int, among: Sequence[int]) -> Want:
        """The question for a position at which something was read: before it there may be aborted records alone."""
        key = TopicPartition(case.topic, number)
        while True:
            position = self.chance.choice(among)
            tail = read_last_records(
                east, {key: position}, count=LIMIT, timeout=_TIMEOUT, read_committed=case.read_committed
            )[key]
            assert tail.error is None, tail
            if tail.records:
                break
        return Want(
            source=_SOURCE,
            topic=case.topic,
            partition=number,
            target_topic=case.topic,
            offset=position,
            ring=tail.records,
            ring_offset=position,
            dense=None,
            begin_known=0,
            timestamp_ms=tail.records.newest_timestamp,
            uncommitted=tail.records.uncommitted,
        )


def sent_again(here: Mapping[int, Sequence[Kept]]) -> list[set[int]]:
    """The numbers of each partition's records that lie on the standby more than once."""
    copies = [Counter(each.number for each in here[number]) for number in range(PARTITIONS)]
    return [{number for number, times in each.items() if number is not None and times > 1} for each in copies]


def _samples(east: Link, topic: str) -> dict[TopicPartition, EndSample]:
    keys = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    begins, ends, newest = (
        east.offsets(dict.fromkeys(keys, spec), timeout=_TIMEOUT)
        for spec in (Spec.EARLIEST, Spec.LATEST, Spec.MAX_TIMESTAMP)
    )
    return {
        key: EndSample(
            cluster="east",
            topic=topic,
            partition=key.partition,
            begin=begins[key].offset or 0,
            end=ends[key].offset or 0,
            newest_timestamp_ms=newest[key].timestamp_ms,
            leader_epoch=ends[key].leader_epoch,
            topic_id=None,
            sampled_at=datetime.now(UTC),
        )
        for key in keys
    }
