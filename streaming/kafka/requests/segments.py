"""ListOffsets version 0: a search among whole segments, by the time of their files (Kafka 0.8 to 3.9; gone in 4.0).

It knows no record's timestamp: a segment counts by when its file was last written, on the broker's own clock. Versions
from 1 on ask another question, so this one is sent as version 0 or not at all.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from state.model.entities import TopicPartition
from streaming.cluster_log import PartitionError, Segments, Spec
from streaming.kafka.errors import code_error
from streaming.kafka.partitions import PartitionRequest, Reply
from streaming.kafka.requests.list_offsets import list_offsets, require_times

_VERSION = 0


def require(times: Collection[int], limit: int) -> None:
    """Refuse what version 0 would answer wrongly or not at all. Raises ValueError."""
    require_times(times)
    if Spec.MAX_TIMESTAMP in times:
        raise ValueError("a segment-level search cannot find the largest timestamp")
    if limit < 1:
        raise ValueError(f"the number of segments must be at least 1, not {limit}")


def partition_request(times: Mapping[TopicPartition, int], limit: int) -> PartitionRequest[Segments]:
    """Return the question for these times, one per partition, at most ``limit`` offsets each."""

    return PartitionRequest(
        request=lambda partitions: list_offsets(partitions, times, oldest=_VERSION, newest=_VERSION, limit=limit),
        replies=_replies,
        failure=_failure,
    )


def _replies(response: Any) -> Iterator[Reply[Segments]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                code_error(partition.error_code) or Segments(offsets=tuple(partition.old_style_offsets)),
            )


def _failure(_: TopicPartition, error: PartitionError) -> Segments:
    if error.name == "UNSUPPORTED_VERSION":
        text = "the broker does not support segment-level search: Kafka 4.0 removed it (ListOffsets version 0)"
        error = PartitionError(name=error.name, text=text, retriable=False)
    return Segments(offsets=(), error=error)
