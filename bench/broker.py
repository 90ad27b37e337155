"""One real Kafka broker for the measurements that need no second cluster: the primary of a world, alone; its topics
and what is in them.

`python -m lab up` would bring two clusters and a replicator, whose threads would take part in every figure.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.setting import Setting
from lab import cluster
from lab.delivery import Delivery
from lab.world import PRIMARY, Options, World

_END_SECONDS = 30.0
_TOPICS_SECONDS = 120.0
_WRITTEN_SECONDS = 600.0
_MOST_WAITING = 1_000_000


@contextmanager
def broker(setting: Setting) -> Iterator[str]:
    """A broker for the length of a block; gives ``host:port``. Raises the lab's StartFailed."""
    world = World(directory=setting.directory, options=Options(base_port=setting.base_port))
    parts = world.parts(PRIMARY)
    try:
        cluster.start(world, parts, setting.say)
        yield world.bootstrap(PRIMARY)[0]
    finally:
        world.end(parts, _END_SECONDS)


def make_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Make topics with their partition counts, all at once; returns when the broker has made them.

    They keep records however old: half a minute after its start a broker would delete those of years ago.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    keep = {"retention.ms": "-1"}
    wanted = [NewTopic(name, num_partitions=count, replication_factor=1, config=keep) for name, count in topics.items()]
    made = admin.create_topics(wanted, request_timeout=_TOPICS_SECONDS)
    for future in made.values():
        future.result(_TOPICS_SECONDS)


class Put(Protocol):
    """Write one record."""

    def __call__(self, topic: str, partition: int, value: bytes, at_ms: int = 0) -> None:
        """``at_ms`` is its time; 0: now."""


@contextmanager
def writing(bootstrap: str) -> Iterator[Put]:
    """Write records in a block, each once; at its end the broker has them all. Raises NotDelivered."""
    more = {"linger.ms": 50, "queue.buffering.max.messages": _MOST_WAITING, "log_level": 0}
    producer = Delivery({"bootstrap.servers": bootstrap, "enable.idempotence": True, **more})

    def put(topic: str, partition: int, value: bytes, at_ms: int = 0) -> None:
        producer.produce(topic, partition=partition, value=value, timestamp=at_ms)
        producer.poll(0)

    yield put
    producer.confirm(_WRITTEN_SECONDS)
