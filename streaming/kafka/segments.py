"""ListOffsets version 0: a search among whole segments, by the time of their files (Kafka 0.8 to 3.9; gone in 4.0).

It knows no record's timestamp: a segment counts by when its file was last written, on the broker's own clock. Versions
from 1 on ask another question, so this one is sent as version 0 or not at all.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from state.model import TopicPartition
from streaming.kafka.answers import code_error
from streaming.kafka.metadata import by_topic
from streaming.kafka.offsets import require_times
from streaming.kafka.partitions import Inquiry, Reply
from streaming.log import PartitionError, Segments, Spec

_CHUNK = 5000
_VERSION = 0


def require(times: Collection[int], limit: int) -> None:
    """Refuse what version 0 would answer wrongly or not at all. Raises ValueError."""
    require_times(times)
    if Spec.MAX_TIMESTAMP in times:
        raise ValueError("a segment-level search does not know the largest timestamp")
    if limit < 1:
        raise ValueError(f"{limit} is no number of segments: at least 1")


def inquiry(times: Mapping[TopicPartition, int], limit: int) -> Inquiry[Segments]:
    """Return the question for these times, one per partition, at most ``limit`` offsets each."""

    def request(partitions: list[TopicPartition]) -> Any:
        topic_class = ListOffsetsRequest.ListOffsetsTopic
        partition_class = topic_class.ListOffsetsPartition
        return ListOffsetsRequest(
            replica_id=-1,
            topics=[
                topic_class(
                    name=topic,
                    partitions=[
                        partition_class(
                            partition_index=number,
                            timestamp=times[TopicPartition(topic, number)],
                            max_num_offsets=limit,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
            min_version=_VERSION,
            max_version=_VERSION,
        )

    return Inquiry(chunks=_chunks, request=request, replies=_replies, failure=_failure)


def _chunks(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for start in range(0, len(partitions), _CHUNK):
        yield partitions[start : start + _CHUNK]


def _replies(response: Any) -> Iterator[Reply[Segments]]:
    for topic in response.topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                code_error(partition.error_code) or Segments(offsets=tuple(partition.old_style_offsets)),
            )


def _failure(_: TopicPartition, error: PartitionError) -> Segments:
    if error.name == "UNSUPPORTED_VERSION":
        text = "the broker answers no segment-level search any more: Kafka 4.0 removed it (ListOffsets version 0)"
        error = PartitionError(name=error.name, text=text, retriable=False)
    return Segments(offsets=(), error=error)
