"""Segment-level search on a real Kafka 3.9.1, the last release that answers ListOffsets version 0."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from state.model import TopicPartition
from state.settings import Cluster, MethodName
from streaming.kafka.link import Link
from streaming.log import Spec
from streaming.resolver import resolve
from streaming.resume.model import Rules, Want
from tests.broker import running_broker

pytestmark = pytest.mark.real

KEY = TopicPartition("orders", 0)
ROUND = 20
"""Records written at a time; each is larger than a segment."""


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("broker"), kafka="kafka-3.9.1") as address:
        yield address


@pytest.fixture(scope="module")
def rounds(bootstrap: str) -> list[int]:
    """Three rounds of records in segments of two or three; the time after each, in milliseconds."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic("orders", 1, 1, config={"segment.bytes": "1000"})]).values():
        future.result(30)
    producer, after = Producer({"bootstrap.servers": bootstrap, "batch.size": 500, "linger.ms": 0}), []
    for _ in range(3):
        for number in range(ROUND):
            producer.produce("orders", b"%d" % number + b"x" * 400, partition=0)
            assert producer.flush(30) == 0
        time.sleep(1.2)
        after.append(int(time.time() * 1000))
        time.sleep(1.2)
    return after


@pytest.fixture
def link(bootstrap: str) -> Iterator[Link]:
    with Link(Cluster(bootstrap=(bootstrap,)), name="old") as link:
        yield link


def test_segments_come_newest_first_and_minus_one_is_the_latest(link: Link, rounds: list[int]) -> None:
    """-1 is latest and -2 earliest; known cases of Kafka's ``LogOffsetTest``."""

    def found(asked: int, limit: int = 1000) -> tuple[int, ...]:
        answer = link.segments({KEY: asked}, limit=limit, timeout=10)[KEY]
        assert answer.error is None
        return answer.offsets

    end = 3 * ROUND
    everything = found(Spec.LATEST)
    assert everything == tuple(sorted(everything, reverse=True))
    assert (everything[0], everything[-1]) == (end, 0)
    assert len(everything) > ROUND
    assert found(-1, 3) == everything[:3]
    assert (found(-2), found(-2, 5)) == ((0,), (0,))
    assert found(0) == ()
    for number, moment in enumerate(rounds[:2], start=1):
        old = found(moment)
        assert old == everything[-len(old) :]
        assert (number - 1) * ROUND < old[0] < number * ROUND
        assert found(moment, 1) == old[:1]
    assert found(int(time.time() * 1000) + 60_000, 1) == (end,), "even now is not after that time: the end of the log"


def test_a_query_resumes_a_segment_early_and_never_late(link: Link, rounds: list[int]) -> None:
    def resumed(moment: int, method: MethodName) -> int:
        want = Want(
            source="orders", topic="orders", partition=0, target_topic="orders", offset=ROUND, ring=(),
            ring_offset=None, dense=None, begin_known=0, timestamp_ms=moment,
        )  # fmt: skip
        rules = Rules(methods=(method,), buffer_ms=0)
        answer = resolve(link, [want], rules, old_ends={}, now=datetime.now(UTC), timeout=10)
        (target,) = answer.targets
        assert target.target_offset is not None, target.note
        return target.target_offset

    for number, moment in enumerate(rounds, start=1):
        exact, early = resumed(moment, MethodName.TIMESTAMP), resumed(moment, MethodName.SEGMENT)
        assert exact == number * ROUND
        assert exact - ROUND < early < exact


def test_a_leader_epoch_is_asked_for_as_this_broker_understands_it(link: Link, rounds: list[int]) -> None:
    answer = link.epoch_ends({KEY: 0}, timeout=10)[KEY]
    assert (answer.leader_epoch, answer.end_offset, answer.error) == (0, 3 * ROUND, None)


def test_the_broker_has_a_folder_with_as_many_segments_as_it_told(
    link: Link, rounds: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = next(tmp_path_factory.getbasetemp().glob("broker*/data/orders-0"))
    bases = sorted((int(path.stem) for path in folder.glob("*.log")), reverse=True)
    told = link.segments({KEY: Spec.LATEST}, limit=1000, timeout=10)[KEY].offsets
    assert told[1:] == tuple(bases)
