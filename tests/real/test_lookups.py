"""Known cases of Kafka's own look-up tests, tried on real brokers of two versions; the table is ``tests.lookups``."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition as TheirPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab.delivery import Delivery
from state.settings.keys import Cluster
from streaming.kafka.link import Link
from tests.lookups import CASES, Case, Commit, Delete, Elect, Write, follow
from tests.real.brokers import Brokers
from tests.topics import make_topic
from tests.waiting import until

pytestmark = pytest.mark.real


@pytest.fixture(scope="module", params=["kafka-4.3.1", pytest.param("kafka-3.9.1", marks=pytest.mark.long)])
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Broker 1, which is the controller; broker 2 is started by the case in which another one shall lead after it."""
    made = Brokers(tmp_path_factory.mktemp(request.param), kafka=request.param)
    try:
        yield made
    finally:
        made.close()


class BrokerWriter:
    """Writes to one topic of real brokers."""

    def __init__(self, brokers: Brokers, case: Case) -> None:
        self._brokers = brokers
        self._case = case
        self._admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        self._open: dict[str, Delivery] = {}
        config = {key: value for key, value in case.config.items() if key != "producer"}
        if case.elects:
            brokers.start(2)
            until(lambda: {1, 2} <= set(self._admin.list_topics(timeout=60).brokers), "broker 2 is not there")
        replicas = [[2, 1] if case.elects else [1]] * case.partitions
        topic = NewTopic(case.name, num_partitions=case.partitions, replica_assignment=replicas, config=config)
        make_topic({"bootstrap.servers": brokers.bootstrap}, topic)

    def take(self, step: Write | Commit | Delete | Elect) -> None:
        match step:
            case Write(times, together, by):
                self._write(self._producer(by), times, together=together)
            case Commit(by):
                self._open.pop(by).commit_transaction(60)
            case Delete(before):
                wanted = [TheirPartition(self._case.name, n, before) for n in range(self._case.partitions)]
                for future in self._admin.delete_records(wanted).values():
                    future.result(120)
            case Elect():
                self._brokers.kill(2)

    def _producer(self, by: str) -> Delivery:
        if by in self._open:
            return self._open[by]
        codec = self._case.config.get("producer", "none")
        common = {"bootstrap.servers": self._brokers.bootstrap, "linger.ms": 300, "compression.type": codec}
        if not by:
            return Delivery({**common, "acks": "all"})
        producer = self._open[by] = Delivery({**common, "transactional.id": f"{self._case.name}-{by}"})
        producer.init_transactions(60)
        producer.begin_transaction()
        return producer

    def _write(self, producer: Delivery, times: tuple[int, ...], *, together: bool) -> None:
        for time_ms in times:
            for partition in range(self._case.partitions):
                producer.produce(self._case.name, b"x" * 10, partition=partition, timestamp=time_ms)
            if not together:
                producer.confirm()
                time.sleep(0.003)  # two batches are not stamped with the same millisecond
        producer.confirm()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_real_brokers_answer_as_kafkas_own_tests_expect(brokers: Brokers, case: Case) -> None:
    with Link(Cluster(bootstrap=(brokers.bootstrap,)), name="east") as link:
        follow(case, link, BrokerWriter(brokers, case), patience=120)
