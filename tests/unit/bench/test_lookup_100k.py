"""The bench's fake brokers answer both clients by the protocol, and wrong answers would be counted."""

import pytest

from bench import lookup_100k
from bench.errors import BenchError
from bench.fake_brokers import BASE_MS, STEP_MS, fake_brokers, offset_at, topic_name
from bench.librdkafka_lookup import TheirLookup
from bench.link_lookup import OurLookup
from bench.timings import Timings
from state.model.entities import TopicPartition

PARTITIONS = [TopicPartition(topic_name(topic), number) for topic in range(2) for number in range(7)]


def test_both_clients_get_the_offset_of_each_partition_from_its_leader() -> None:
    requested = BASE_MS + 100 * STEP_MS + 1
    expected = {each: 101 + each.partition for each in PARTITIONS}
    with fake_brokers(brokers=3, topics=2, partitions=7) as bootstrap:
        ours, theirs = OurLookup(bootstrap), TheirLookup(bootstrap)
        try:
            assert ours.request(PARTITIONS, requested) == expected
            assert theirs.request(PARTITIONS, requested) == expected
        finally:
            ours.close()
            theirs.close()


def test_a_wrong_answer_of_ours_ends_the_measurement() -> None:
    right = {each: offset_at(each.partition, lookup_100k.LOOKUP_MS) for each in lookup_100k.partitions()}
    assert lookup_100k.count_wrong(right) == 0
    timings = Timings(lookup_100k.count_wrong)
    timings.take("ours warm", lambda: right | {lookup_100k.partitions()[5]: 7})
    with pytest.raises(BenchError, match="'ours warm': 1"):
        timings.require_ours()
