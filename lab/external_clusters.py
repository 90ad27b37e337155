"""Clusters that are not the lab's: known by the product's configuration, while the ledger of traffic is the lab's.

So the same traffic and the same verifier serve a world of local processes and one of containers.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab import topics
from lab.access import Access, Servers
from lab.credentials import FOLDER
from lab.errors import LabError

_MOST_REPLICAS = 3
_CONNECT_SECONDS = 2.0


@dataclass(frozen=True)
class ExternalClusters:
    """The clusters of one configuration."""

    directory: Path
    configuration: Path

    @property
    def acked(self) -> Path:
        """Where traffic writes what was acknowledged to it."""
        return self.directory / "acked"

    def bootstrap(self, cluster: str) -> list[str]:
        """Return the bootstrap servers of a cluster; LabError when the configuration does not name them."""
        try:
            declared: Mapping[str, Any] = yaml.safe_load(self.configuration.read_text(encoding="utf-8"))["clusters"]
            return Servers(declared[cluster]["bootstrap"], self.access_to(cluster))
        except (OSError, yaml.YAMLError, TypeError, KeyError) as error:
            raise LabError(f"{self.configuration} names no bootstrap servers of {cluster}: {error!r}") from error

    def access_to(self, cluster: str) -> Access | None:
        """Return what lets the lab in, where credentials were made for a cluster."""
        return Access.found(self.directory / FOLDER / cluster)

    def replicas(self, cluster: str) -> int:
        """Return how many replicas a topic gets: three where there are this many brokers."""
        return min(_MOST_REPLICAS, len(topics.broker_ids(self.bootstrap(cluster))[1]))

    def partitions(self, topic: str, cluster: str) -> int:
        """Return how many partitions a topic has; LabError when there is none: it is made by the verb `topics`."""
        count = topics.partition_count(self.bootstrap(cluster), topic)
        if not count:
            raise LabError(f"there is no topic {topic} on {cluster}", hint="make it: python -m lab topics")
        return count

    def may_answer(self, cluster: str) -> bool:
        """Whether any of its addresses takes a connection; a frozen cluster does, and never answers."""
        return any(_connects(address) for address in self.bootstrap(cluster))


def _connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
