"""What looks have learnt of a cluster: its brokers, and the leaders and in-sync replicas of the topics of interest.

Brokers and replicas of 3,500 partitions cost ten milliseconds to read and change rarely, so a look draws a new chart
only now and then, or when a broker did not answer as the chart says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from state.model import TopicPartition
from streaming.log import TopicFacts
from streaming.sight import Health


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """The topics of interest as metadata told them."""

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
class Memory:
    """What the looks at one cluster share, also where each has connections of its own; last writer wins."""

    answered: bool = False
    """Whether this cluster ever answered this process."""
    metadata: Any = None
    """The newest metadata response, without topics: so that a new network knows more than the configured servers."""
    chart: Chart | None = None
    is_stale: bool = False
    """Whether a broker did not answer as the chart says."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """``min.insync.replicas`` by topic, where it may be read."""
    limits_at: float | None = None
    turn: int = 0
    """Counts looks, so that each asks for other partitions."""


def draw(facts: Iterable[TopicFacts], live: Iterable[int], limits: Mapping[str, int], *, heard_at: float) -> Chart:
    """Draw the chart of what metadata told."""
    brokers, led, missing = set(live), dict[int, list[TopicPartition]](), list[str]()
    partitions = leaderless = under_replicated = under_min_isr = 0
    for topic in facts:
        if topic.error is not None:
            missing.append(topic.name)
            continue
        limit = limits.get(topic.name, 0)
        for number, partition in topic.partitions.items():
            partitions += 1
            brokers.update(partition.replicas)
            if partition.leader is None:
                leaderless += 1
            else:
                led.setdefault(partition.leader, []).append(TopicPartition(topic.name, number))
            under_replicated += len(partition.in_sync) < len(partition.replicas)
            under_min_isr += len(partition.in_sync) < limit
    return Chart(
        heard_at=heard_at,
        brokers=frozenset(brokers),
        led={broker: tuple(led[broker]) for broker in sorted(led)},
        partitions=partitions,
        leaderless=leaderless,
        under_replicated=under_replicated,
        under_min_isr=under_min_isr if limits or not partitions else None,
        missing=tuple(missing),
    )
