"""A cluster in memory whose newest records are not on all replicas yet."""

from collections.abc import Mapping

from state.model.entities import TopicPartition
from streaming.cluster_log import OffsetAnswer, Spec
from tests.memory_log import MemoryCluster


class CatchingUp(MemoryCluster):
    """Its replicas have everything by the second question for a largest timestamp."""

    requested = 0

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        self.requested += Spec.MAX_TIMESTAMP in times.values()
        for topic in self.topics.values() if self.requested == 2 else ():
            for log in topic.partitions.values():
                log.end = len(log.records)
        return super().offsets(times, read_committed=read_committed, timeout=timeout)


def hold_back(cluster: MemoryCluster, partition: TopicPartition) -> None:
    """The newest record is on the leader, and some replica in sync lacks it: the end is before it."""
    cluster.partition(*partition).end -= 1
