"""Reads a whole topic, and then what is new in it, through confluent-kafka."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lab import topics
from lab.access import settings_for
from lab.errors import ClusterSilent
from lab.truth import Held

_BATCH = 10_000
_POLL_SECONDS = 0.2
_STALL_SECONDS = 15.0


class TopicReader:
    """A topic of one cluster as far as it was read; records of others (negative id, no id) are left out."""

    def __init__(self, bootstrap: Sequence[str], topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._next: dict[int, int] = {}
        self.held: list[Held] = []
        """In offset order within each partition."""

    def advance(self) -> None:
        """Read on to the ends as they are now. Raises ClusterSilent when the cluster does not answer in time."""
        for message in read_on(self._bootstrap, self._topic, self._next):
            self._keep(message)

    def _keep(self, message: Any) -> None:
        self._next[message.partition()] = message.offset() + 1
        try:
            identity = json.loads(message.value() or b"null")["id"]
        except (ValueError, TypeError, KeyError):
            return
        if identity >= 0:
            self.held.append(Held(identity, message.partition(), message.offset(), message.timestamp()[1]))


def read_on(bootstrap: Sequence[str], topic: str, starts: Mapping[int, int]) -> Iterator[Any]:
    """The messages of a topic from these offsets, 0 where none is named, to the ends as they are now.

    In offset order within each partition. Raises ClusterSilent when the cluster does not answer in time.
    """
    ends = topics.ends(bootstrap, topic)
    missing = {partition: end for partition, end in ends.items() if starts.get(partition, 0) < end}
    if not missing:
        return
    settings = {"group.id": "lab", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings_for(bootstrap), **settings, **topics.QUIET})
    try:
        consumer.assign([TopicPartition(topic, each, starts.get(each, 0)) for each in missing])
        heard_at = time.monotonic()
        while missing:
            for message in consumer.consume(_BATCH, _POLL_SECONDS):
                if message.error():
                    continue  # the client retries; a silence that lasts ends below
                heard_at = time.monotonic()
                yield message
            # The position also passes over what is no record, such as a transaction's marker.
            for at in consumer.position([TopicPartition(topic, partition) for partition in missing]):
                if at.offset >= missing[at.partition]:
                    del missing[at.partition]
            if time.monotonic() > heard_at + _STALL_SECONDS:
                raise ClusterSilent(f"{topic} could not be read to its end: {len(missing)} partitions stalled")
    except KafkaException as error:
        raise ClusterSilent(f"{topic} could not be read: {error.args[0].str()}") from error
    finally:
        consumer.close()
