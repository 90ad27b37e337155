"""A log that is really cut: three brokers, an unclean leader election, and what a remembered position says then."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from lab.delivery import Delivery
from orchestrator.facts.gather import FactGatherer
from orchestrator.facts.preflight import plan_query
from state.model.entities import OperationKind, Position, TopicPartition
from state.settings.keys import Cluster
from streaming.cluster_log import ClusterLog, Spec
from streaming.kafka.link import Link
from streaming.last_records import read_last_records
from streaming.resolve.comparison import validate
from streaming.resume.truncation import Finding, Standing, truncation_of
from tests.real.brokers import Brokers
from tests.simulation.world import World, settings
from tests.topics import make_topic
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.long]

KEY = TopicPartition("orders", 0)


def produce(cluster: Brokers, first: int, count: int, *, acks: str) -> None:
    producer = Delivery({"bootstrap.servers": cluster.bootstrap, "acks": acks})
    for number in range(first, first + count):
        producer.produce("orders", b"%d" % number, partition=0)
    producer.confirm()


def test_records_lost_by_an_unclean_election_are_found_in_a_longer_log(
    tmp_path: Path,
) -> None:
    cluster = Brokers(tmp_path)  # broker 1 keeps no replica of the topic; 2 and 3 hold it
    try:
        cluster.start(2)
        cluster.start(3)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        topic = NewTopic("orders", replica_assignment=[[2, 3]], num_partitions=1, config=config)
        until(lambda: {2, 3} <= set(admin.list_topics(timeout=60).brokers), "brokers 2 and 3 are not there")
        make_topic({"bootstrap.servers": cluster.bootstrap}, topic)
        with Link(Cluster(bootstrap=(cluster.bootstrap,)), name="east") as link:

            def leader() -> int | None:
                return link.describe(["orders"], timeout=60)["orders"].partitions[0].leader

            produce(cluster, 0, 100, acks="all")
            cluster.kill(3)
            until(lambda: link.describe(["orders"], timeout=60)["orders"].partitions[0].in_sync == (2,), "ISR")
            produce(cluster, 100, 100, acks="1")
            position = remembered(link, 200)
            assert judged(link, position).finding is Finding.INTACT

            cluster.kill(2)
            until(lambda: leader() is None, "the topic still has a leader")
            cluster.start(3)
            until(lambda: leader() == 3, "nobody was elected")
            standing = judged(link, position)
            assert (standing.finding, standing.divergence) == (Finding.TRUNCATED, 100)

            produce(cluster, 1000, 150, acks="1")
            assert link.offsets({KEY: Spec.LATEST}, timeout=60)[KEY].offset == 250
            standing = judged(link, position)
            assert (standing.finding, standing.divergence) == (Finding.TRUNCATED, 100)
            error = truncation_of("east", [standing])
            assert error is not None
            assert str(error) == "log truncation on east: orders-0 (read to 200, diverges at 100)"
            assert judged(link, remembered(link, 250)).finding is Finding.INTACT

            plan = planned(link, position)
            (row,) = plan["log_truncation"]
            assert (row["offset"], row["divergent_offset"], row["resumes_at"]) == (200, 100, "truncation offset")
            (row,) = plan["partitions"]
            assert (row["offset"], row["target_offset"], row["method"]) == (200, 100, "exact")
    finally:
        cluster.close()


def remembered(link: Link, offset: int) -> Position:
    """The position of a reader that has come so far, as a tracker keeps it."""
    tail = read_last_records(link, {KEY: offset}, count=32, timeout=60)[KEY]
    assert (tail.error, tail.leader_epoch is None) == (None, False)
    return Position(
        query="revenue", epoch=1, cluster="east", source="orders", topic="orders", partition=0, batch=7,
        offset=offset, timestamp_ms=None, leader_epoch=tail.leader_epoch,
        topic_id=link.describe(["orders"], timeout=60)["orders"].topic_id, ring=tail.records, dense=None,
        tracked_at=datetime.now(UTC),
    )  # fmt: skip


def planned(link: Link, position: Position) -> Any:
    """A switchover to a standby in memory that holds what the old log shares with the one that was read."""
    world = World(settings(groups={"policy": {"on_no_match": "closest"}}), partitions=1)
    west = world.clusters["west"]
    west.create("orders", 1)
    for record in read_last_records(link, {KEY: 100}, count=256, timeout=60)[KEY].records:
        west.append("orders", 0, record.timestamp_ms, record.digest)
    world.checkpoints["/cp/revenue"].offsets = {"orders": {"orders": {"0": position.offset}}}
    world.runner.live()
    world.store.save_positions([position])
    logs: dict[str, ClusterLog] = {"east": link, "west": west}
    gatherer = FactGatherer(store=world.store, settings=world.settings, logs=logs.__getitem__, clock=world.clock)
    return plan_query(gatherer, OperationKind.SWITCHOVER, position.query, "west").as_json()


def judged(link: Link, position: Position) -> Standing:
    (standing,) = validate(link, [position], timeout=60)
    return standing
