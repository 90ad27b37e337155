"""What a standby lacked of a log with transactions, on real brokers: an open one holds back what others committed."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from orchestrator.decide.move.left_behind import Exposed, LeftPartition
from orchestrator.facts.exposed import count_exposed
from state.model.entities import TopicPartition
from state.model.plan import StandbyPartition
from state.settings.keys import Cluster
from streaming.cluster_log import Spec
from streaming.kafka.link import Link
from streaming.spark.tracking.reading import EndSampler
from tests.real.brokers import Brokers
from tests.topics import make_topic
from tests.waiting import until

pytestmark = pytest.mark.real
TOPIC = "orders"
KEY = StandbyPartition("orders", TOPIC, 0)
PARTITION = TopicPartition(TOPIC, 0)
COPIED = 30


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    with (
        closing(Brokers(tmp_path_factory.mktemp("east"))) as east,
        closing(Brokers(tmp_path_factory.mktemp("west"))) as west,
    ):
        yield east.bootstrap, west.bootstrap


def transaction(bootstrap: str, name: str) -> Producer:
    made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    made.init_transactions()
    made.begin_transaction()
    return made


def write(producer: Producer, *values: str, at_ms: int = 0) -> None:
    for value in values:
        producer.produce(TOPIC, value.encode(), partition=0, timestamp=at_ms)
    assert producer.flush(30) == 0


def count(east: Link, west: Link, *, committed: bool, sampled_end: int | None = None) -> Exposed:
    left = LeftPartition(KEY, TOPIC, 0, COPIED, committed=committed, sampled_end=sampled_end)
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    return count_exposed(east, west, [left], now_ms)[KEY]


def has_open(link: Link) -> bool:
    """Whether a transaction of the topic has no marker yet."""
    stable, end = (
        link.offsets({PARTITION: Spec.LATEST}, read_committed=committed, timeout=60)[PARTITION].offset
        for committed in (True, False)
    )
    return stable != end


def test_records_of_an_open_transaction_are_never_counted_as_none(clusters: tuple[str, str]) -> None:
    """30 records are on both; then one transaction stays open, another commits 5 and one aborts 4, and 3 are plain."""
    began_ms = round(datetime.now(UTC).timestamp() * 1000)
    for bootstrap in clusters:
        make_topic({"bootstrap.servers": bootstrap}, NewTopic(TOPIC, 1, 1))
        write(Producer({"bootstrap.servers": bootstrap}), *(f"both-{n}" for n in range(COPIED)), at_ms=began_ms)
    pin = transaction(clusters[0], "pin")
    write(pin, "held back", at_ms=began_ms)
    for name, count_of, ends in (("commits", 5, "commit"), ("aborts", 4, "abort")):
        other = transaction(clusters[0], name)
        write(other, *(f"{name}-{n}" for n in range(count_of)), at_ms=began_ms)
        other.commit_transaction() if ends == "commit" else other.abort_transaction()
    write(Producer({"bootstrap.servers": clusters[0]}), "a", "b", "c", at_ms=began_ms)
    links = [Link(Cluster(bootstrap=(each,)), name=name) for each, name in zip(clusters, ("east", "west"), strict=True)]
    with links[0] as east, links[1] as west:
        (sample,) = EndSampler("east", east).sample([PARTITION], datetime.now(UTC), timeout=10)
        assert sample.end >= COPIED + 1 + 5 + 4 + 3, (
            "a sample goes to the high watermark, not to the last stable offset"
        )
        held = count(east, west, committed=True)
        assert (held.records, held.at_least, held.first) == (None, 0, COPIED)
        assert held.at_most is not None
        assert held.at_most >= 1 + 5 + 3
        assert count(east, west, committed=False).records == 1 + 5 + 4 + 3, "such a query reads what was aborted, too"
        assert has_open(east)
        pin.abort_transaction()
        until(lambda: not has_open(east), "the abort's marker is written after its answer")
        assert count(east, west, committed=True, sampled_end=sample.end)[:2] == (5 + 3, COPIED)
