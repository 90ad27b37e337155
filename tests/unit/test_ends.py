"""Samples of ends: what a cluster held must be tellable after its death, so a sample is whole or none."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from state.model import TopicPartition
from streaming.log import Looked, PartitionError, Spec
from streaming.memory import MemoryCluster
from streaming.spark.ends import EndSampler

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class FallingSilent(MemoryCluster):
    """Answers all but the largest timestamp of one partition."""

    error: PartitionError | None = None

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, Looked]:
        found = dict(super().offsets(times, read_committed=read_committed, timeout=timeout))
        if self.error is not None and times.get(SECOND) == Spec.MAX_TIMESTAMP:
            found[SECOND] = Looked(offset=None, timestamp_ms=None, leader_epoch=None, error=self.error)
        return found


@pytest.fixture
def cluster() -> FallingSilent:
    cluster = FallingSilent()
    cluster.create("t", 2)
    for each in (0, 1):
        cluster.append("t", each, 1_000, b"a")
    return cluster


def test_a_cluster_that_falls_silent_between_two_questions_leaves_the_sample_of_before(cluster: FallingSilent) -> None:
    sampler = EndSampler("east", cluster)
    assert len(sampler.sample([FIRST, SECOND], NOW, timeout=1)) == 2
    cluster.append("t", 0, 2_000, b"b")
    cluster.append("t", 1, 2_000, b"b")
    cluster.error = PartitionError(name="TIMED_OUT", text="the deadline passed", retriable=True)
    (told,) = sampler.sample([FIRST, SECOND], NOW, timeout=1)
    assert (told.partition, told.end, told.newest_timestamp_ms) == (0, 2, 2_000)
    kept = sampler.samples[SECOND]
    assert (kept.end, kept.newest_timestamp_ms) == (1, 1_000), "an end without its time would tell less"


def test_a_broker_that_does_not_know_the_largest_timestamp_still_tells_the_end(cluster: FallingSilent) -> None:
    cluster.error = PartitionError(name="UNSUPPORTED_VERSION", text="the broker does not know it", retriable=False)
    told = EndSampler("east", cluster).sample([FIRST, SECOND], NOW, timeout=1)
    assert [(each.end, each.newest_timestamp_ms) for each in told] == [(1, 1_000), (1, None)]
