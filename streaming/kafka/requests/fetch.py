"""Fetch: records from an offset on. Kept at version 12: later ones name topics by id.

A broker fills partitions in their order until the request's limit and gives the others nothing. So a request wants no
more than it can be given: what one leader is to send is split by bytes, and no partition starves.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from kafka.protocol.consumer import FetchRequest

from state.model.entities import TopicPartition
from streaming.cluster_log import Entries, Fetched, PartitionError
from streaming.kafka.errors import READ, code_error
from streaming.kafka.metadata import by_topic, known
from streaming.kafka.partitions import PartitionRequest, Reply
from streaming.kafka.requests.records import decode, in_full

_REQUEST_BYTES = 32 << 20
_GROWTH = 4
_MOST_BYTES = 128 << 20
_RECORDS_EACH = 32
_OLDEST_VERSION = 4  # the first that can carry record batches with headers and transactions
_NEWEST_VERSION = 12


def partition_request(
    starts: Mapping[TopicPartition, tuple[int, int]],
    until: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
) -> PartitionRequest[Fetched]:
    """Return the question for these ``(offset, max bytes)``; what comes from ``until`` on is left unread."""

    def read(key: TopicPartition, partition: Any) -> Fetched | PartitionError:
        return _reply(partition, *starts[key], until.get(key), read_committed=read_committed)

    return PartitionRequest(
        chunks=_by_bytes(starts),
        request=lambda partitions: _request(partitions, starts, read_committed=read_committed),
        replies=lambda response: _replies(response, read),
        failure=lambda partition, error: _failure(starts[partition][0], error),
        objects=_RECORDS_EACH,
        needs=READ,
    )


def entries_request(partition: TopicPartition, start: tuple[int, int]) -> PartitionRequest[Entries]:
    """Return the question for the records of one partition from ``(offset, max bytes)``, in full."""
    starts = {partition: start}
    return PartitionRequest(
        chunks=_by_bytes(starts),
        request=lambda partitions: _request(partitions, starts, read_committed=False),
        replies=lambda response: _replies(response, lambda _, partition: _in_full(partition, *start)),
        failure=lambda _, error: Entries(records=(), next_offset=start[0], error=error),
        needs=READ,
    )


def _in_full(partition: Any, wanted: int, requested: int) -> Entries | PartitionError:
    fetched = _reply(partition, wanted, requested, None, read_committed=False)
    if isinstance(fetched, PartitionError):
        return fetched
    return Entries(
        records=in_full(bytes(partition.records or b""), {record.offset for record in fetched.records}),
        next_offset=fetched.next_offset,
        needs_bytes=fetched.needs_bytes,
        error=fetched.error,
    )


def _request(
    partitions: list[TopicPartition], starts: Mapping[TopicPartition, tuple[int, int]], *, read_committed: bool
) -> Any:
    topic_class = FetchRequest.FetchTopic
    partition_class = topic_class.FetchPartition
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max(_REQUEST_BYTES, *(starts[each][1] for each in partitions), 1),
        isolation_level=int(read_committed),
        session_id=0,
        session_epoch=-1,
        forgotten_topics_data=[],
        rack_id="",
        topics=[
            topic_class(
                topic=topic,
                partitions=[
                    partition_class(
                        partition=number,
                        current_leader_epoch=-1,
                        fetch_offset=starts[TopicPartition(topic, number)][0],
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=starts[TopicPartition(topic, number)][1],
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ],
        min_version=_OLDEST_VERSION,
        max_version=_NEWEST_VERSION,
    )


def _by_bytes(
    starts: Mapping[TopicPartition, tuple[int, int]],
) -> Callable[[list[TopicPartition]], Iterator[list[TopicPartition]]]:
    def chunks(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
        chunk: list[TopicPartition] = []
        requested = 0
        for each in partitions:
            size = starts[each][1]
            if chunk and requested + size > _REQUEST_BYTES:
                yield chunk
                chunk, requested = [], 0
            chunk.append(each)
            requested += size
        yield chunk

    return chunks


_Answer = TypeVar("_Answer")


def _replies(
    response: Any, read: Callable[[TopicPartition, Any], _Answer | PartitionError]
) -> Iterator[Reply[_Answer]]:
    for topic in response.responses:
        for partition in topic.partitions:
            key = TopicPartition(topic.topic, partition.partition_index)
            yield key, read(key, partition)


def _reply(
    partition: Any, wanted: int, requested: int, until: int | None, *, read_committed: bool
) -> Fetched | PartitionError:
    error = code_error(partition.error_code)
    if error is not None:
        return error
    hidden = [(each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()]
    aborted = hidden if read_committed else None
    decoded = decode(bytes(partition.records or b""), wanted=wanted, until=until, aborted=aborted)
    visible_end = partition.last_stable_offset if read_committed else partition.high_watermark
    needs = decoded.needs_bytes
    if not needs and not decoded.next_offset and wanted < visible_end:
        # Newer brokers send nothing instead of a part of a batch, except as the first of a request.
        needs = min(requested * _GROWTH, _MOST_BYTES)
    return Fetched(
        records=decoded.records,
        next_offset=max(wanted, decoded.next_offset),
        high_watermark=known(partition.high_watermark),
        log_start=known(partition.log_start_offset),
        needs_bytes=needs,
        error=decoded.error,
    )


def _failure(wanted: int, error: PartitionError) -> Fetched:
    return Fetched(records=(), next_offset=wanted, high_watermark=None, log_start=None, error=error)
