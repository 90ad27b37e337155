"""One layered look at one cluster under one deadline: a ``ClusterProbe`` of real brokers.

The layers: a connection (all servers raced), TLS and SASL, metadata; every few seconds leaders and in-sync replicas.
Then every broker gets a request, and each leader one that looks into its log. Connections are kept between looks; a
kept one that falls silent has half of the time, and the rest goes to new ones.

A cluster fails a probe when no broker answers the first question, or when no more than half of its brokers answer the
last and nothing can be read. Anything better is a cluster that lives, whole or not. The dead broker of three has
partitions that cannot be read until others lead them, and moving every query would take longer. An empty topic reads as
well as a busy one: the request is for the end of the log.
"""

import random
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from state.model.cluster_status import ELSEWHERE, Fault, Layer
from state.model.entities import TopicPartition
from state.settings.keys import Cluster
from streaming.clocks import Deadline
from streaming.cluster_log import PartitionError, Spec
from streaming.errors import CredentialRefused, KafkaError, NotHere, WrongCluster
from streaming.kafka.cluster_state import ClusterState, ProbeMemory, state_of_cluster
from streaming.kafka.connections import Node, metadata_request
from streaming.kafka.errors import (
    DESCRIBE,
    THROTTLED,
    in_words,
    is_denied,
    no_acl,
    refuse_strangers,
    summed,
    trouble_of,
)
from streaming.kafka.login.prepared import Login
from streaming.kafka.metadata import config_request, topic_error
from streaming.kafka.network import BrokerRequest, Network
from streaming.kafka.pacing import Lane, pacer_of
from streaming.kafka.probe_course import Course
from streaming.kafka.requests import list_offsets
from streaming.kafka.security import Credentials, library_settings
from streaming.probe.identities import Identify, anyone
from streaming.probe.probe_result import Health, ProbeFailure, ProbeResult

