"""Topics of tests, made on brokers that may have been frozen or started a moment ago."""

import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

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
            return
        except KafkaException as error:
            if tries > 1 and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return  # the try before was obeyed and not answered
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
