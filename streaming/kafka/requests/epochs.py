"""OffsetForLeaderEpoch: where a leader epoch ends in a log, so that a reader learns what was cut off (KIP-320).

Sent as a consumer (replica id -1), without a current leader epoch. Who leads is looked up again for each attempt, and
a fence against our own stale metadata would only add a reason to retry. Kept at version 4, the newest there is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from state.model.entities import TopicPartition
from streaming.cluster_log import EpochEnd, PartitionError
from streaming.kafka.errors import code_error
from streaming.kafka.metadata import by_topic, known
from streaming.kafka.partitions import PartitionRequest, Reply

_OLDEST_VERSION = 2  # answers of version 0 lack the epoch that an end belongs to
_NEWEST_VERSION = 4


def partition_request(epochs: Mapping[TopicPartition, int]) -> PartitionRequest[EpochEnd]:
    """Return the question for these epochs, one per partition."""

    def request(partitions: list[TopicPartition]) -> Any:
        topic_class = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        partition_class = topic_class.OffsetForLeaderPartition
        return OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                topic_class(
                    topic=topic,
                    partitions=[
                        partition_class(
                            partition=number,
                            current_leader_epoch=-1,
                            leader_epoch=epochs[TopicPartition(topic, number)],
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
            min_version=_OLDEST_VERSION,
            max_version=_NEWEST_VERSION,
        )

    return PartitionRequest(request=request, replies=_replies, failure=_failure)


def _replies(response: Any) -> Iterator[Reply[EpochEnd]]:
    for topic in response.topics:
        for partition in topic.partitions:
            epoch, end = known(partition.leader_epoch), known(partition.end_offset)
            both = epoch is not None and end is not None  # Kafka's client takes half an answer for none, too
            yield (
                TopicPartition(topic.topic, partition.partition),
                code_error(partition.error_code)
                or EpochEnd(leader_epoch=epoch if both else None, end_offset=end if both else None),
            )


def _failure(_: TopicPartition, error: PartitionError) -> EpochEnd:
    return EpochEnd(leader_epoch=None, end_offset=None, error=error)
