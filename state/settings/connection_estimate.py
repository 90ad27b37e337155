"""How many connections Spark opens to a cluster when queries start: an estimate, by what Kafka's clients do. Pure.

A task has a consumer per partition, which stays open for the next batch (``InternalKafkaConsumerPool``). A client
connects to a bootstrap server, and by the broker's id to each leader. So a consumer of one partition has two
connections (``NetworkClient``: a bootstrap server has an id of its own). The driver has an admin client per source,
which meets every leader. A sink has a producer in each executor; one is counted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from state.settings.keys import Query, Tideover
from state.settings.topics import pattern_of, topics_of

_OF_A_CONSUMER = 2


def connections_of_start(query: Query, tasks: int, servers: int) -> int:
    """Connections of one start: ``tasks`` are those of all its sources, ``servers`` the brokers that are known."""
    met = 1 + max(1, min(tasks, servers))
    clients = len(query.sources) + (query.output is not None)
    return clients * met + _OF_A_CONSUMER * tasks


def tasks_of(settings: Tideover, query: Query, cluster: str, partitions: Mapping[str, int]) -> int | None:
    """How many tasks a query's sources make by the partitions of each topic; None where one of them is not known."""
    found = 0
    named = topics_of(settings, query, cluster)
    for name, source in query.sources.items():
        pattern = pattern_of(settings, query, source, cluster)
        topics = named[name] if pattern is None else [each for each in partitions if re.fullmatch(pattern, each)]
        if not topics or any(topic not in partitions for topic in topics):
            return None
        found += max(sum(partitions[topic] for topic in topics), source.least_tasks)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionNeed:
    """What a move of every query that may go to a cluster opens there, beside what is declared for the cluster."""

    cluster: str
    per_second: int
    queries: int
    connections: int | None
    """Of all of them together; None where the partitions of one are not known."""
    largest: int
    """Of the one that needs most, of those that are known."""
    unknown: tuple[str, ...] = ()
    """Queries whose partitions are not known."""

    @property
    def seconds(self) -> float | None:
        """How long the cluster takes to accept all of them; None where their number is not known."""
        return None if self.connections is None else self.connections / self.per_second


def connections_of_move(settings: Tideover, target: str, tasks: Mapping[str, int | None]) -> ConnectionNeed | None:
    """``tasks`` by query, of those that would go to ``target``; None where the cluster has no declared limit."""
    cluster = settings.clusters.get(target)
    if cluster is None or cluster.connections_per_second is None or not tasks:
        return None
    servers = len(cluster.bootstrap)
    known = [
        connections_of_start(settings.queries[name], count, servers)
        for name, count in tasks.items()
        if count is not None
    ]
    unknown = tuple(name for name, count in tasks.items() if count is None)
    return ConnectionNeed(
        cluster=target,
        per_second=cluster.connections_per_second,
        queries=len(tasks),
        connections=None if unknown else sum(known),
        largest=max(known, default=0),
        unknown=unknown,
    )
