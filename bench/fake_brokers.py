"""``python -m bench.fake_brokers``: brokers that answer where topics are led and what lies at a time, and nothing else.

A real cluster of 100,000 partitions does not fit on a machine that also runs the clients. These answer by the same
protocol on real sockets, in a process of their own, and keep each answer. The second equal question costs a broker
next to nothing, so a figure is the client's cost and loopback's. What a real broker takes to search its indexes is
not in it.

The address list is printed on one line; the brokers end with their standard input.
"""

import argparse
import contextlib
import socket
import struct
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

BASE_MS = 1_700_000_000_000
STEP_MS = 1_000
RECORDS = 1_000_000
"""Of each partition: the record at offset o of partition p has the time ``BASE_MS + (o - p) * STEP_MS``."""

_API_VERSIONS, _UNSUPPORTED_VERSION, _NO_COORDINATOR = 18, 35, 15
_SPOKEN = {
    request.API_KEY: (request, response)
    for request, response in (
        (ApiVersionsRequest, ApiVersionsResponse),
        (MetadataRequest, MetadataResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
    )
}


def offset_at(partition: int, time_ms: int) -> int:
    """The first offset at or after a time, as every broker here answers it."""
    return max(0, -(-(time_ms - BASE_MS) // STEP_MS) + partition)


def topic_name(number: int) -> str:
    """Name of a topic by its number."""
    return f"many-{number:04d}"


class FakeBrokers:
    """Brokers 0, 1, ... on loopback; partition p of every topic is led by broker p modulo their number."""

    def __init__(self, *, brokers: int, topics: int, partitions: int) -> None:
        self._topics = {topic_name(number): uuid.uuid4() for number in range(topics)}
        self._partitions = partitions
        self._versions = {key: span for key, span in BrokerVersionData((4, 0)).api_versions.items() if key in _SPOKEN}
        self._kept: dict[tuple[int | None, bytes, bytes], bytes] = {}
        self._listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(brokers)]
        self.ports = [listener.getsockname()[1] for listener in self._listeners]
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            node = self._listeners.index(listener)
            threading.Thread(target=self._serve, args=(node, connection), daemon=True).start()

    def _serve(self, node: int, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", size)[0])
                key, version, correlation = struct.unpack_from(">hhi", frame)
                tagged = key != _API_VERSIONS and _SPOKEN[key][1].flexible_version_q(version)
                head = struct.pack(">i", correlation) + (b"\0" if tagged else b"")
                body = self._answer(node, frame)
                connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def _answer(self, node: int, frame: bytes) -> bytes:
        # only offsets are a leader's own: the first one that is queried must not pay for each broker's first time
        (key,) = struct.unpack_from(">h", frame)
        question = node if key == ListOffsetsRequest.API_KEY else None, frame[:4], frame[8:]
        if question not in self._kept:
            self._kept[question] = self._encoded(node, frame)
        return self._kept[question]

    def _encoded(self, node: int, frame: bytes) -> bytes:
        key, version = struct.unpack_from(">hh", frame)
        if key == _API_VERSIONS:
            spoken = version <= self._versions[key][1]
            response, version = self._api_versions(version if spoken else 0, spoken=spoken), version if spoken else 0
        else:
            request = _SPOKEN[key][0].decode(frame, version=version, header=True)
            response = {
                MetadataRequest.API_KEY: self._metadata,
                ListOffsetsRequest.API_KEY: self._offsets,
                FindCoordinatorRequest.API_KEY: self._coordinator,
            }[key](node, version, request)
        encoded: bytes = response.encode(version=version)
        return encoded

    def _api_versions(self, version: int, *, spoken: bool) -> Any:
        keys = [
            ApiVersionsResponse.ApiVersion(version=version, api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self._versions.items()
        ]
        error = 0 if spoken else _UNSUPPORTED_VERSION
        return ApiVersionsResponse(version=version, error_code=error, throttle_time_ms=0, api_keys=keys)

    def _metadata(self, node: int, version: int, request: Any) -> Any:
        topic_class = MetadataResponse.MetadataResponseTopic
        requested = list(self._topics) if request.topics is None else [topic.name for topic in request.topics]
        topics = [
            topic_class(
                version=version,
                error_code=0,
                name=name,
                topic_id=self._topics[name],
                is_internal=False,
                partitions=[self._partition(version, number) for number in range(self._partitions)],
            )
            for name in requested
        ]
        brokers = [
            MetadataResponse.MetadataResponseBroker(
                version=version, node_id=each, host="127.0.0.1", port=port, rack=None
            )
            for each, port in enumerate(self.ports)
        ]
        return MetadataResponse(
            version=version, throttle_time_ms=0, cluster_id="fake", controller_id=0, topics=topics, brokers=brokers
        )

    def _partition(self, version: int, number: int) -> Any:
        replicas = [(number + each) % len(self.ports) for each in range(min(3, len(self.ports)))]
        return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
            version=version,
            error_code=0,
            partition_index=number,
            leader_id=replicas[0],
            leader_epoch=3,
            replica_nodes=replicas,
            isr_nodes=replicas,
            offline_replicas=[],
        )

    def _offsets(self, node: int, version: int, request: Any) -> Any:
        topic_class = ListOffsetsResponse.ListOffsetsTopicResponse
        return ListOffsetsResponse(
            version=version,
            throttle_time_ms=0,
            topics=[
                topic_class(
                    version=version,
                    name=topic.name,
                    partitions=[self._offset(node, version, partition) for partition in topic.partitions],
                )
                for topic in request.topics
            ],
        )

    def _offset(self, node: int, version: int, requested: Any) -> Any:
        number = requested.partition_index
        offset = offset_at(number, requested.timestamp)
        not_leader = 0 if number % len(self.ports) == node else 6
        return ListOffsetsResponse.ListOffsetsTopicResponse.ListOffsetsPartitionResponse(
            version=version,
            partition_index=number,
            error_code=not_leader,
            old_style_offsets=[],
            timestamp=BASE_MS + (offset - number) * STEP_MS,
            offset=offset,
            leader_epoch=3,
        )

    def _coordinator(self, node: int, version: int, request: Any) -> Any:
        """There are no groups here; a consumer sends the request all the same."""
        return FindCoordinatorResponse(
            version=version,
            throttle_time_ms=0,
            error_code=_NO_COORDINATOR,
            error_message=None,
            node_id=-1,
            host="",
            port=-1,
            coordinators=[],
        )


@contextlib.contextmanager
def fake_brokers(*, brokers: int, topics: int, partitions: int) -> Iterator[str]:
    """Start them in a process of their own; gives their bootstrap addresses, comma-separated."""
    numbers = [str(each) for each in (brokers, topics, partitions)]
    command = [sys.executable, "-m", "bench.fake_brokers", *numbers]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.stdin.close()
            child.kill()


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fake_brokers")
    for name in ("brokers", "topics", "partitions"):
        parser.add_argument(name, type=int)
    arguments = parser.parse_args()
    fake = FakeBrokers(brokers=arguments.brokers, topics=arguments.topics, partitions=arguments.partitions)
    print(",".join(f"127.0.0.1:{port}" for port in fake.ports), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _main()
