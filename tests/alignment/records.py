"""Writing numbered records with another client than the product's, and reading all of a topic with it again.

A record's number is in a header, which no fingerprint covers: who looks for a place by content cannot see it, and who
judges the place can distinguish identical records.
"""

import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lab.delivery import Delivery
from tests.alignment.pair import PARTITIONS

HEADER = "number"
_FLUSH_SECONDS = 120.0
_READ_SECONDS = 180.0


@dataclass
class Writer:
    """Writes one topic of the primary."""

    bootstrap: str
    topic: str
    numbers: Iterator[int]
    chance: random.Random
    settings: Mapping[str, str] = field(default_factory=dict)
    written: Counter[int] = field(default_factory=Counter)
    """Records per partition."""

    def __post_init__(self) -> None:
        self.producer = _producer(self.bootstrap, self.settings)

    def put(self, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int) -> None:
        """Write a record, numbered in its header."""
        self._produce(partition, key, value, timestamp_ms, [(HEADER, b"%d" % next(self.numbers)), ("nothing", None)])
        self.written[partition] += 1

    def flush(self) -> None:
        """Wait until all is acknowledged."""
        self.producer.confirm(_FLUSH_SECONDS)

    def _produce(
        self,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        at: int,
        headers: list[tuple[str, str | bytes | None]],
    ) -> None:
        while True:
            try:
                self.producer.produce(
                    self.topic, value=value, key=key, partition=partition, timestamp=at, headers=headers
                )
            except BufferError:
                self.producer.poll(0.05)
            else:
                self.producer.poll(0)
                return


def put_foreign(bootstrap: str, topic: str, at_ms: int) -> dict[int, int]:
    """Foreign records, of long ago, so that offsets differ; returns how many lie in each partition."""
    producer = _producer(bootstrap, {})
    counts = {partition: 5 + 17 * partition for partition in range(PARTITIONS)}
    for partition, count in counts.items():
        for number in range(count):
            producer.produce(topic, value=b"foreign %d" % number, key=b"f", partition=partition, timestamp=at_ms)
    producer.confirm(_FLUSH_SECONDS)
    return counts


def _producer(bootstrap: str, settings: Mapping[str, str]) -> Delivery:
    return Delivery(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
            **settings,
        }
    )


@dataclass(frozen=True)
class Kept:
    """One record as it lies in a log."""

    offset: int
    number: int | None
    """None: a foreign record."""


def read_all(bootstrap: str, topic: str, *, read_committed: bool = False) -> dict[int, list[Kept]]:
    """Every record of a topic by partition, as a reader of that isolation sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    found: dict[int, list[Kept]] = defaultdict(list)
    over: set[int] = set()
    deadline = time.monotonic() + _READ_SECONDS
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while len(over) < PARTITIONS:
            if time.monotonic() > deadline:
                raise AssertionError(f"{topic} could not be read in {_READ_SECONDS:g} s")
            for message in consumer.consume(5000, 0.3):
                error, partition, offset = message.error(), message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if error is not None and error.name() != "_PARTITION_EOF":
                    raise KafkaException(error)
                if error is not None:
                    over.add(partition)
                    continue
                number = dict(message.headers() or ()).get(HEADER)
                found[partition].append(Kept(offset, None if number is None else int(number)))
    finally:
        consumer.close()
    return found


def counting() -> Iterator[int]:
    """Numbers for the records of one world."""
    return itertools.count(1)
