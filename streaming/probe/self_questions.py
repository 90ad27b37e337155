"""Sends a cluster look-ups whose answers are known, few at a time, and remembers for a while what it answered.

One look takes seven requests for each leader at most, and two partitions of each of at most eight leaders; the next
look takes others. A partition that contradicts itself is checked once more: a record that retention or compaction took
away between two answers, and a leader that changed, are no lies.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TypeVar

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Logs, OffsetAnswer, Spec, TopicFacts
from streaming.errors import KafkaError, WrongCluster
from streaming.probe.answers import ClusterAnswers, Contradiction, PartitionAnswers, contradictions_of

T = TypeVar("T")
VALID_SECONDS = 60.0
"""How long the answers of a cluster are remembered."""
_LOOK_SECONDS = 2.0
_LEADERS = 8
_OF_EACH = 2
_BYTES = 4096
_MOST_BYTES = 1_048_576
_SHARES = (0.5, 0.0, 0.9, 0.25, 0.75)
"""Where in a log the record is read, one place at each look."""


class SelfQuestions:
    """For one process; from any thread."""

    def __init__(self, logs: Logs, monotonic: Callable[[], float]) -> None:
        self._logs = logs
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, frozenset[str], ClusterAnswers]] = {}
        self._turn = 0
        self._lock = threading.Lock()

    def of(self, cluster: str, topics: Collection[str], now: Callable[[], datetime]) -> ClusterAnswers:
        """What a cluster answers about these topics; what it said of them within the last minute counts."""
        with self._lock:
            known, wanted = self._known.get(cluster), frozenset(topics)
            about = frozenset[str]() if known is None else known[1]
            if known is not None and wanted <= about and self._monotonic() - known[0] < VALID_SECONDS:
                return known[2]
            self._turn += 1
            turn = self._turn
        answers = check_answers(self._logs, cluster, wanted | about, turn=turn, at=now())
        with self._lock:
            self._known[cluster] = self._monotonic(), wanted | about, answers
        return answers


def check_answers(logs: Logs, cluster: str, topics: Collection[str], *, turn: int, at: datetime) -> ClusterAnswers:
    """Check now; never raises for what a cluster does. ``turn`` counts looks."""
    deadline = Deadline.after(_LOOK_SECONDS)
    try:
        log = logs(cluster)
        answers, moved = _look(log, topics, turn, deadline)
        found = (*contradictions_of(answers), *moved)
        if found:
            again, moved_again = _look(log, topics, turn, deadline)
            confirmed = {(each.partition, each.broker) for each in (*contradictions_of(again), *moved_again)}
            found = tuple(each for each in found if (each.partition, each.broker) in confirmed)
    except WrongCluster as wrong:
        return ClusterAnswers(
            cluster=cluster, at=at, partitions=0, contradictions=(Contradiction(None, cluster, str(wrong)),)
        )
    except KafkaError as error:
        return ClusterAnswers(cluster=cluster, at=at, partitions=0, error=str(error))
    count = sum(each.record is not None for each in answers)
    return ClusterAnswers(cluster=cluster, at=at, partitions=count, contradictions=found)


def _look(
    log: ClusterLog, topics: Collection[str], turn: int, deadline: Deadline
) -> tuple[list[PartitionAnswers], list[Contradiction]]:
    before = log.describe(sorted(topics), timeout=deadline.remaining)
    chosen = _chosen(before, turn)
    if not chosen:
        return [], []
    firsts = _ends(log, chosen, Spec.LATEST, deadline)
    begins = _ends(log, chosen, Spec.EARLIEST, deadline)
    records = _records(log, begins, firsts, turn, deadline)
    times = {partition: time_ms for partition, (_, time_ms) in records.items()}
    by_time = log.offsets(times, timeout=deadline.remaining) if times else {}
    newest = log.offsets(dict.fromkeys(records, int(Spec.MAX_TIMESTAMP)), timeout=deadline.remaining) if times else {}
    lasts = _ends(log, chosen, Spec.LATEST, deadline)
    after = log.describe(sorted(topics), timeout=deadline.remaining)
    answers = [
        PartitionAnswers(
            partition=partition, broker=broker, begin=begins.get(partition), first_end=firsts.get(partition),
            record=records.get(partition), by_time=by_time.get(partition), newest=newest.get(partition),
            last_end=lasts.get(partition),
        )
        for partition, broker in chosen.items()
        if _leads(before, partition) == _leads(after, partition)
    ]  # fmt: skip
    return answers, _renamed(before, after)


def _chosen(topics: Mapping[str, TopicFacts], turn: int) -> dict[TopicPartition, str]:
    """Some partitions of some leaders, others at each turn; each with its leader's name."""
    led: dict[int, list[TopicPartition]] = {}
    names: dict[int, str] = {}
    for name, topic in sorted(topics.items()):
        for number, facts in sorted(topic.partitions.items()):
            if facts.leader is not None:
                led.setdefault(facts.leader, []).append(TopicPartition(name, number))
                address = facts.leader_address
                number_of = f"broker {facts.leader}"
                names[facts.leader] = number_of if address is None else f"{address} ({number_of})"
    leaders = _rotated(sorted(led), _LEADERS, turn)
    return {each: names[leader] for leader in leaders for each in _rotated(led[leader], _OF_EACH, turn)}


