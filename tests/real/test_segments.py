"""Segment-level search on a real Kafka 3.9.1, the last release that answers ListOffsets version 0."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from lab.delivery import Delivery
from state.model.entities import TopicPartition
from state.settings.keys import Cluster, MethodName
from streaming.cluster_log import Spec
from streaming.kafka.link import Link
from streaming.resolve.resolver import resolve
from streaming.resume.model import Rules, Want
from tests.broker import running_broker
from tests.fakecluster import SEGMENT_RECORDS
from tests.real.standbys import EACH, T0_MS, Side, Stage
from tests.segments import RECORDS, over_segments, written_at
from tests.topics import make_topic

pytestmark = pytest.mark.real

KEY = TopicPartition("orders", 0)
ROUND = 20
"""Records written at a time; each is larger than a segment."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def bootstrap(folder: Path) -> Iterator[str]:
    with running_broker(folder, kafka="kafka-3.9.1") as address:
        yield address


@pytest.fixture(scope="module")
def rounds(bootstrap: str) -> list[int]:
    """Three rounds of records in segments of two or three; the time after each, in milliseconds."""
    make_topic({"bootstrap.servers": bootstrap}, NewTopic("orders", 1, 1, config={"segment.bytes": "1000"}))
    producer, after = Delivery({"bootstrap.servers": bootstrap, "batch.size": 500, "linger.ms": 0}), []
    for _ in range(3):
        for number in range(ROUND):
            producer.produce("orders", b"%d" % number + b"x" * 400, partition=0)
            producer.confirm()
        time.sleep(1.2)
        after.append(int(time.time() * 1000))
        time.sleep(1.2)
    return after


def files(folder: Path, topic: str) -> dict[int, Path]:
    """The segments of partition 0 by base offset, in order."""
    return {int(path.stem): path for path in sorted((folder / "data" / f"{topic}-0").glob("*.log"))}


def backdate(path: Path, time_ms: int) -> None:
    """Let a segment's file be last written then: the broker queries the file system at each request."""
    os.utime(path, ns=(time_ms * 1_000_000,) * 2)


@pytest.fixture(scope="module")
def tabled(folder: Path, bootstrap: str) -> TopicPartition:
    """The log of the table: a batch fills a segment."""
    make_topic({"bootstrap.servers": bootstrap}, NewTopic("tabled", 1, 1, config={"segment.bytes": "43000"}))
    producer = Delivery({"bootstrap.servers": bootstrap, "linger.ms": 60_000})
    for base in range(0, RECORDS, SEGMENT_RECORDS):
        for offset in range(base, base + SEGMENT_RECORDS):
            producer.produce("tabled", b"x" * 400, partition=0, timestamp=written_at(offset))
        producer.confirm()
    segments = files(folder, "tabled")
    assert list(segments) == list(range(0, RECORDS, SEGMENT_RECORDS))
    for base, path in segments.items():
        backdate(path, written_at(base + SEGMENT_RECORDS - 1))
    return TopicPartition("tabled", 0)


@over_segments
def test_segments_are_named_as_the_table_says(
    link: Link, tabled: TopicPartition, requested: int, limit: int, offsets: tuple[int, ...]
) -> None:
    answer = link.segments({tabled: requested}, limit=limit, timeout=60)[tabled]
    assert (answer.offsets, answer.error) == (offsets, None)


@pytest.fixture
def link(bootstrap: str) -> Iterator[Link]:
    with Link(Cluster(bootstrap=(bootstrap,)), name="old") as link:
        yield link


def test_segments_come_newest_first_and_minus_one_is_the_latest(link: Link, rounds: list[int]) -> None:
    """-1 is latest and -2 earliest; known cases of Kafka's ``LogOffsetTest``."""

    def found(requested: int, limit: int = 1000) -> tuple[int, ...]:
        answer = link.segments({KEY: requested}, limit=limit, timeout=60)[KEY]
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
        answer = resolve(link, [want], rules, old_ends={}, now=datetime.now(UTC), timeout=60)
        (target,) = answer.targets
        assert target.target_offset is not None, target.note
        return target.target_offset

    for number, moment in enumerate(rounds, start=1):
        exact, early = resumed(moment, MethodName.TIMESTAMP), resumed(moment, MethodName.SEGMENT)
        assert exact == number * ROUND
        assert exact - ROUND < early < exact


def test_a_leader_epoch_is_requested_as_this_broker_understands_it(link: Link, rounds: list[int]) -> None:
    answer = link.epoch_ends({KEY: 0}, timeout=60)[KEY]
    assert (answer.leader_epoch, answer.end_offset, answer.error) == (0, 3 * ROUND, None)


def test_the_broker_has_as_many_segments_on_disk_as_it_reported(link: Link, rounds: list[int], folder: Path) -> None:
    reported = link.segments({KEY: Spec.LATEST}, limit=1000, timeout=60)[KEY].offsets
    assert reported[1:] == tuple(reversed(files(folder, "orders")))


def test_plan_and_lookup_name_the_segment_a_buffer_before_the_position(
    folder: Path, bootstrap: str, tmp_path: Path
) -> None:
    """Offset ``n`` holds record ``n - 3``, of second ``n - 3``; the last one read is of second 29, the buffer 10 s."""
    with running_broker(tmp_path / "east") as east:
        stage = Stage(tmp_path, Side(east), Side(bootstrap))
        stage.east.make("filed", 1, range(EACH))
        config: Any = {"segment.bytes": "200"}
        stage.west.make("filed", 1, **config)
        for number in range(-3, EACH):
            stage.west.write("filed", [(0, number)])  # a batch of its own, of which two fill a segment
        stage.query("filed", "west", "filed", methods=["segment"])
        stage.track()
    segments = files(folder, "filed")
    assert list(segments) == list(range(0, EACH + 3, 2))
    for base, path in segments.items():
        backdate(path, T0_MS + (base + 1 - 3) * 1000)
    plan = stage.plan("filed")
    ((place, method, _),) = plan.places["filed"]
    assert (place, method, plan.refusals) == (20, "segment", {})
    look = ("offsets", "--cluster", "west", "--topic", "filed", "--segments")
    code, rows = stage.say(*look, "--before", str(T0_MS + 19_000), "--limit", "3")
    assert (code, [(row["offsets"], row["error"]) for row in rows]) == (0, [([20, 18, 16], None)])
    code, rows = stage.say(*look)
    assert (code, [row["offsets"] for row in rows]) == (0, [[EACH + 3, *range(EACH + 2, EACH - 16, -2)]])
    stage.store.close()
