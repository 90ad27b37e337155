"""Which topics a replicator that was turned round is told of: it would copy another one from its beginning."""

import pytest

from lab.turn import may_be_copied


@pytest.mark.parametrize("topic", ["orders", "copies.internal", "east.orders", "internal", "mm2-like"])
def test_a_topic_of_users_is_copied_whatever_its_name_is(topic: str) -> None:
    assert may_be_copied(topic)


@pytest.mark.parametrize(
    "topic",
    [
        "mm2-offsets.east.internal",
        "mm2-offset-syncs.west.internal",
        "east.checkpoints.internal",
        "heartbeats",
        "east.heartbeats",
        "orders.replica",
        "__consumer_offsets",
    ],
)
def test_topics_of_the_replicator_and_the_brokers_are_left_out(topic: str) -> None:
    assert not may_be_copied(topic)
