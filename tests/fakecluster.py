"""A fake Kafka cluster on loopback, made of kafka-python's own protocol classes: real sockets, faults on demand.

Records are computed, not stored: offset ``o`` of every partition has the time ``BASE_MS + o * STEP_MS`` and the value
``b"<o>"``, and a fetch gives them one per batch.
"""

import contextlib
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from kafka.protocol.admin import DescribeConfigsRequest, DescribeConfigsResponse
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kafka.record.default_records import DefaultRecordBatchBuilder

BASE_MS = 1_700_000_000_000
STEP_MS = 1000
EPOCH_STARTS = {0: 0, 2: 300, 3: 700}
"""First offset of each leader epoch of every partition; the leader's own is the last of them."""
SEGMENT_RECORDS = 100
"""Records of a segment, whose file was last written at the time of its last record."""
API_VERSIONS, UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER, OUT_OF_RANGE, INVALID_REQUEST = 18, 3, 5, 6, 1, 42

_SPOKEN = {
    request.API_KEY: (request, response)
    for request, response in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (MetadataRequest, MetadataResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (FetchRequest, FetchResponse),
        (OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse),
        (DescribeConfigsRequest, DescribeConfigsResponse),
        (SaslHandshakeRequest, SaslHandshakeResponse),
        (SaslAuthenticateRequest, SaslAuthenticateResponse),
    )
}


