"""ListOffsets: the offset that belongs to a time, a begin, an end, or the largest time (KIP-79, KIP-734).

Kept at version 9: from 10 on a request carries a time limit for tiered storage, which the library leaves at zero.

Version 0 (Kafka 0.8 to 3.9; gone in 4.0) answers another question and is sent as such or not at all. It searches whole
segments, each by when its file was last written, on the broker's own clock. It knows no record's timestamp.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from state.model.entities import TopicPartition
from streaming.cluster_log import OffsetAnswer, PartitionError, Segments, Spec
from streaming.kafka.errors import code_error
from streaming.kafka.metadata import by_topic, known
from streaming.kafka.partitions import PartitionRequest, Reply

_SPECS = frozenset(Spec)
_NEWEST_VERSION = 9
_SEGMENT_VERSION = 0


def require_times(times: Iterable[int]) -> None:
    """Refuse a negative time that is no ``Spec``: a broker would take it for one of its own. Raises ValueError."""
    for time in times:
        if time < 0 and time not in _SPECS:
            raise ValueError(
                f"{time} is not a time: milliseconds since the epoch, or one of {', '.join(Spec.__members__)}"
            )


def partition_request(times: Mapping[TopicPartition, int], *, read_committed: bool) -> PartitionRequest[OffsetAnswer]:
    """Return the question for these times, one per partition."""
    oldest = _oldest_version(times, read_committed=read_committed)
    return PartitionRequest(
        request=lambda partitions: list_offsets(
            partitions, times, oldest=oldest, newest=_NEWEST_VERSION, read_committed=read_committed
        ),
        replies=replies,
        failure=lambda partition, error: _failure(error, times[partition]),
    )


def list_offsets(
    partitions: Iterable[TopicPartition],
    times: Mapping[TopicPartition, int],
    *,
    oldest: int,
    newest: int,
    read_committed: bool = False,
    limit: int = 1,
) -> Any:
    """Return the request; ``limit``, of answers per partition, is known to version 0 only, isolation from 2 on."""
    topic_class = ListOffsetsRequest.ListOffsetsTopic
    partition_class = topic_class.ListOffsetsPartition
    # Never plain tuples: the library would read them by position, and positions differ between versions.
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[
            topic_class(
                name=topic,
                partitions=[
                    partition_class(
                        partition_index=number,
                        current_leader_epoch=-1,
                        timestamp=times[TopicPartition(topic, number)],
                        max_num_offsets=limit,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ],
        min_version=oldest,
        max_version=newest,
    )


def _oldest_version(times: Mapping[TopicPartition, int], *, read_committed: bool) -> int:
    """Return the version from which on a broker understands these questions instead of misreading them."""
    if Spec.MAX_TIMESTAMP in times.values():
        return 7
    return 2 if read_committed else 1


def replies(response: Any) -> Iterator[Reply[OffsetAnswer]]:
    """Read a response: per partition its answer, or its error."""
    for topic in response.topics:
        name = topic.name
        for partition in topic.partitions:
            error = code_error(partition.error_code)
            yield (
                TopicPartition(name, partition.partition_index),
                error
                or OffsetAnswer(
                    offset=known(partition.offset),
                    timestamp_ms=known(partition.timestamp),
                    leader_epoch=known(partition.leader_epoch),
                ),
            )


def _failure(error: PartitionError, time: int) -> OffsetAnswer:
    if time == Spec.MAX_TIMESTAMP and error.name == "UNSUPPORTED_VERSION":
        text = "the broker cannot report the largest timestamp: that needs Kafka 3.0 or newer (KIP-734)"
        error = PartitionError(name=error.name, text=text, retriable=False)
    return OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=error)


def require_segments(times: Collection[int], limit: int) -> None:
    """Refuse what version 0 would answer wrongly or not at all. Raises ValueError."""
    require_times(times)
    if Spec.MAX_TIMESTAMP in times:
        raise ValueError("a segment-level search cannot find the largest timestamp")
    if limit < 1:
        raise ValueError(f"the number of segments must be at least 1, not {limit}")


def segment_request(times: Mapping[TopicPartition, int], limit: int) -> PartitionRequest[Segments]:
    """Return the question for these times, one per partition, at most ``limit`` offsets each."""
    return PartitionRequest(
        request=lambda partitions: list_offsets(
            partitions, times, oldest=_SEGMENT_VERSION, newest=_SEGMENT_VERSION, limit=limit
        ),
        replies=_segment_replies,
        failure=_segment_failure,
    )


def _segment_replies(response: Any) -> Iterator[Reply[Segments]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                code_error(partition.error_code) or Segments(offsets=tuple(partition.old_style_offsets)),
            )


def _segment_failure(_: TopicPartition, error: PartitionError) -> Segments:
    if error.name == "UNSUPPORTED_VERSION":
        text = "the broker does not support segment-level search: Kafka 4.0 removed it (ListOffsets version 0)"
        error = PartitionError(name=error.name, text=text, retriable=False)
    return Segments(offsets=(), error=error)