_LEAST_PATIENCE_SECONDS = 0.25
_READ_PATIENCE = 0.4
"""Share of a look's time that a silent broker may take while others have answered."""
_LONGEST_QUIET_SECONDS = 3.0
"""How long no thread connects at most to a cluster that limits connections; each process waits for another time."""
_LIMITS_SECONDS = 60.0
_LIMITS_AGAIN_SECONDS = 5.0
_LIMITS_PATIENCE_SECONDS = 0.3
_ENDPOINT_SECONDS = 5.0
"""How long a connection is kept that came by an endpoint: one to a broker's own address does not show where the
endpoint leads now."""
_READ_PARTITIONS = 8
"""Partitions of one leader that one look reads; the next look reads the next ones."""
_MOST_BROKERS = 32
"""Brokers that get a request in one look."""
_MIN_IN_SYNC = "min.insync.replicas"
_MOVED = {"NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "FENCED_LEADER_EPOCH", "LEADER_NOT_AVAILABLE"}
"""What a living broker says whose partition is elsewhere: the chart is old, and nothing is known of the partition."""


T = TypeVar("T")


class _Met(Exception):
    """The look ends here."""

    def __init__(self, trouble: ProbeFailure) -> None:
        super().__init__(trouble.text)
        self.trouble = trouble


class Probe:
    """Looks at one cluster, from one thread at a time; ``memory`` is shared by all probes of that cluster."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        name: str,
        topics: Collection[str],
        memory: ProbeMemory,
        identify: Identify = anyone,
        login: Login | None = None,
    ) -> None:
        """``login`` is of ``login_of`` the cluster's security: a token outlives the look that fetched it."""
        self._cluster = cluster
        self._credentials = Credentials(cluster.security, login)
        self._identify = identify
        self._name = name
        self._topics = sorted(set(topics))
        self._memory = memory
        self._network: Network | None = None
        self._retired: list[Network] = []
        self._home: Node | None = None
        self._connected_at = 0.0

    def run(self, timeout: float) -> ProbeResult:
        """One look within ``timeout`` seconds; never raises for what a cluster or our settings do."""
        began = time.monotonic()
        course = Course(began, Deadline(began + timeout))
        trouble: ProbeFailure | None = None
        health: Health | None = None
        try:
            self._forget_former()
            if self._memory.held_by is not None and began < self._memory.quiet_until:
                raise _Met(self._memory.held_by)
            metadata = self._query_home(course) or self._query_all(course)
            network = self._connect()
            chart = self._see_leaders(network, metadata, course)
            health = self._read(network, chart, course, timeout)
        except _Met as met:
            trouble = met.trouble
            if trouble.kind == THROTTLED and began >= self._memory.quiet_until:
                self._memory.held_by = trouble
                self._memory.quiet_until = time.monotonic() + random.uniform(1.0, _LONGEST_QUIET_SECONDS)
        except WrongCluster as wrong:
            trouble = ProbeFailure.of_stranger(str(wrong), is_declared=isinstance(wrong, NotHere))
            course.cluster_id = wrong.seen
        except CredentialRefused as refused:
            trouble = ProbeFailure(kind="credential", text=str(refused), fault=Fault.OURS, retriable=False)
        except KafkaError as error:
            trouble = ProbeFailure(kind="closed", text=str(error), fault=Fault.HERE, retriable=True)
        trouble = self._distinguished(trouble, course.cluster_id)
        ended, seen = time.monotonic(), self._memory.chart
        for network in self._retired:
            network.close()
        self._retired = [network for network in self._retired if not network.is_over]
        return ProbeResult(
            began=began,
            seconds=ended - began,
            delayed=course.delayed,
            passed=tuple(course.passed),
            trouble=trouble,
            cluster_id=course.cluster_id,
            health=health,
            notes=tuple(f"topic {topic} does not exist" for topic in seen.missing) if seen and not trouble else (),
        )

    def close(self) -> None:
        """Drop the connections; returns within about a second whatever the brokers do."""
        if self._network is not None:
            self._network.close()

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more; a name server that does not answer can hold a closed one up."""
        return all(network.is_over for network in (self._network, *self._retired) if network is not None)

    def _distinguished(self, trouble: ProbeFailure | None, seen: str | None) -> ProbeFailure | None:
        """Silence of an endpoint is that of the cluster to which it led last; ``seen`` is the id that answered now."""
        memory = self._memory
        if trouble is None or trouble.kind == ELSEWHERE:
            memory.elsewhere = trouble
            memory.answered = True  # whichever cluster it was, it speaks to us as these settings have it
            return trouble
        if seen is not None:
            memory.elsewhere = None
        return trouble.or_elsewhere(memory.elsewhere)

    def _forget_former(self) -> None:
        """What is remembered of a cluster that no longer has the name leads to that one: it is not used again."""
        if self._network is not None and self._network.is_foreign:
            self._retired.append(self._network)
            self._network = self._home = None
        remembered = self._memory.metadata
        if remembered is not None:
            try:
                self._identify(remembered.cluster_id)
            except WrongCluster:
                self._memory.forget()

    # -- layers ----------------------------------------------------------------------------------------------------
    def _connect(self) -> Network:
        if self._network is None:
            self._network = Network(
                library_settings(self._cluster),
                self._credentials,
                self._identify,
                pacer=pacer_of(self._cluster),
                lane=Lane.PROBE,
            )
            self._connected_at = time.monotonic()
            if self._memory.metadata is not None and self._cluster.endpoint is None:
                self._network.learn_brokers(self._memory.metadata)
        return self._network

    def _query_home(self, course: Course) -> Any:
        """Metadata without topics from the broker that answered last; None when it does not in half of the time."""
        if self._home is None or self._network is None:
            return None
        if self._cluster.endpoint is not None and time.monotonic() - self._connected_at >= _ENDPOINT_SECONDS:
            self._retired.append(self._network)
            self._network = self._home = None
            return None
        patience = course.deadline.soonest(max(_LEAST_PATIENCE_SECONDS, course.deadline.remaining / 2))
        outcome = self._network.exchange([BrokerRequest(self._home, metadata_request([]))], patience)[0]
        course.allow(self._network.delayed)
        if _is_response(outcome):
            return self._answered(self._network, self._home, outcome, course)
        self._retired.append(self._network)  # what follows shall not wait on connections that may be as stuck
        self._network = self._home = None
        return None

    def _query_all(self, course: Course) -> Any:
        """Metadata without topics from whichever broker answers first, on new connections.

        Raises ``_Met``, and ``WrongCluster`` where none answers that is of the cluster.
        """
        network = self._connect()
        nodes = list({network.address(node): node for node in network.nodes}.values())
        winner, outcomes = network.race([BrokerRequest(node, metadata_request([])) for node in nodes], course.deadline)
        course.allow(network.delayed)
        if winner is not None:
            self._home = nodes[winner]
            return self._answered(network, self._home, outcomes[winner], course)
        self._note_farthest(network, nodes, course)
        refuse_strangers(outcomes)
        raise _Met(summed(self._troubles(network, nodes, outcomes)))

    def _answered(self, network: Network, node: Node, metadata: Any, course: Course) -> Any:
        course.answered(Layer.METADATA, course.connected(network.milestones(node)))
        network.learn_brokers(metadata)
        course.cluster_id = metadata.cluster_id
        self._memory.metadata, self._memory.answered = metadata, True
        return metadata

    def _see_leaders(self, network: Network, metadata: Any, course: Course) -> ClusterState:
        """The chart, drawn again where it is due. Raises ``_Met``."""
        memory, now = self._memory, time.monotonic()
        standing = memory.standing_chart(now)
        chart = standing
        if chart is None:
            live = [broker.node_id for broker in metadata.brokers]
            chart = self._draw(network, live, course) if self._topics else state_of_cluster([], live, {}, heard_at=now)
            memory.chart, memory.is_stale = chart, False
        course.answered(Layer.LEADERS, now, kept=standing is not None)
        return chart

    def _draw(self, network: Network, live: Sequence[int], course: Course) -> ClusterState:
        home = self._home if self._home is not None else live[0]
        outcome = network.exchange([BrokerRequest(home, metadata_request(self._topics))], course.deadline)[0]
        if not _is_response(outcome):
            refuse_strangers([outcome])
            raise _Met(summed(self._troubles(network, [home], [outcome])))
        failed = {topic.name: error for topic in outcome.topics if (error := topic_error(topic)) is not None}
        refused = [topic for topic, error in failed.items() if is_denied(error)]
        if refused:
            raise _Met(_not_allowed(refused))
        existing = [topic.name for topic in outcome.topics if topic.name not in failed]
        self._learn_limits(network, home, existing, course)
        return state_of_cluster(outcome.topics, live, self._memory.limits, heard_at=time.monotonic())

    def _learn_limits(self, network: Network, home: Node, topics: Sequence[str], course: Course) -> None:
        """What ``acks=all`` needs, read once a minute where we may; not to know it is no fault of the cluster's."""
        memory, now = self._memory, time.monotonic()
        is_fresh = memory.limits_at is not None and now - memory.limits_at < _LIMITS_SECONDS
        if not topics or (is_fresh and memory.limits.keys() >= set(topics)):
            return
        if memory.limits_at is not None and now - memory.limits_at < _LIMITS_AGAIN_SECONDS:
            return
        memory.limits_at = now
        patience = course.deadline.soonest(min(_LIMITS_PATIENCE_SECONDS, course.deadline.remaining / 2))
        outcome = network.exchange([BrokerRequest(home, config_request(topics, [_MIN_IN_SYNC]))], patience)[0]
        if _is_response(outcome):
            memory.limits = {
                result.resource_name: int(config.value)
                for result in outcome.results
                for config in result.configs
                if config.name == _MIN_IN_SYNC and str(config.value).isdigit()
            }

    def _read(self, network: Network, chart: ClusterState, course: Course, timeout: float) -> Health:
        """Send every broker a request; each leader for the ends of some partitions. Raises ``_Met``."""
        since = time.monotonic()
        self._memory.turn += 1
        room = network.room(course.deadline.remaining / 2)
        most = _MOST_BROKERS if room is None else min(_MOST_BROKERS, room)
        brokers = _some(sorted(chart.brokers), most, self._memory.turn)
        reads = {broker: _some(chart.led.get(broker, ()), _READ_PARTITIONS, self._memory.turn) for broker in brokers}
        questions = [BrokerRequest(broker, _end_request(reads[broker])) for broker in brokers]
        outcomes = dict(
            zip(brokers, network.exchange(questions, course.deadline, patience=timeout * _READ_PATIENCE), strict=True)
        )
        course.allow(network.delayed)
        refuse_strangers(outcomes.values())
        silent = [broker for broker in brokers if not _is_response(outcomes[broker])]
        unreadable, readable = sum(len(chart.led.get(broker, ())) for broker in silent), 0
        for broker in brokers:
            if reads[broker] and broker not in silent:
                read, failed = self._judge_reads(reads[broker], outcomes[broker])
                readable, unreadable = readable + read, unreadable + failed
        self._memory.is_stale = self._memory.is_stale or bool(silent or unreadable)
        alive = max(1, len(brokers) - len(silent))  # the one that sent metadata lives, under whatever name
        if unreadable + chart.leaderless and not readable and 2 * alive <= len(brokers) and len(brokers) > 1:
            raise _Met(summed(self._troubles(network, silent, [outcomes[broker] for broker in silent])))
        if readable:
            course.answered(Layer.READ, since)
        return chart.health(silent=len(silent), unreadable=unreadable)

    def _judge_reads(self, wanted: Sequence[TopicPartition], response: Any) -> tuple[int, int]:
        """How many of a leader's partitions were read, and how many it could not read. Raises ``_Met``."""
        replies: Mapping[TopicPartition, object] = dict(list_offsets.replies(response))
        read = failed = 0
        for partition in wanted:
            reply = replies.get(partition)
            if not isinstance(reply, PartitionError):
                read += 1
            elif is_denied(reply):
                raise _Met(_not_allowed([partition.topic]))
            elif reply.name in _MOVED:
                self._memory.is_stale = True
            else:
                failed += 1
        return read, failed

    # -- words -----------------------------------------------------------------------------------------------------
    def _note_farthest(self, network: Network, nodes: Sequence[Node], course: Course) -> None:
        stones = [each for node in nodes if (each := network.milestones(node)) is not None]
        course.connected(max(stones, key=lambda each: (each.tcp is not None, each.ready is not None), default=None))

    def _troubles(self, network: Network, nodes: Sequence[Node], outcomes: Sequence[Any]) -> list[ProbeFailure]:
        """One for each address: a broker can be known as a server of the configuration and by its number."""
        troubles: dict[str, ProbeFailure] = {}
        for node, outcome in zip(nodes, outcomes, strict=True):
            address = network.address(node)
            trouble = trouble_of(outcome, address, answered_before=self._memory.answered)
            if address not in troubles or in_words(outcome) != in_words(None):
                troubles[address] = trouble
        return list(troubles.values())


def _end_request(partitions: Sequence[TopicPartition]) -> Any:
    """Request the ends of its partitions from a leader; a broker without any, for anything."""
    if not partitions:
        return metadata_request([])
    times = dict.fromkeys(partitions, int(Spec.LATEST))
    return list_offsets.partition_request(times, read_committed=False).request(list(partitions))


def _not_allowed(topics: Sequence[str]) -> ProbeFailure:
    text = no_acl(DESCRIBE, topics)
    return ProbeFailure(kind="permission", text=text, fault=Fault.OURS, retriable=False)


def _some(items: Sequence[T], count: int, turn: int) -> Sequence[T]:
    """Some of many, others at each turn."""
    if len(items) <= count:
        return items
    start = turn * count % len(items)
    return [*items, *items][start : start + count]


def _is_response(outcome: Any) -> bool:
    return outcome is not None and not isinstance(outcome, BaseException)