class FakeCluster:
    """Brokers 0, 1, ... ; partition p is led by broker p modulo their number unless a fault says otherwise."""

    def __init__(
        self,
        topics: Mapping[str, int],
        *,
        brokers: int = 3,
        records: int = 1000,
        version: tuple[int, ...] = (4, 0),
    ) -> None:
        self.topics = dict(topics)
        self.records = records
        self.leaderless: set[tuple[str, int]] = set()
        self.errors: dict[tuple[str, int], int] = {}
        """Error code of a partition for look-ups and fetches."""
        self.not_leader: dict[tuple[str, int], int] = {}
        """How many more times a partition's leader says that it is not."""
        self.hung: set[int] = set()
        """Brokers that accept and read, and never answer."""
        self.lagging: set[int] = set()
        """Brokers whose replicas are not in sync."""
        self.min_in_sync = 1
        self.delay_seconds = 0.0
        self.cluster_id = "fake"
        self.strangers: set[int] = set()
        """Brokers that are of another cluster."""
        self.lie: Callable[[int, int, tuple[int, int]], tuple[int, int]] | None = None
        """Makes of broker, time that was requested, and the true offset and time: what is answered to a look-up."""
        self.requested: list[tuple[int, int, int]] = []
        """Broker, api key and version of every request."""
        self.created: list[str] = []
        """Topics that a metadata request would have created."""
        self.versions = {key: span for key, span in BrokerVersionData(version).api_versions.items() if key in _SPOKEN}
        self.topic_ids = {topic: uuid.uuid4() for topic in topics}
        self.ports: dict[int, int] = {}
        self._sockets: dict[int, list[socket.socket]] = {}
        self._deaf: set[socket.socket] = set()
        for node in range(brokers):
            listener = socket.create_server(("127.0.0.1", 0))
            self.ports[node] = listener.getsockname()[1]
            self._sockets[node] = [listener]
            threading.Thread(target=self._accept, args=(node, listener), daemon=True).start()

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """Addresses of all brokers."""
        return tuple(f"127.0.0.1:{port}" for port in self.ports.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for node in self.ports:
            self.kill(node)

    def kill(self, node: int) -> None:
        """Close a broker's listener and connections: it refuses from now on."""
        for each in self._sockets[node]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def hang_up(self, *nodes: int) -> None:
        """Close every connection to some brokers, or to all, that is open now; new ones work."""
        for node in nodes or self.ports:
            listener, *connections = self._sockets[node]
            for each in connections:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            self._sockets[node] = [listener]

    def deafen(self) -> None:
        """Let every connection that is open now hear no more, as a middlebox that forgot it; new ones work."""
        self._deaf.update(each for sockets in self._sockets.values() for each in sockets[1:])

    def leader(self, topic: str, partition: int) -> int:
        return -1 if (topic, partition) in self.leaderless else partition % len(self.ports)

    def _accept(self, node: int, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._sockets[node].append(connection)
            threading.Thread(target=self._serve, args=(node, connection), daemon=True).start()

    def _serve(self, node: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                key, version, correlation = struct.unpack_from(">hhi", frame)
                self.requested.append((node, key, version))
                if node in self.hung or connection in self._deaf:
                    continue
                time.sleep(self.delay_seconds)
                response = _SPOKEN[key][1]
                flexible = response.flexible_version_q(version) and key != API_VERSIONS
                body = struct.pack(">i", correlation) + (b"\0" if flexible else b"") + self._answer(node, frame)
                connection.sendall(struct.pack(">i", len(body)) + body)

    def _answer(self, node: int, frame: bytes) -> bytes:
        key, version = struct.unpack_from(">hh", frame)
        if key == API_VERSIONS:
            return self._api_versions(version)
        request = _SPOKEN[key][0].decode(frame, version=version, header=True)
        answers = {
            3: self._metadata,
            2: self._list_offsets,
            1: self._fetch,
            23: self._epoch_ends,
            32: self._describe_configs,
            17: self._take_mechanism,
            36: self._let_in,
        }
        answer: bytes = answers[key](node, version, request).encode(version=version)
        return answer

    def _api_versions(self, version: int) -> bytes:
        unsupported = version > self.versions[API_VERSIONS][1]
        version = 0 if unsupported else version
        keys = [
            ApiVersionsResponse.ApiVersion(version=version, api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        response = ApiVersionsResponse(
            version=version, error_code=35 if unsupported else 0, throttle_time_ms=0, api_keys=keys
        )
        encoded: bytes = response.encode(version=version)
        return encoded

    def _take_mechanism(self, _: int, version: int, request: Any) -> Any:
        return SaslHandshakeResponse(version=version, error_code=0, mechanisms=[request.mechanism])

    def _let_in(self, _: int, version: int, __: Any) -> Any:
        """Each login succeeds."""
        return SaslAuthenticateResponse(
            version=version, error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=0
        )

    def _metadata(self, node: int, version: int, request: Any) -> Any:
        topic_class = MetadataResponse.MetadataResponseTopic
        topics = []
        for name in self.topics if request.topics is None else [topic.name for topic in request.topics]:
            missing = name not in self.topics
            if missing and request.allow_auto_topic_creation:
                self.created.append(name)
            topics.append(
                topic_class(
                    version=version,
                    error_code=UNKNOWN_TOPIC if missing else 0,
                    name=name,
                    topic_id=self.topic_ids.get(name, uuid.UUID(int=0)),
                    is_internal=name.startswith("__"),
                    partitions=[self._partition(version, name, number) for number in range(self.topics.get(name, 0))],
                )
            )
        brokers = [
            MetadataResponse.MetadataResponseBroker(
                version=version, node_id=each, host="127.0.0.1", port=port, rack=None
            )
            for each, port in self.ports.items()
        ]
        return MetadataResponse(
            version=version,
            throttle_time_ms=0,
            cluster_id="other" if node in self.strangers else self.cluster_id,
            controller_id=0,
            topics=topics,
            brokers=brokers,
        )

    def _partition(self, version: int, topic: str, number: int) -> Any:
        leader = self.leader(topic, number)
        return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
            version=version,
            error_code=LEADER_NOT_AVAILABLE if leader < 0 else 0,
            partition_index=number,
            leader_id=leader,
            leader_epoch=3,
            replica_nodes=list(self.ports),
            isr_nodes=[each for each in self.ports if each not in self.lagging],
            offline_replicas=[],
        )

    def _error(self, node: int, topic: str, partition: int) -> int:
        key = (topic, partition)
        if partition >= self.topics.get(topic, 0):
            return UNKNOWN_TOPIC
        if self.not_leader.get(key, 0):
            self.not_leader[key] -= 1
            return NOT_LEADER
        return self.errors.get(key, 0 if self.leader(topic, partition) == node else NOT_LEADER)

    def _list_offsets(self, node: int, version: int, request: Any) -> Any:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            partitions = []
            numbers = [partition.partition_index for partition in topic.partitions]
            for partition in topic.partitions:
                error = self._error(node, topic.name, partition.partition_index)
                if version and numbers.count(partition.partition_index) > 1:
                    error = INVALID_REQUEST
                offset, timestamp = (-1, -1) if error or not version else self._look_up(partition.timestamp)
                if self.lie is not None and not error and version:
                    offset, timestamp = self.lie(node, partition.timestamp, (offset, timestamp))
                old = [] if error or version else self._segments(partition.timestamp, partition.max_num_offsets)
                partitions.append(
                    topic_class.ListOffsetsPartitionResponse(
                        version=version,
                        partition_index=partition.partition_index,
                        error_code=error,
                        old_style_offsets=old,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=3,
                    )
                )
            topics.append(topic_class(version=version, name=topic.name, partitions=partitions))
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics)

    def _segments(self, requested: int, limit: int) -> list[int]:
        bases = range(0, self.records, SEGMENT_RECORDS)
        written = [(base, BASE_MS + (base + SEGMENT_RECORDS - 1) * STEP_MS) for base in bases]
        written.append((self.records, 1 << 62))
        found = (
            written
            if requested == -1
            else written[:1]
            if requested == -2
            else [w for w in written if w[1] <= requested]
        )
        return [base for base, _ in reversed(found)][:limit]

    def _look_up(self, requested: int) -> tuple[int, int]:
        special = {
            -1: (self.records, -1),
            -2: (0, -1),
            -3: (self.records - 1, BASE_MS + (self.records - 1) * STEP_MS),
        }
        if requested in special:
            return special[requested]
        offset = max(0, -(-(requested - BASE_MS) // STEP_MS))
        return (offset, BASE_MS + offset * STEP_MS) if offset < self.records else (-1, -1)

    def _fetch(self, node: int, version: int, request: Any) -> Any:
        topic_class = FetchResponse.FetchableTopicResponse
        responses = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                error = self._error(node, topic.topic, partition.partition)
                if not error and not 0 <= partition.fetch_offset <= self.records:
                    error = OUT_OF_RANGE
                partitions.append(
                    topic_class.PartitionData(
                        version=version,
                        partition_index=partition.partition,
                        error_code=error,
                        high_watermark=-1 if error else self.records,
                        last_stable_offset=-1 if error else self.records,
                        log_start_offset=-1 if error else 0,
                        aborted_transactions=None,
                        preferred_read_replica=-1,
                        records=b"" if error else self._batches(partition.fetch_offset, partition.partition_max_bytes),
                    )
                )
            responses.append(topic_class(version=version, topic=topic.topic, partitions=partitions))
        return FetchResponse(version=version, throttle_time_ms=0, error_code=0, session_id=0, responses=responses)

    def _epoch_ends(self, node: int, version: int, request: Any) -> Any:
        topic_class = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        topics = []
        for topic in request.topics:
            partitions = []
            for partition in topic.partitions:
                error = self._error(node, topic.topic, partition.partition)
                epoch, end = (-1, -1) if error else self._epoch_end(partition.leader_epoch)
                partitions.append(
                    topic_class.EpochEndOffset(
                        version=version,
                        error_code=error,
                        partition=partition.partition,
                        leader_epoch=epoch,
                        end_offset=end,
                    )
                )
            topics.append(topic_class(version=version, topic=topic.topic, partitions=partitions))
        return OffsetForLeaderEpochResponse(version=version, throttle_time_ms=0, topics=topics)

    def _epoch_end(self, requested: int) -> tuple[int, int]:
        later = [start for epoch, start in EPOCH_STARTS.items() if epoch > requested]
        if requested > max(EPOCH_STARTS):
            return -1, -1
        return max(epoch for epoch in EPOCH_STARTS if epoch <= requested), later[0] if later else self.records

    def _batches(self, offset: int, size: int) -> bytes:
        batches = b""
        while offset < self.records and len(batches) < size:
            batches += _batch(offset)
            offset += 1
        return batches[:size]

    def _describe_configs(self, node: int, version: int, request: Any) -> Any:
        result_class = DescribeConfigsResponse.DescribeConfigsResult
        config = {
            "message.timestamp.type": "CreateTime",
            "cleanup.policy": "delete",
            "min.insync.replicas": str(self.min_in_sync),
        }
        results = [
            result_class(
                version=version,
                error_code=0 if resource.resource_name in self.topics else UNKNOWN_TOPIC,
                error_message=None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=[
                    result_class.DescribeConfigsResourceResult(
                        version=version, name=name, value=config[name], read_only=False, is_default=True,
                        config_source=5, is_sensitive=False, synonyms=[], config_type=2, documentation=None,
                    )
                    for name in resource.configuration_keys
                ],
            )
            for resource in request.resources
        ]  # fmt: skip
        return DescribeConfigsResponse(version=version, throttle_time_ms=0, results=results)


def _batch(offset: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    builder.append(0, BASE_MS + offset * STEP_MS, None, b"%d" % offset, [])
    batch = bytearray(builder.build())
    struct.pack_into(">q", batch, 0, offset)  # the base offset is not under the checksum
    return bytes(batch)


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """A listener that accepts (in the kernel) and never says a word; yields its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
