"""What looks have learnt of a cluster: its brokers, and the leaders and in-sync replicas of the topics of interest.

Leaders and replicas of 3,500 partitions cost tens of milliseconds to decode and change rarely. So a look draws a new
chart only now and then, or when a broker did not answer as the chart says. The more partitions, the longer a chart is
used.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from state.model.entities import TopicPartition
from streaming.probe.probe_result import Health, ProbeFailure

_CHART_SECONDS = 5.0
"""How long a chart is used at least."""
_LONGEST_SECONDS = 30.0
_PARTITIONS_A_SECOND = 125
"""What charts may cost while all is well, so that a wide cluster is charted less often and no dearer."""
_STALE_PARTITIONS_A_SECOND = 2000
"""The same while a broker does not answer as the chart says, which may last for days."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterState:
    """The topics of interest as metadata reported them."""

    heard_at: float
    """On the monotonic clock."""
    brokers: frozenset[int]
    """Those that the cluster names, and those that hold replicas of the topics of interest."""
    led: Mapping[int, tuple[TopicPartition, ...]]
    """By broker, the partitions of interest that it leads."""
    partitions: int
    leaderless: int
    under_replicated: int
    under_min_isr: int | None
    missing: tuple[str, ...]
    """Topics of interest that the cluster does not have."""

    def health(self, *, silent: int, unreadable: int) -> Health:
        """How whole the cluster is, with what a look has found of its brokers."""
        return Health(
            brokers=len(self.brokers),
            brokers_silent=silent,
            partitions=self.partitions,
            leaderless=self.leaderless,
            unreadable=unreadable,
            under_replicated=self.under_replicated,
            under_min_isr=self.under_min_isr,
        )


@dataclass(kw_only=True, slots=True)
class ProbeMemory:
    """What the looks at one cluster share, also where each has connections of its own; last writer wins."""

    answered: bool = False
    """Whether this cluster, or another one behind its endpoint, ever answered this process."""
    metadata: Any = None
    """The newest metadata response, without topics: so that a new network knows more than the configured servers."""
    chart: ClusterState | None = None
    is_stale: bool = False
    """Whether a broker did not answer as the chart says."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """``min.insync.replicas`` by topic, where it may be read."""
    limits_at: float | None = None
    quiet_until: float = 0.0
    """On the monotonic clock: until then no thread connects, because the cluster needs a pause."""
    held_by: ProbeFailure | None = None
    """Why."""
    elsewhere: ProbeFailure | None = None
    """Where the cluster's endpoint led to another declared cluster when it answered last."""
    turn: int = 0
    """Counts looks, so that each reads other partitions."""

    def forget(self) -> None:
        """Forget addresses, leaders and limits: another cluster has the name."""
        self.metadata = self.chart = self.limits_at = None
        self.limits = {}

    def standing_chart(self, now: float) -> ClusterState | None:
        """The chart, while it is in use."""
        if self.chart is None:
            return None
        wide = self.chart.partitions
        well, stale = max(_CHART_SECONDS, wide / _PARTITIONS_A_SECOND), wide / _STALE_PARTITIONS_A_SECOND
        valid_for = min(_LONGEST_SECONDS, stale if self.is_stale else well)
        return self.chart if now - self.chart.heard_at < valid_for else None


def state_of_cluster(
    topics: Iterable[Any], live: Iterable[int], limits: Mapping[str, int], *, heard_at: float
) -> ClusterState:
    """Draw the chart of a metadata response's topics, with nothing made in between: it is thousands of partitions."""
    brokers, led, missing = set(live), dict[int, list[TopicPartition]](), list[str]()
    partitions = leaderless = under_replicated = under_min_isr = 0
    for topic in topics:
        if topic.error_code:
            missing.append(topic.name)
            continue
        name, limit = topic.name, limits.get(topic.name, 0)
        partitions += len(topic.partitions)
        for partition in topic.partitions:
            leader, replicas, in_sync = partition.leader_id, partition.replica_nodes, len(partition.isr_nodes)
            brokers.update(replicas)
            if leader < 0:
                leaderless += 1
            elif leader in led:
                led[leader].append(TopicPartition(name, partition.partition_index))
            else:
                led[leader] = [TopicPartition(name, partition.partition_index)]
            under_replicated += in_sync < len(replicas)
            under_min_isr += in_sync < limit
    return ClusterState(
        heard_at=heard_at,
        brokers=frozenset(brokers),
        led={broker: tuple(led[broker]) for broker in sorted(led)},
        partitions=partitions,
        leaderless=leaderless,
        under_replicated=under_replicated,
        under_min_isr=under_min_isr if limits or not partitions else None,
        missing=tuple(missing),
    )
