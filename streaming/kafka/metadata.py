"""Who leads which partition, kept warm; and what a topic looks like to an outsider."""

import threading
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest

from state.model import TopicPartition
from streaming.deadline import Deadline
from streaming.errors import ClusterUnreachable
from streaming.kafka.answers import UNKNOWN, code_error, unknown_partition
from streaming.kafka.contact import Contact, metadata_request
from streaming.kafka.network import Network
from streaming.kafka.permissions import DESCRIBE, explained
from streaming.log import PartitionError, PartitionFacts, TopicFacts

_TOPIC_RESOURCE = 2
_TIMESTAMP_TYPE = "message.timestamp.type"
_CLEANUP_POLICY = "cleanup.policy"
_NO_ID = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Leaders:
    """One topic's leaders as last heard."""

    nodes: Mapping[int, int]
    """Partition to broker id; -1 while there is no leader."""
    error: PartitionError | None
    heard_at: float
    """On the monotonic clock."""


class Metadata:
    """The leaders of the topics asked about so far; a topic found stale is asked again before its next use."""

    def __init__(self, network: Network, contact: Contact) -> None:
        self._network = network
        self._contact = contact
        self._leaders: dict[str, Leaders] = {}
        self._lock = threading.Lock()

    def leaders(self, topics: Collection[str], deadline: Deadline) -> Mapping[str, Leaders]:
        """Return the leaders, from memory where known. Raises ClusterUnreachable and CredentialRefused."""
        with self._lock:
            known = {topic: self._leaders[topic] for topic in topics if topic in self._leaders}
        missing = [topic for topic in topics if topic not in known]
        if missing:
            known.update(self._keep(self._ask(missing, deadline)))
        return known

    def forget(self, topics: Iterable[str]) -> None:
        """Ask again for these before their next use: a broker has said that it does not lead them."""
        with self._lock:
            for topic in topics:
                self._leaders.pop(topic, None)

    def describe(self, topics: Collection[str], deadline: Deadline) -> Mapping[str, TopicFacts]:
        """Return fresh facts of these topics, configuration included where we may read it."""
        answered = self._ask(sorted(set(topics)), deadline)
        self._keep(answered)
        existing = [topic.name for topic in answered if not topic.error_code]
        configs = self._configs(existing, deadline) if existing else {}
        return {topic.name: facts_of(topic, configs.get(topic.name, {})) for topic in answered}

    def names(self, deadline: Deadline) -> frozenset[str]:
        """Return the names of all topics that exist, Kafka's internal ones left out."""
        return frozenset(
            topic.name for topic in self._ask(None, deadline) if not topic.error_code and not topic.is_internal
        )

    def _ask(self, topics: Collection[str] | None, deadline: Deadline) -> list[Any]:
        """Metadata of these topics; None: of all."""
        response = self._contact.ask(lambda: metadata_request(None if topics is None else list(topics)), deadline)
        answered: list[Any] = response.topics
        response.topics = []  # the library would index every partition a second time, and needs only the brokers
        self._network.learn_brokers(response)
        return answered

    def _keep(self, answered: Iterable[Any]) -> dict[str, Leaders]:
        now = time.monotonic()
        fresh = {
            topic.name: Leaders(
                heard_at=now,
                nodes={partition.partition_index: partition.leader_id for partition in topic.partitions},
                error=topic_error(topic),
            )
            for topic in answered
        }
        with self._lock:
            # A topic that is missing now may exist at the next call: only what was found is remembered.
            for name, leaders in fresh.items():
                if leaders.error is None:
                    self._leaders[name] = leaders
                else:
                    self._leaders.pop(name, None)
        return fresh

    def _configs(self, topics: Collection[str], deadline: Deadline) -> Mapping[str, Mapping[str, str]]:
        try:
            response = self._contact.ask(lambda: config_request(topics, [_TIMESTAMP_TYPE, _CLEANUP_POLICY]), deadline)
        except ClusterUnreachable:
            return {}  # metadata has been answered: the configuration alone is not known
        return {
            result.resource_name: {config.name: config.value for config in result.configs}
            for result in response.results
            if not result.error_code
        }


def config_request(topics: Collection[str], keys: Collection[str]) -> Any:
    """Ask for these settings of these topics, those at their default included."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    return DescribeConfigsRequest(
        resources=[
            resource(resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(keys))
            for topic in topics
        ],
        include_synonyms=False,
        include_documentation=False,
    )


_NO_CONFIG: Mapping[str, str] = {}


def facts_of(topic: Any, config: Mapping[str, str] = _NO_CONFIG) -> TopicFacts:
    """One topic of a metadata response."""
    return TopicFacts(
        name=topic.name,
        topic_id=str(topic.topic_id) if topic.topic_id not in (None, _NO_ID) else None,
        partitions={
            partition.partition_index: PartitionFacts(
                leader=known(partition.leader_id),
                leader_epoch=known(partition.leader_epoch),
                replicas=tuple(partition.replica_nodes),
                in_sync=tuple(partition.isr_nodes),
            )
            for partition in topic.partitions
        },
        timestamp_type=config.get(_TIMESTAMP_TYPE),
        cleanup_policy=config.get(_CLEANUP_POLICY),
        error=topic_error(topic),
    )


def topic_error(topic: Any) -> PartitionError | None:
    """What a topic of a metadata response met; None: it is there."""
    error = unknown_partition() if topic.error_code == UNKNOWN else code_error(topic.error_code)
    return error and explained(error, DESCRIBE, topic.name)


def known(number: int | None) -> int | None:
    """Return a protocol number, whose -1 means unknown, as ours, where None does."""
    return None if number is None or number < 0 else number


def by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    """Group partitions as every request wants them, in their order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
