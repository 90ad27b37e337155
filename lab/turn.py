"""Turning replication round: what was the target is copied from now on, behind the last record that both have.

MirrorMaker 2 begins a topic that it has never copied at its beginning. With names kept that would write everything a
second time behind what is there already. So its own memory is told first: Connect keeps, on the target, in the
compacted topic ``mm2-offsets.<source>.internal``, the last offset that was copied (``MirrorMakerConfig.workerConfig``,
``MirrorUtils.wrapPartition``; a task goes on behind it, ``MirrorSourceTask.initializeConsumer``). Records that only the
new target has, a tail of a failover, stay before all that is copied there.

MirrorMaker also remembers, in ``mm2-configs.<source>.internal``, that it has copied in the old direction. Its worker of
that direction is needed for the heartbeats, and before it hears that the direction is off now it starts the connector
as it was: measured here, a tail of 118 records was copied within that moment. So that memory is deleted.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lab import lifecycle, mirror, topics
from lab.access import settings_for
from lab.delivery import Delivery
from lab.errors import Refused
from lab.java import Say
from lab.log import read_on
from lab.world import CLUSTERS, REPLICATOR, TOPIC, Place, World, other

_CONNECTOR = "MirrorSourceConnector"
_LEFT_OUT = re.compile(r"mm2.*\.internal|.*\.checkpoints\.internal|.*heartbeats|.*\.replica|__.*")
_OFFSET_PARTITIONS = 25
"""What Connect makes such a topic with (``offset.storage.partitions``)."""

_Content = tuple[bytes | None, bytes | None, int]
"""Key, value and time of a record: by these it is known on both clusters."""


def turn(world: World, say: Say) -> None:
    """Stop the replicator and start it in the other direction; wait until it copies.

    Raises Refused while a cluster does not run: what both have can only be found on both.
    """
    for cluster in CLUSTERS:
        if not world.may_answer(cluster):
            raise Refused(f"{cluster} does not run", hint=f"python -m lab start {cluster} --dir {world.directory}")
    say(f"stopping MirrorMaker 2, {world.source} to {world.target}")
    world.end([REPLICATOR], lifecycle.GRACE_SECONDS)
    prepare(world, world.target, say)
    world.source = world.target
    world.save()
    say(f"starting MirrorMaker 2, {world.source} to {world.target}")
    lifecycle.start_parts(world, [REPLICATOR], say)
    mirror.await_replicating(world, TOPIC)
    say(f"{world.source} is copied to {world.target}")


def prepare(place: Place, source: str, say: Say) -> None:
    """Tell a replicator that does not run where it begins to copy from ``source``, which was its target.

    Raises ClusterSilent while a cluster does not answer, before anything is written.
    """
    places = {topic: _behind_common(place, source, topic) for topic in sorted(_copied(place))}
    for topic, by_partition in places.items():
        begins = ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(by_partition.items()))
        say(f"{topic} is copied from {source} behind the last record that both have: {begins}")
    _remember(place, source, places)
    _forget_direction(place, source)


def _copied(place: Place) -> set[str]:
    """The topics that both clusters have under one name and that are the users'."""
    both = set.intersection(*(topics.names(place.bootstrap(cluster)) for cluster in CLUSTERS))
    return {name for name in both if may_be_copied(name)}


def may_be_copied(topic: str) -> bool:
    """Whether MirrorMaker copies a topic when all are asked for: not its own, and none that it takes for a copy.

    Up to Kafka 3.9 it leaves out whatever ends in ``.internal`` (``DefaultTopicFilter``), since 4.0 a user's topic may
    have such a name (KIP-1074). Where one is left out, it does no harm to tell where it would begin.
    """
    return not _LEFT_OUT.fullmatch(topic)


def _behind_common(place: Place, source: str, topic: str) -> dict[int, int]:
    """By partition of the new source: behind its last record that its target has, too, else behind all."""
    old = {each: set(records) for each, records in _contents(place.bootstrap(other(source)), topic).items()}
    found = {}
    for partition, records in _contents(place.bootstrap(source), topic).items():
        there = old.get(partition, set())
        last = max((offset for content, offset in records.items() if content in there), default=None)
        found[partition] = max(records.values(), default=-1) + 1 if last is None else last + 1
    return found


def _contents(bootstrap: Sequence[str], topic: str) -> dict[int, dict[_Content, int]]:
    """By partition, each record of a topic with its last offset."""
    found: defaultdict[int, dict[_Content, int]] = defaultdict(dict)
    for message in read_on(bootstrap, topic, {}):
        found[message.partition()][message.key(), message.value(), message.timestamp()[1]] = message.offset()
    return found


def _remember(place: Place, source: str, places: dict[str, dict[int, int]]) -> None:
    """Write where the turned replicator begins, as it would have written it itself."""
    target = other(source)
    bootstrap, name = place.bootstrap(target), f"mm2-offsets.{source}.internal"
    if name not in topics.names(bootstrap):
        compacted = NewTopic(
            name, _OFFSET_PARTITIONS, place.replicas(target), config={"cleanup.policy": "compact"}
        )  # fmt: skip
        admin = AdminClient({**settings_for(bootstrap), **topics.QUIET})
        admin.create_topics([compacted], request_timeout=topics.TIMEOUT_SECONDS)[name].result(topics.TIMEOUT_SECONDS)
    producer = Delivery({**settings_for(bootstrap), "acks": "all", "enable.idempotence": True, **topics.QUIET})
    for topic, by_partition in places.items():
        for partition, offset in by_partition.items():
            if offset:
                at = {"cluster": source, "partition": partition, "topic": topic}
                key = json.dumps([_CONNECTOR, at], separators=(",", ":"))
                producer.produce(name, key=key, value=json.dumps({"offset": offset - 1}, separators=(",", ":")))
    producer.confirm(topics.TIMEOUT_SECONDS)


def _forget_direction(place: Place, source: str) -> None:
    """Delete what MirrorMaker remembers of its connectors in the old direction; it makes the topic again."""
    name = f"mm2-configs.{other(source)}.internal"
    bootstrap = place.bootstrap(source)
    if name in topics.names(bootstrap):
        admin = AdminClient({**settings_for(bootstrap), **topics.QUIET})
        admin.delete_topics([name], request_timeout=topics.TIMEOUT_SECONDS)[name].result(topics.TIMEOUT_SECONDS)