def _rotated(items: list[T], count: int, turn: int) -> list[T]:
    start = turn * count % max(1, len(items))
    return [*items[start:], *items[:start]][:count]


def _ends(
    log: ClusterLog, partitions: Collection[TopicPartition], spec: Spec, deadline: Deadline
) -> dict[TopicPartition, int]:
    answers: Mapping[TopicPartition, OffsetAnswer] = log.offsets(
        dict.fromkeys(partitions, int(spec)), timeout=deadline.remaining
    )
    return {each: found.offset for each, found in answers.items() if found.error is None and found.offset is not None}


def _records(
    log: ClusterLog,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    turn: int,
    deadline: Deadline,
) -> dict[TopicPartition, tuple[int, int]]:
    """A record of each log that has one: its offset and its time. A batch that does not fit is requested once more."""
    share = _SHARES[turn % len(_SHARES)]
    starts = {
        each: begins[each] + int((end - 1 - begins[each]) * share)
        for each, end in ends.items()
        if each in begins and end > begins[each]
    }
    found: dict[TopicPartition, tuple[int, int]] = {}
    sizes = dict.fromkeys(starts, _BYTES)
    for _ in range(2):
        if not sizes:
            break
        fetched = log.fetch({each: (starts[each], size) for each, size in sizes.items()}, timeout=deadline.remaining)
        for each, answer in fetched.items():
            if answer.error is None and answer.records:
                found[each] = answer.records[0].offset, answer.records[0].timestamp_ms
        sizes = {each: answer.needs_bytes for each, answer in fetched.items() if 0 < answer.needs_bytes <= _MOST_BYTES}
    return found


def _leads(topics: Mapping[str, TopicFacts], partition: TopicPartition) -> tuple[int | None, int | None]:
    topic = topics.get(partition.topic)
    facts = None if topic is None else topic.partitions.get(partition.partition)
    return (None, None) if facts is None else (facts.leader, facts.leader_epoch)


def _renamed(before: Mapping[str, TopicFacts], after: Mapping[str, TopicFacts]) -> list[Contradiction]:
    """A topic whose id is another one in each look is not created again: its brokers do not agree."""
    found: list[Contradiction] = []
    for name, topic in before.items():
        later = after[name].topic_id if name in after else None
        if None not in (topic.topic_id, later) and later != topic.topic_id:
            found.append(Contradiction(None, "its brokers", f"topic {name} has the id {topic.topic_id}, then {later}"))
    return found
