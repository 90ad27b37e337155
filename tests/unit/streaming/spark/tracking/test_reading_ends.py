"""Samples of ends: what a cluster held must be tellable after its death, so a sample is whole or none."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from state.model.entities import TopicPartition
from streaming.cluster_log import OffsetAnswer, PartitionError, Spec
from streaming.spark.tracking.reading import EndSampler
from tests.memory_log import MemoryCluster
from tests.replicas import CatchingUp, hold_back

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class FallingSilent(MemoryCluster):
    """Answers all but the largest timestamp of one partition."""

    error: PartitionError | None = None

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        found = dict(super().offsets(times, read_committed=read_committed, timeout=timeout))
        if self.error is not None and times.get(SECOND) == Spec.MAX_TIMESTAMP:
            found[SECOND] = OffsetAnswer(offset=None, timestamp_ms=None, leader_epoch=None, error=self.error)
        return found


@pytest.fixture
def cluster() -> FallingSilent:
    cluster = FallingSilent()
    cluster.create("t", 2)
    for each in (0, 1):
        cluster.append("t", each, 1_000, b"a")
    return cluster


def test_a_cluster_that_falls_silent_midway_keeps_its_earlier_sample(cluster: FallingSilent) -> None:
    sampler = EndSampler("east", cluster)
    assert len(sampler.sample([FIRST, SECOND], NOW, timeout=1)) == 2
    cluster.append("t", 0, 2_000, b"b")
    cluster.append("t", 1, 2_000, b"b")
    cluster.error = PartitionError(name="TIMED_OUT", text="the deadline passed", retriable=True)
    (samples,) = sampler.sample([FIRST, SECOND], NOW, timeout=1)
    assert (samples.partition, samples.end, samples.newest_timestamp_ms) == (0, 2, 2_000)
    kept = sampler.samples[SECOND]
    assert (kept.end, kept.newest_timestamp_ms) == (1, 1_000), "an end without its time would tell less"


def test_a_broker_without_max_timestamp_still_gives_the_end(cluster: FallingSilent) -> None:
    cluster.error = PartitionError(name="UNSUPPORTED_VERSION", text="the broker does not know it", retriable=False)
    samples = EndSampler("east", cluster).sample([FIRST, SECOND], NOW, timeout=1)
    assert [(each.end, each.newest_timestamp_ms) for each in samples] == [(1, 1_000), (1, None)]


def append_unreplicated(cluster: MemoryCluster, timestamp_ms: int) -> None:
    """A record that the leader has and some replica in sync has not: the end stays before it."""
    cluster.append("t", 1, timestamp_ms, b"ahead")
    hold_back(cluster, SECOND)


def test_an_end_held_below_the_leaders_keeps_its_newest_time(
    cluster: FallingSilent,
) -> None:
    sampler = EndSampler("east", cluster)
    sampler.sample([FIRST, SECOND], NOW, timeout=1)
    append_unreplicated(cluster, 2_000)
    later = NOW + timedelta(seconds=30)
    samples = {each.partition: each for each in sampler.sample([FIRST, SECOND], later, timeout=1)}
    assert (samples[1].end, samples[1].newest_timestamp_ms, samples[1].sampled_at) == (1, 1_000, later)


def test_an_end_that_moved_below_the_leaders_waits_briefly_for_its_time(
    cluster: FallingSilent,
) -> None:
    sampler = EndSampler("east", cluster)
    sampler.sample([FIRST, SECOND], NOW, timeout=1)
    cluster.append("t", 1, 2_000, b"b")
    append_unreplicated(cluster, 3_000)
    samples = sampler.sample([FIRST, SECOND], NOW + timedelta(seconds=10), timeout=1)
    assert [each.partition for each in samples] == [0]
    assert (sampler.samples[SECOND].end, sampler.samples[SECOND].newest_timestamp_ms) == (1, 1_000)
    samples = sampler.sample([FIRST, SECOND], NOW + timedelta(seconds=10.1), timeout=1)
    assert [(each.end, each.newest_timestamp_ms) for each in samples] == [(1, 1_000), (2, None)]


def test_a_newest_record_replicated_a_moment_later_is_read_again() -> None:
    cluster = CatchingUp()
    cluster.create("t", 2)
    cluster.append("t", 1, 1_000, b"a")
    append_unreplicated(cluster, 2_000)
    (samples,) = EndSampler("east", cluster).sample([SECOND], NOW, timeout=1)
    assert samples.newest_timestamp_ms == 2_000


def test_a_log_that_was_emptied_has_no_newest_time(cluster: FallingSilent) -> None:
    sampler = EndSampler("east", cluster)
    for _ in range(30):  # after so many the begins are read again
        sampler.sample([SECOND], NOW, timeout=1)
    log = cluster.topics["t"].partitions[1]
    log.begin = log.end
    log.records.clear()
    (samples,) = sampler.sample([SECOND], NOW, timeout=1)
    assert (samples.begin, samples.end, samples.newest_timestamp_ms) == (1, 1, None)


class Growing(MemoryCluster):
    """Gets a record between the question for its end and the one for its newest time."""

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout: float
    ) -> Mapping[TopicPartition, OffsetAnswer]:
        if times.get(FIRST) == Spec.MAX_TIMESTAMP:
            self.append("t", 0, 2_000, b"b")
        return super().offsets(times, read_committed=read_committed, timeout=timeout)


def test_a_record_that_comes_between_the_questions_lies_before_the_end() -> None:
    cluster = Growing()
    cluster.create("t", 1)
    cluster.append("t", 0, 1_000, b"a")
    (samples,) = EndSampler("east", cluster).sample([FIRST], NOW, timeout=1)
    assert (samples.end, samples.newest_timestamp_ms) == (2, 2_000)
