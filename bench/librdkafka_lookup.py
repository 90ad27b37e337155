"""librdkafka's look-up by time, in the shape in which ours is measured too."""

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ForeignPartition

from bench.timings import Answers
from state.model.entities import TopicPartition


class TheirLookup:
    """``offsets_for_times`` through confluent-kafka: a consumer that connects at its first question."""

    def __init__(self, bootstrap: str, *, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 0})

    def request(self, partitions: Sequence[TopicPartition], time_ms: int) -> Answers:
        """Offsets per partition at one time; those with an error are left out."""
        return self.request_each(dict.fromkeys(partitions, time_ms))

    def request_each(self, times: Mapping[TopicPartition, int]) -> Answers:
        """Offsets per partition, each at a time of its own; those with an error are left out."""
        requested = [ForeignPartition(topic, number, time_ms) for (topic, number), time_ms in times.items()]
        answered = self._consumer.offsets_for_times(requested, timeout=self._timeout)
        return {TopicPartition(each.topic, each.partition): each.offset for each in answered if each.error is None}

    def close(self) -> None:
        """Drop the connections."""
        self._consumer.close()
