"""Offset syncs as a real MirrorMaker 2 writes them, through a crash: never late, and no more repeats than forecast."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from lab.mirror import offset_syncs
from lab.world import TOPIC
from state.model.entities import TopicPartition
from state.settings.keys import Cluster, MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import LogRecord
from streaming.kafka.link import Link
from streaming.resolve.offset_syncs import read_syncs
from streaming.resolve.ranges import read_ranges
from streaming.resolve.resolver import resolve
from streaming.resume.model import Rules, Want
from streaming.resume.offset_syncs import Syncs
from tests.waiting import until
from tests.world import RunningWorld, running_world

pytestmark = [pytest.mark.real, pytest.mark.long]

KEY = TopicPartition(TOPIC, 0)
RULES = Rules(methods=(MethodName.SYNCED,), buffer_ms=0, offset_syncs=offset_syncs("east"))
PARTITIONS = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    with running_world(tmp_path_factory.mktemp("lab"), partitions=PARTITIONS) as up:
        yield up


def whole(link: Link, partition: int) -> tuple[LogRecord, ...]:
    key = TopicPartition(TOPIC, partition)
    end = link.offsets({key: -1}, timeout=60)[key].offset
    assert end is not None
    records = read_ranges(link, {key: (0, end)}, limit=100_000, timeout=60)[key]
    assert records is not None
    return records


def replicated(east: Link, west: Link) -> None:
    """Wait until the standby has a copy of every record."""
    until(
        lambda: all(
            {r.digest for r in whole(east, n)} <= {r.digest for r in whole(west, n)} for n in range(PARTITIONS)
        ),
        "not all is replicated",
    )


def wanted(partition: int, offset: int) -> Want:
    return Want(
        source="orders", topic=TOPIC, partition=partition, target_topic=TOPIC, offset=offset, ring=(), ring_offset=None,
        dense=None, begin_known=None, timestamp_ms=None,
    )  # fmt: skip


def test_a_place_by_the_syncs_of_a_real_replicator_is_never_late(world: RunningWorld) -> None:
    """Not before and not after the replicator was killed and has sent again what it had not written down."""
    with (
        Link(Cluster(bootstrap=(world.bootstrap("east"),))) as east,
        Link(Cluster(bootstrap=(world.bootstrap("west"),))) as west,
    ):
        for restart in (False, True):
            if restart:
                world.lab("kill", "replicator")
                world.lab("start", "replicator")
            world.traffic(rate=300, seconds=2)
            replicated(east, west)
            time.sleep(10)  # the last syncs are written with the worker's next commit
            unanswered = [note for partition in range(PARTITIONS) for note in place_judged(east, west, partition)]
            assert len(unanswered) <= 10 * PARTITIONS, Counter(unanswered)
        known = read_syncs(west, offset_syncs("east"), Deadline.after(10))
        assert not isinstance(known, str)
        assert isinstance(known[KEY], Syncs)
        assert len(known[KEY].front) > 3


def place_judged(east: Link, west: Link, partition: int) -> list[str]:
    """Hold 40 places of random positions against the records of both sides; why some were not answered."""
    old, here = whole(east, partition), whole(west, partition)
    numbers = {record.digest: record.offset for record in old}
    copies = [(record.offset, numbers[record.digest]) for record in here if record.digest in numbers]
    unanswered: list[str] = []
    for offset in random.sample(range(old[-1].offset + 2), 40):
        wants = [wanted(number, offset if number == partition else 0) for number in range(PARTITIONS)]
        resolution = resolve(west, wants, RULES, old_ends={}, now=datetime.now(UTC), timeout=60)
        target = next(each for each in resolution.targets if each.target_partition == partition)
        if target.target_offset is None:
            unanswered.append(target.note)
            continue
        after = {number for at, number in copies if at >= target.target_offset}
        assert {number for _, number in copies if number >= offset} <= after, target
        repeated = len({number for at, number in copies if number < offset and at >= target.target_offset})
        assert target.replay_records is not None
        assert repeated <= target.replay_records, target
    return unanswered
