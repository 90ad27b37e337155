"""Finding a broker that answers, and its metadata: who leads which partition."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafka.protocol.admin import DescribeConfigsRequest

from state.model.entities import TopicPartition
from streaming.clocks import Deadline
from streaming.cluster_log import PartitionError, PartitionFacts, TopicFacts
from streaming.errors import ClusterUnreachable, CredentialRefused
from streaming.kafka.connections import Node, metadata_request
from streaming.kafka.errors import (
    DESCRIBE,
    UNKNOWN,
    code_error,
    explained,
    in_words,
    refuse_strangers,
    silent,
    unknown_partition,
)
from streaming.kafka.network import BrokerRequest, Network
from streaming.kafka.security import is_throttled, refusal

_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 0.25
_PATIENCE_SECONDS = 0.25
_THROTTLED_SECONDS = 1.0
"""A cluster that limits connections counts them by the second."""


class Pause(Protocol):
    """Waits a little longer each time, never past the deadline, and never as long as another process does.

    ``least``: about so many seconds, where the cluster needs a pause.
    """

    def __call__(self, deadline: Deadline, least: float = 0.0) -> None: ...


def pauses() -> Pause:
    """Return a function that waits, from a fiftieth of a second up."""
    length = _FIRST_PAUSE_SECONDS

    def pause(deadline: Deadline, least: float = 0.0) -> None:
        nonlocal length
        time.sleep(min(max(length, least) * random.uniform(0.5, 1.0), deadline.remaining))
        length = min(max(_LONGEST_PAUSE_SECONDS, least), length * 2)

    return pause


class AnyBroker:
    """Questions that any broker can answer."""

    def __init__(self, network: Network, cluster: str) -> None:
        self._network = network
        self._cluster = cluster
        self._home: Node | None = None

    def exchange(self, make_request: Callable[[], Any], deadline: Deadline) -> Any:
        """Return the response of the broker that answered last, or of whichever answers first now.

        Raises ClusterUnreachable when none does by the deadline, CredentialRefused when our settings are at fault,
        WrongCluster when what answers is not the cluster that has the name.
        """
        home, pause, seen = self._home, pauses(), dict[Node, Any]()
        if home is not None:
            # A home that went silent may use half of the time; the others get the rest.
            first = deadline.soonest(max(_PATIENCE_SECONDS, deadline.remaining / 2))
            outcome = self._network.exchange([BrokerRequest(home, make_request())], first)[0]
            if _is_response(outcome):
                return outcome
        while True:
            node, outcomes = self._find_home(deadline)
            if node is not None:
                outcome = self._network.exchange([BrokerRequest(node, make_request())], deadline)[0]
                if _is_response(outcome):
                    return outcome
                outcomes = {node: outcome}
            self._give_up_when_refused(outcomes)
            # The last attempt is cut short by the deadline: what an earlier one received says more than its silence.
            seen.update(
                {node: outcome for node, outcome in outcomes.items() if not silent(outcome) or node not in seen}
            )
            if deadline.passed:
                raise self._unreachable(seen)
            throttled = any(is_throttled(outcome) for outcome in outcomes.values())
            pause(deadline, _THROTTLED_SECONDS if throttled else 0.0)

    def _find_home(self, deadline: Deadline) -> tuple[Node | None, dict[Node, Any]]:
        nodes = self._network.nodes
        winner, outcomes = self._network.race([BrokerRequest(node, metadata_request([])) for node in nodes], deadline)
        if winner is None:
            return None, dict(zip(nodes, outcomes, strict=True))
        self._network.learn_brokers(outcomes[winner])
        self._home = nodes[winner]
        return nodes[winner], {}

    def _give_up_when_refused(self, outcomes: dict[Node, Any]) -> None:
        refuse_strangers(outcomes.values())
        for node, outcome in outcomes.items():
            if isinstance(outcome, CredentialRefused):
                raise CredentialRefused(f"{self._cluster}: {outcome}", hint=outcome.hint)
            reason = refusal(outcome)
            if reason:
                raise CredentialRefused(
                    f"{self._cluster}: {self._network.address(node)} refuses us: {reason}",
                    hint="check this cluster's security settings; its brokers may be healthy",
                )

    def _unreachable(self, outcomes: dict[Node, Any]) -> ClusterUnreachable:
        said = (f"{self._network.address(node)}: {in_words(out)}" for node, out in outcomes.items())
        reasons = "; ".join(dict.fromkeys(said))  # a broker may be known by its address and by its id
        return ClusterUnreachable(
            f"{self._cluster}: no broker answered in time ({reasons})",
            hint="check that the brokers run and that this host reaches their listeners",
        )


def _is_response(outcome: Any) -> bool:
    return outcome is not None and not isinstance(outcome, BaseException)


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
    """The leaders of the topics requested so far; a topic found stale is requested again before its next use."""

    def __init__(self, network: Network, contact: AnyBroker) -> None:
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
            known.update(self._keep(self._request(missing, deadline)))
        return known

    def forget(self, topics: Iterable[str]) -> None:
        """Request these again before their next use: a broker has said that it does not lead them."""
        with self._lock:
            for topic in topics:
                self._leaders.pop(topic, None)

    def describe(self, topics: Collection[str], deadline: Deadline) -> Mapping[str, TopicFacts]:
        """Return fresh facts of these topics, configuration included where we may read it."""
        answered = self._request(sorted(set(topics)), deadline)
        self._keep(answered)
        existing = [topic.name for topic in answered if not topic.error_code]
        configs = self._configs(existing, deadline) if existing else {}
        return {topic.name: facts_of(topic, configs.get(topic.name, {}), self._network.address) for topic in answered}

    def names(self, deadline: Deadline) -> frozenset[str]:
        """Return the names of all topics that exist, Kafka's internal ones left out."""
        return frozenset(
            topic.name for topic in self._request(None, deadline) if not topic.error_code and not topic.is_internal
        )

    def _request(self, topics: Collection[str] | None, deadline: Deadline) -> list[Any]:
        """Metadata of these topics; None: of all."""
        response = self._contact.exchange(lambda: metadata_request(None if topics is None else list(topics)), deadline)
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
            response = self._contact.exchange(
                lambda: config_request(topics, [_TIMESTAMP_TYPE, _CLEANUP_POLICY]), deadline
            )
        except ClusterUnreachable:
            return {}  # metadata has been answered: the configuration alone is not known
        return {
            result.resource_name: {config.name: config.value for config in result.configs}
            for result in response.results
            if not result.error_code
        }


def config_request(topics: Collection[str], keys: Collection[str]) -> Any:
    """Request these settings of these topics, those at their default included."""
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


def facts_of(
    topic: Any, config: Mapping[str, str] = _NO_CONFIG, address: Callable[[Node], str] | None = None
) -> TopicFacts:
    """One topic of a metadata response; ``address`` says where a broker listens."""
    return TopicFacts(
        name=topic.name,
        topic_id=str(topic.topic_id) if topic.topic_id not in (None, _NO_ID) else None,
        partitions={
            partition.partition_index: PartitionFacts(
                leader=known(partition.leader_id),
                leader_epoch=known(partition.leader_epoch),
                replicas=tuple(partition.replica_nodes),
                in_sync=tuple(partition.isr_nodes),
                leader_address=None
                if address is None or known(partition.leader_id) is None
                else address(partition.leader_id),
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
