"""Topics as the lab makes and reads them, through confluent-kafka: another client than the product's, on purpose.

Every call is bounded; a cluster that does not answer in time is ClusterSilent.
"""

import itertools
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lab.access import settings_for
from lab.delivery import Delivery
from lab.errors import ClusterSilent

QUIET = {"log_level": 0}  # the client writes a line to stderr for every refused connection otherwise
TIMEOUT_SECONDS = 10.0

_FOREIGN_AGE_MS = 3_600_000


def broker_ids(bootstrap: Sequence[str], *, timeout: float = TIMEOUT_SECONDS) -> tuple[str, set[int]]:
    """Return the id of the cluster that answers, and the node ids of the brokers that it knows."""
    metadata = _metadata(bootstrap, None, timeout)
    return metadata.cluster_id, set(metadata.brokers)


def partition_count(bootstrap: Sequence[str], topic: str, *, timeout: float = TIMEOUT_SECONDS) -> int:
    """Return how many partitions a topic has, 0 when it does not exist."""
    found = _metadata(bootstrap, topic, timeout).topics.get(topic)
    return 0 if found is None or found.error is not None else len(found.partitions)


def names(bootstrap: Sequence[str], *, timeout: float = TIMEOUT_SECONDS) -> set[str]:
    """Return the topics of a cluster, without Kafka's internal ones."""
    return {name for name in _metadata(bootstrap, None, timeout).topics if not name.startswith("__")}


def create(bootstrap: Sequence[str], topic: str, partitions: int, replicas: int) -> bool:
    """Create a topic; False when it is there already."""
    admin = AdminClient({**settings_for(bootstrap), **QUIET})
    wanted = NewTopic(topic, partitions, replicas, config={"retention.ms": "-1"})
    deadline = time.monotonic() + 3 * TIMEOUT_SECONDS
    while True:
        try:
            admin.create_topics([wanted], request_timeout=TIMEOUT_SECONDS)[topic].result(TIMEOUT_SECONDS)
            break
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            # A broker that has just started may still be fenced and cannot be given replicas.
            if time.monotonic() > deadline:
                raise ClusterSilent(f"topic {topic} could not be created: {error.args[0].str()}") from error
            time.sleep(0.2)
    while partition_count(bootstrap, topic) != partitions:  # a broker hears of it after its controller has answered
        if time.monotonic() > deadline:
            raise ClusterSilent(f"topic {topic} was created, and the cluster does not know it")
        time.sleep(0.05)
    return True


def ends(bootstrap: Sequence[str], topic: str, *, timeout: float = TIMEOUT_SECONDS) -> dict[int, int]:
    """Return the end offset of every partition; tries again for a while: a broker that starts leads nothing yet."""
    count = partition_count(bootstrap, topic, timeout=timeout)
    consumer = Consumer({**settings_for(bootstrap), "group.id": "lab", **QUIET})
    deadline = time.monotonic() + timeout
    try:
        while True:
            try:
                return {
                    partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout)[1]
                    for partition in range(count)
                }
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise ClusterSilent(f"no end offsets of {topic}: {error.args[0].str()}") from error
                time.sleep(0.2)
    finally:
        consumer.close()


def put_foreign(bootstrap: Sequence[str], topic: str, count_of: Callable[[int], int], *, aged: bool = False) -> int:
    """Put foreign records (their id is negative) into every partition; returns how many.

    They make offsets differ between clusters, as they do in life. `aged` dates them an hour back.
    """
    producer = Delivery({**settings_for(bootstrap), "acks": "all", "enable.idempotence": True, **QUIET})
    at_ms = time.time_ns() // 1_000_000 - (_FOREIGN_AGE_MS if aged else 0)
    numbers = itertools.count(1)
    for partition in range(partition_count(bootstrap, topic)):
        for _ in range(count_of(partition)):
            value = json.dumps({"id": -next(numbers), "amount": 0, "at_ms": at_ms})
            producer.produce(topic, value=value, key="foreign", partition=partition, timestamp=at_ms)
    producer.confirm(TIMEOUT_SECONDS)
    return next(numbers) - 1


def delete_all(bootstrap: Sequence[str], topic: str) -> None:
    """Delete the records that a topic holds, as retention does: its offsets continue from there."""
    admin = AdminClient({**settings_for(bootstrap), **QUIET})
    wanted = [TopicPartition(topic, partition, end) for partition, end in ends(bootstrap, topic).items()]
    for deleted in admin.delete_records(wanted, request_timeout=TIMEOUT_SECONDS).values():
        deleted.result(TIMEOUT_SECONDS)


def _metadata(bootstrap: Sequence[str], topic: str | None, timeout: float) -> Any:
    try:
        client = AdminClient({**settings_for(bootstrap), **QUIET})
        return client.list_topics(topic, timeout=timeout) if topic else client.list_topics(timeout=timeout)
    except KafkaException as error:
        raise ClusterSilent(f"{', '.join(bootstrap)} does not answer: {error.args[0].str()}") from error
