"""A bounded link to one Kafka cluster: the port ``streaming.cluster_log.ClusterLog``, answered by real brokers.

It is built on the library's protocol and network layer, not on its consumer and admin clients. Those answer "no
record" for a partition without a leader, lose all answers over one partition's error, may create topics, and may wait
for ever.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from state.model.entities import TopicPartition
from state.settings.keys import Cluster, Tideover
from streaming.clocks import Deadline
from streaming.cluster_log import Entries, EpochEnd, Fetched, OffsetAnswer, Segments, TopicFacts
from streaming.errors import ClusterUndeclared
from streaming.kafka.metadata import AnyBroker, Metadata
from streaming.kafka.network import Network
from streaming.kafka.pacing import pacer_of
from streaming.kafka.partitions import Collector, Partitions
from streaming.kafka.requests import epochs as leader_epochs
from streaming.kafka.requests import fetch, list_offsets
from streaming.kafka.security import Credentials, library_settings
from streaming.probe.identities import Identify, Identities, anyone


@dataclass(frozen=True, slots=True)
class _Wires:
    """Connections, and what was learnt through them: of one cluster."""

    network: Network
    metadata: Metadata
    partitions: Partitions


class Link:
    """A cluster that can be looked at, from any thread. Connects at the first question; close it, or use ``with``.

    Certificates and passwords are read by each new connection, so what has changed there counts without a restart.
    """

    def __init__(self, cluster: Cluster, *, name: str = "cluster", identify: Identify = anyone) -> None:
        """every connection calls ``identify``; where it raises ``WrongCluster``, every question does."""
        self._name = name
        self._cluster = cluster
        self._credentials = Credentials(cluster.security)
        self._identify = identify
        self._lock = threading.Lock()
        self._is_closed = False
        self._wires = self._wired()

    def _wired(self) -> _Wires:
        pacer = pacer_of(self._cluster)
        network = Network(library_settings(self._cluster), self._credentials, self._identify, pacer=pacer)
        metadata = Metadata(network, AnyBroker(network, self._name))
        return _Wires(network, metadata, Partitions(network, metadata))

    @property
    def _now(self) -> _Wires:
        """What is used for one question; new wires where the name has gone to another cluster since."""
        with self._lock:
            former = self._wires
            if not former.network.is_foreign or self._is_closed:
                return former
            self._wires = self._wired()
        former.network.close()
        return self._wires

    def __repr__(self) -> str:
        return f"Link({self._name})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections; a second time does nothing, and no broker can delay it by more than a second."""
        with self._lock:
            self._is_closed = True
        self._wires.network.close()

    def describe(self, topics: Collection[str], *, timeout: float) -> Mapping[str, TopicFacts]:
        """Return fresh facts of these topics; a missing one has an error and is not created.

        Raises ClusterUnreachable when no broker answers in time, CredentialRefused when our settings are at fault.
        """
        return self._now.metadata.describe(topics, Deadline.after(timeout))

    def names(self, *, timeout: float) -> Collection[str]:
        """Return the names of all topics but Kafka's internal ones, as a pattern's subscriber sees them.

        Raises ClusterUnreachable when no broker answers in time, CredentialRefused when our settings are at fault.
        """
        return self._now.metadata.names(Deadline.after(timeout))

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        """Look up one time or ``Spec`` per partition, all leaders in parallel, retried within ``timeout`` seconds.

        Raises ValueError, before anything is sent, for a negative time that is no ``Spec``; ClusterUnreachable and
        CredentialRefused when the leaders cannot even be named.
        """
        list_offsets.require_times(times.values())
        with Collector.held_back(len(times)):
            question = list_offsets.partition_request(times, read_committed=read_committed)
            return self._now.partitions.exchange(question, times, Deadline.after(timeout))

    def fetch(
        self,
        starts: Mapping[TopicPartition, tuple[int, int]],
        *,
        until: Mapping[TopicPartition, int] | None = None,
        read_committed: bool = False,
        timeout: float,
    ) -> Mapping[TopicPartition, Fetched]:
        """Read from ``(offset, max bytes)`` per partition, all leaders in parallel; never waits for new records.

        Raises ClusterUnreachable and CredentialRefused when the leaders cannot even be named.
        """
        question = fetch.partition_request(starts, until or {}, read_committed=read_committed)
        return self._now.partitions.exchange(question, starts, Deadline.after(timeout))

    def segments(
        self, times: Mapping[TopicPartition, int], *, limit: int = 1, timeout: float
    ) -> Mapping[TopicPartition, Segments]:
        """The newest segments per partition that were last written at or before a time (ListOffsets version 0).

        Raises ValueError as ``offsets`` does, also for the largest timestamp and a limit below 1; ClusterUnreachable
        and CredentialRefused when the leaders cannot even be named.
        """
        list_offsets.require_segments(times.values(), limit)
        return self._now.partitions.exchange(list_offsets.segment_request(times, limit), times, Deadline.after(timeout))

    def epoch_ends(self, epochs: Mapping[TopicPartition, int], *, timeout: float) -> Mapping[TopicPartition, EpochEnd]:
        """Where one leader epoch per partition ends (KIP-320), all leaders in parallel, retried within ``timeout``.

        Raises ClusterUnreachable and CredentialRefused when the leaders cannot even be named.
        """
        return self._now.partitions.exchange(leader_epochs.partition_request(epochs), epochs, Deadline.after(timeout))

    def entries(self, partition: TopicPartition, start: tuple[int, int], *, timeout: float) -> Entries:
        """Read from ``(offset, max bytes)`` of one partition, each record in full.

        Raises ClusterUnreachable and CredentialRefused when the leader cannot even be named.
        """
        question = fetch.entries_request(partition, start)
        return self._now.partitions.exchange(question, [partition], Deadline.after(timeout))[partition]


class Links:
    """Links to the declared clusters, each made when first needed and shared by all threads."""

    def __init__(self, settings: Tideover, identities: Identities) -> None:
        self._settings = settings
        self._identities = identities
        self._made: dict[str, Link] = {}
        self._lock = threading.Lock()

    def __call__(self, cluster: str) -> Link:
        """The link to a cluster. Raises ``ClusterUndeclared``."""
        self._identities.refresh()
        declared = self._settings.clusters
        with self._lock:
            if cluster not in declared:
                known = ", ".join(sorted(declared)) or "none"
                raise ClusterUndeclared(f"cluster {cluster!r} is not declared", hint=f"declared clusters: {known}")
            if cluster not in self._made:
                self._made[cluster] = Link(declared[cluster], name=cluster, identify=self._identities.of(cluster))
            return self._made[cluster]

    def close(self) -> None:
        with self._lock:
            for link in self._made.values():
                link.close()
