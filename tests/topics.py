"""Topics of tests, made on brokers that may have been frozen or started a moment ago, and read to their ends."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.waiting import PROCESS_SECONDS, until

_TRY_SECONDS = 10.0
_SECONDS = 120.0


def make_topic(settings: Mapping[str, str], topic: NewTopic) -> None:
    """Make a topic; ``settings`` are a client's, its address among them.

    A broker that has just been thawed or started is still fenced by its controller, and cannot be given a replica
    (INVALID_REPLICATION_FACTOR); a request that it took before may get no answer at all. So each try has a client of
    its own and ten seconds, and the tries two minutes.
    """
    deadline = time.monotonic() + _SECONDS
    tries = 0
    while True:
        tries += 1
        admin = AdminClient({**settings, "log_level": 0})
        try:
            admin.create_topics([topic], request_timeout=_TRY_SECONDS)[topic.topic].result()
            break
        except KafkaException as error:
            if tries > 1 and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                break  # the try before was obeyed and not answered
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
    seen: list[str] = []
    try:
        until(
            lambda: _is_led(settings, topic.topic, seen), f"{topic.topic} is made, and its partitions have no leaders"
        )
    except AssertionError as error:
        raise AssertionError(f"{error}; the last answers: {seen[-3:]}") from error


def widen_topic(settings: Mapping[str, str], topic: str, partitions: int) -> None:
    """Give a topic more partitions, of a broker that has answered."""
    admin = AdminClient({**settings, "log_level": 0})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(_SECONDS)
    until(lambda: _is_led(settings, topic, [], partitions), f"{topic} has {partitions} partitions with leaders")


def _is_led(settings: Mapping[str, str], topic: str, seen: list[str], least: int = 1) -> bool:
    """Whether the broker knows the topic and its leaders: its controller answers before the broker has heard of it.

    Each look has a client of its own, for the same reason as above; ``seen`` gets what it said.
    """
    try:
        found = AdminClient({**settings, "log_level": 0}).list_topics(topic, timeout=_TRY_SECONDS).topics[topic]
    except KafkaException as error:
        seen.append(str(error))
        return False
    seen.append(f"{found.error}, leaders {[each.leader for each in found.partitions.values()]}")
    return len(found.partitions) >= least and all(each.leader >= 0 for each in found.partitions.values())


def read_whole(bootstrap: str, topic: str) -> Iterator[tuple[int, int, bytes | None, bytes]]:
    """Partition, time in ms, key and value of every record up to the ends, of aborted ones too.

    By another client than the product's. Records without a value are left out.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted", "enable.partition.eof": True})
    try:
        partitions = consumer.list_topics(topic, timeout=PROCESS_SECONDS).topics[topic].partitions
        for partition in partitions:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(PROCESS_SECONDS)
                assert message is not None, f"{topic}-{partition} could not be read"
                error, value = message.error(), message.value()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        break
                    raise KafkaException(error)
                if value is not None:
                    yield partition, message.timestamp()[1], message.key(), value
    finally:
        consumer.close()
