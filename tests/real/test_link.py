"""The link against a real broker, cross-checked with another client's answers."""

import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TopicPartition as TheirPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from lab.delivery import Delivery
from state.model.entities import Fingerprint, Position, TopicPartition
from state.model.fingerprints import back
from state.settings.keys import Cluster, MethodName
from streaming.clocks import Deadline
from streaming.cluster_log import Fetched, Spec
from streaming.kafka.link import Link
from streaming.kafka.requests.list_offsets import partition_request
from streaming.kafka.requests.records import digest
from streaming.last_records import read_last_records
from streaming.probe.self_questions import check_answers
from streaming.resolve.batched_lookups import request_offsets
from streaming.resolve.comparison import replication_ages, validate
from streaming.resolve.resolver import resolve
from streaming.resume.age import ReplicationAge
from streaming.resume.model import Rules, Want
from streaming.resume.truncation import Finding
from tests.broker import running_broker
from tests.topics import make_topic
from tests.waiting import PROCESS_SECONDS, until

pytestmark = pytest.mark.real

BASE_MS = 1_763_000_000_000
NOW_MS = BASE_MS + 10_000


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def link(bootstrap: str) -> Iterator[Link]:
    with Link(Cluster(bootstrap=(bootstrap,)), name="east") as link:
        yield link


def create(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    make_topic({"bootstrap.servers": bootstrap}, NewTopic(topic, partitions, 1, config=config))


def produce(bootstrap: str, topic: str, records: list[tuple[bytes | None, bytes | None, int]], **config: Any) -> None:
    producer = Delivery({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, **config})
    for key, value, timestamp in records:
        producer.produce(topic, key=key, value=value, timestamp=timestamp, partition=0, headers={"h": b"1"})
    producer.confirm()


def numbered(count: int, size: int = 20) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(b"k%d" % i, b"%d" % i + b"x" * size, BASE_MS + i * 1000) for i in range(count)]


def read_all(link: Link, topic: str, *, read_committed: bool = False, size: int = 1 << 20) -> list[Fetched]:
    """Every answer from the begin of partition 0 to its high watermark."""
    answers, offset = [], 0
    for _ in range(10_000):
        answer = link.fetch({TopicPartition(topic, 0): (offset, size)}, read_committed=read_committed, timeout=60)
        fetched = answer[TopicPartition(topic, 0)]
        assert fetched.error is None
        answers.append(fetched)
        if fetched.next_offset == fetched.high_watermark:
            return answers
        size = max(size, fetched.needs_bytes)
        offset = fetched.next_offset
    raise AssertionError("the log has no end")


def test_a_topic_is_read_with_keys_and_values(link: Link, bootstrap: str) -> None:
    create(bootstrap, "whole")
    sent = [(b"k", b"v"), (None, b"2:x"), (b"", None), (None, None), (b"3:+", b"-"), (b"k" * 300, b"")]
    produce(bootstrap, "whole", [(*pair, BASE_MS) for pair in sent], **{"compression.type": "gzip"})
    key = TopicPartition("whole", 0)
    read = link.entries(key, (0, 1 << 20), timeout=60)
    assert [(entry.offset, entry.key, entry.value) for entry in read.records] == [(i, *p) for i, p in enumerate(sent)]
    assert (read.next_offset, read.error) == (len(sent), None)
    assert [entry.offset for entry in link.entries(key, (4, 1 << 20), timeout=60).records] == [4, 5]
    missing = link.entries(TopicPartition("nowhere", 0), (0, 1 << 20), timeout=60)
    assert missing.error is not None
    assert missing.error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_times_begin_end_and_largest_time_agree_with_another_client(
    link: Link, admin: AdminClient, bootstrap: str
) -> None:
    topic, source = "times", random.Random(3)
    create(bootstrap, topic)
    produce(bootstrap, topic, [(None, b"%d" % i, BASE_MS + source.randrange(100_000)) for i in range(2000)])
    partition, theirs = TopicPartition(topic, 0), TheirPartition(topic, 0)
    requested = [BASE_MS - 1, BASE_MS, *(BASE_MS + source.randrange(100_000) for _ in range(20)), BASE_MS + 100_001]
    for time_ms in requested:
        their = admin.list_offsets({theirs: OffsetSpec.for_timestamp(time_ms)})[theirs].result(120)
        ours = link.offsets({partition: time_ms}, timeout=60)[partition]
        assert ours.error is None
        assert (ours.offset, ours.timestamp_ms) == (
            (their.offset, their.timestamp) if their.offset >= 0 else (None, None)
        )
    for spec, their_spec in (
        (Spec.EARLIEST, OffsetSpec.earliest()),
        (Spec.LATEST, OffsetSpec.latest()),
        (Spec.MAX_TIMESTAMP, OffsetSpec.max_timestamp()),
    ):
        their = admin.list_offsets({theirs: their_spec})[theirs].result(120)
        ours = link.offsets({partition: spec}, timeout=60)[partition]
        assert ours.offset == their.offset
        assert ours.timestamp_ms == (their.timestamp if their.timestamp >= 0 else None)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_real_broker_contradicts_itself_nowhere(link: Link, bootstrap: str, kind: str) -> None:
    """Records out of order in time, wherever in the log one of them is looked up."""
    topic, source = f"honest-{kind}".lower(), random.Random(7)
    create(bootstrap, topic, 1, **{"message.timestamp.type": kind})
    produce(bootstrap, topic, [(b"%d" % i, b"%d" % i, BASE_MS + source.randrange(100_000)) for i in range(600)])
    for turn in range(5):
        found = check_answers(lambda _: link, "east", [topic], turn=turn, at=datetime.now(UTC))
        assert (found.contradictions, found.error, found.partitions) == ((), "", 1), turn


def test_a_partition_requested_twice_is_answered_twice(link: Link, bootstrap: str) -> None:
    """``INVALID_REQUEST`` (42) is what the separate requests avoid (KIP-79)."""
    create(bootstrap, "twice")
    produce(bootstrap, "twice", numbered(5))
    key = TopicPartition("twice", 0)
    once = partition_request({key: BASE_MS}, read_committed=False)
    refused = link._now.partitions.exchange(
        replace(once, chunks=lambda requested: [requested * 2]), [key], Deadline.after(10)
    )[key]
    assert refused.error is not None
    assert (refused.error.name, refused.offset) == ("INVALID_REQUEST", None)
    times = (BASE_MS, BASE_MS + 3_000)
    answers = request_offsets(link, [(key, time_ms) for time_ms in times], Deadline.after(10))
    assert [(answers[key, time_ms].offset, answers[key, time_ms].error) for time_ms in times] == [(0, None), (3, None)]


def test_the_age_of_a_copy_comes_from_the_largest_time_of_each_side(link: Link, bootstrap: str) -> None:
    """KIP-734, with the record of the largest time not the last; one log stands for each side."""
    times = {"aged": (0, 9_000, 4_000, 7_000), "aged-copy": (0, 4_000), "aged-empty": ()}
    for topic, seconds in times.items():
        create(bootstrap, topic)
        produce(bootstrap, topic, [(None, b"%d" % each, BASE_MS + each) for each in seconds])
    key, empty = TopicPartition("aged", 0), TopicPartition("aged-empty", 0)
    copy = TopicPartition("aged-copy", 0)
    behind = replication_ages(link, link, {key: copy}, Deadline.after(10), now_ms=NOW_MS)[key]
    assert behind == ReplicationAge(BASE_MS + 9_000, BASE_MS + 4_000, seconds=5.0, records=3)
    assert replication_ages(link, link, {key: empty}, Deadline.after(10), now_ms=NOW_MS)[key].records == 4
    assert replication_ages(link, link, {empty: key}, Deadline.after(10), now_ms=NOW_MS)[empty].seconds == 0.0
    nowhere = replication_ages(link, link, {key: TopicPartition("nowhere", 0)}, Deadline.after(10), now_ms=NOW_MS)[key]
    assert nowhere.error is not None
    assert (nowhere.seconds, nowhere.by_standby, nowhere.error.name) == (None, True, "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_buffer_as_large_as_the_disorder_skips_no_unread_record(link: Link, bootstrap: str) -> None:
    chance = random.Random()
    seed = chance.randrange(1 << 32)
    chance.seed(seed)
    create(bootstrap, "shuffled")
    records = [(i, BASE_MS + i * 100 - chance.randrange(3_000)) for i in range(400)]
    here = chance.sample(records, len(records))
    produce(bootstrap, "shuffled", [(None, b"%d" % number, time_ms) for number, time_ms in here])
    disorder = back((time_ms for _, time_ms in records), BASE_MS * 2)
    for read in chance.sample(range(1, 400), 20):
        want = Want(
            source="s", topic="shuffled", partition=0, target_topic="shuffled", offset=read, ring=(), ring_offset=None,
            dense=None, begin_known=0, timestamp_ms=max(time_ms for _, time_ms in records[:read]), buffer_ms=disorder,
        )  # fmt: skip
        rules = Rules(methods=(MethodName.TIMESTAMP,), buffer_ms=0)
        found = resolve(link, [want], rules, old_ends={}, now=datetime.now(UTC), timeout=60)
        (target,) = found.targets
        assert (target.method, target.buffer_ms) == ("timestamp", disorder)
        assert target.target_offset is not None
        assert all(number < read for number, _ in here[: target.target_offset]), f"seed {seed}, read {read}"


def test_a_missing_topic_is_reported_and_not_created(link: Link, admin: AdminClient) -> None:
    missing = TopicPartition("never-made", 0)
    assert link.describe(["never-made"], timeout=60)["never-made"].error is not None
    looked = link.offsets({missing: Spec.LATEST}, timeout=60)[missing]
    assert looked.error is not None
    assert looked.error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    fetched = link.fetch({missing: (0, 1000)}, timeout=60)[missing]
    assert fetched.error is not None
    assert "never-made" not in admin.list_topics(timeout=60).topics


def test_a_topic_is_described_with_its_id_and_settings(link: Link, bootstrap: str) -> None:
    create(bootstrap, "described", 3, **{"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"})
    facts = link.describe(["described"], timeout=60)["described"]
    assert facts.topic_id is not None
    assert (facts.timestamp_type, facts.cleanup_policy) == ("LogAppendTime", "compact")
    assert sorted(facts.partitions) == [0, 1, 2]
    assert {partition.leader for partition in facts.partitions.values()} == {1}


def test_a_recreated_topic_has_another_id_and_lost_its_old_records(
    link: Link, admin: AdminClient, bootstrap: str
) -> None:
    """Also when the new log has grown past the position, and its leader epoch is the old one's."""
    create(bootstrap, "recreated")
    produce(bootstrap, "recreated", numbered(5))
    before = link.describe(["recreated"], timeout=60)["recreated"]
    position = Position(
        query="q", epoch=1, cluster="east", source="s", topic="recreated", partition=0, batch=1, offset=5,
        timestamp_ms=BASE_MS + 4_000, leader_epoch=before.partitions[0].leader_epoch, topic_id=before.topic_id, ring=(),
        dense=None, tracked_at=datetime.now(UTC),
    )  # fmt: skip
    (standing,) = validate(link, [position], timeout=60)
    assert (standing.finding, standing.divergence) == (Finding.INTACT, None)
    for future in admin.delete_topics(["recreated"]).values():
        future.result(120)
    until(lambda: link.describe(["recreated"], timeout=60)["recreated"].error is not None, "it is still there")
    create(bootstrap, "recreated", 2)
    keys = [TopicPartition("recreated", number) for number in range(2)]
    until(
        lambda: all(each.error is None for each in link.offsets(dict.fromkeys(keys, Spec.LATEST), timeout=60).values()),
        "its new leaders are not found",
    )
    produce(bootstrap, "recreated", numbered(8))
    after = link.describe(["recreated"], timeout=60)["recreated"]
    assert after.topic_id != before.topic_id
    assert after.partitions[0].leader_epoch == position.leader_epoch
    (standing,) = validate(link, [position], timeout=60)
    assert (standing.finding, standing.divergence) == (Finding.RECREATED, 0)
    assert str(after.topic_id) in standing.note


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_read_whatever_their_compression(link: Link, bootstrap: str, compression: str) -> None:
    topic = f"compressed-{compression}"
    create(bootstrap, topic)
    records = [*numbered(500, size=200), (None, None, BASE_MS + 500_000), (b"", b"", BASE_MS + 501_000)]
    produce(bootstrap, topic, records, **{"compression.type": compression})
    answers = read_all(link, topic, size=20_000)
    assert [(record.offset, record.timestamp_ms, record.digest) for answer in answers for record in answer.records] == [
        (offset, timestamp, digest(key, value)) for offset, (key, value, timestamp) in enumerate(records)
    ]


def test_append_time_is_reported_as_such(link: Link, bootstrap: str) -> None:
    config: Any = {"message.timestamp.type": "LogAppendTime"}
    create(bootstrap, "appended", **config)
    produce(bootstrap, "appended", numbered(3))
    records = [record for answer in read_all(link, "appended") for record in answer.records]
    assert all(record.append_time and record.timestamp_ms > BASE_MS + 1_000_000 for record in records)


def test_a_batch_larger_than_requested_says_what_it_needs(link: Link, bootstrap: str) -> None:
    create(bootstrap, "large", 2, **{"max.message.bytes": "2000000"})
    produce(bootstrap, "large", [(None, random.Random(1).randbytes(900_000), BASE_MS)] * 2)
    producer = Delivery({"bootstrap.servers": bootstrap})
    producer.produce("large", b"y" * 900_000, partition=1)
    producer.confirm()
    both = {TopicPartition("large", 0): (0, 50_000), TopicPartition("large", 1): (0, 50_000)}
    first = link.fetch(both, timeout=60)
    assert [len(fetched.records) for fetched in first.values()].count(1) == 1  # a request's first batch comes whole
    cut = next(fetched for fetched in first.values() if not fetched.records)
    assert cut.needs_bytes > 50_000
    assert [len(answer.records) for answer in read_all(link, "large", size=50_000)] == [1, 1]


@pytest.fixture(scope="module")
def transactions(bootstrap: str) -> list[bytes]:
    """Topic ``transacted``: transactions of 1 to 5 records, every third aborted; returns the committed values."""
    create(bootstrap, "transacted")
    committed: list[bytes] = []
    producer = Delivery({"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 0})
    producer.init_transactions(60)
    for number in range(60):
        producer.begin_transaction()
        values = [b"%d-%d" % (number, i) for i in range(number % 5 + 1)]
        for value in values:
            producer.produce("transacted", value, partition=0, timestamp=BASE_MS + number)
        producer.confirm()
        if number % 3 == 1:
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            committed += values
    return committed


def test_read_committed_leaves_out_aborted_records_and_markers(link: Link, transactions: list[bytes]) -> None:
    for size in (500, 2_000, 1 << 20):
        answers = read_all(link, "transacted", read_committed=True, size=size)
        seen = [record.digest for answer in answers for record in answer.records]
        assert seen == [digest(None, value) for value in transactions]
    uncommitted = [record for answer in read_all(link, "transacted") for record in answer.records]
    assert len(uncommitted) > len(transactions)


def test_a_tail_steps_back_over_markers_and_aborted_records(link: Link, transactions: list[bytes]) -> None:
    partition = TopicPartition("transacted", 0)
    records = [record for answer in read_all(link, "transacted", read_committed=True) for record in answer.records]
    end = link.offsets({partition: Spec.LATEST}, timeout=60)[partition].offset
    assert end is not None
    for position in [0, 1, 2, 7, *random.Random(5).sample(range(end), 20), end]:
        before = [Fingerprint(r.offset, r.timestamp_ms, r.digest) for r in records if r.offset < position]
        tail = read_last_records(link, {partition: position}, count=32, timeout=60)[partition]
        assert tail.error is None
        assert tail.records == tuple(before[-32:])
        assert tail.dense == (len(tail.records) == position - tail.start)


def test_a_tail_stops_where_retention_has_cut_the_log(link: Link, admin: AdminClient, bootstrap: str) -> None:
    create(bootstrap, "retained")
    produce(bootstrap, "retained", numbered(100))
    for future in admin.delete_records([TheirPartition("retained", 0, 90)]).values():
        future.result(120)
    partition = TopicPartition("retained", 0)
    tail = read_last_records(link, {partition: 100}, count=32, timeout=60)[partition]
    assert ([record.offset for record in tail.records], tail.start, tail.dense) == (list(range(90, 100)), 90, True)
    gone = read_last_records(link, {partition: 80}, count=32, timeout=60)[partition]
    assert (gone.records, gone.error) == ((), None)
    assert link.offsets({partition: Spec.EARLIEST}, timeout=60)[partition].offset == 90


def test_an_open_transaction_holds_back_the_end_for_read_committed(link: Link, bootstrap: str) -> None:
    create(bootstrap, "open")
    partition = TopicPartition("open", 0)
    producer = Delivery({"bootstrap.servers": bootstrap, "transactional.id": "open", "linger.ms": 0})
    producer.init_transactions(60)
    produce(bootstrap, "open", numbered(5))
    producer.begin_transaction()
    producer.produce("open", b"pending", partition=0, timestamp=BASE_MS + 60_000)
    producer.confirm()

    def looked(time_ms: int, *, read_committed: bool) -> int | None:
        answer = link.offsets({partition: time_ms}, read_committed=read_committed, timeout=60)[partition]
        assert answer.error is None
        return answer.offset

    assert [looked(Spec.LATEST, read_committed=committed) for committed in (False, True)] == [6, 5]
    assert [looked(BASE_MS + 60_000, read_committed=committed) for committed in (False, True)] == [5, None]
    producer.abort_transaction(60)
    until(  # the marker is written after the abort was answered
        lambda: [looked(Spec.LATEST, read_committed=committed) for committed in (False, True)] == [7, 7],
        "the abort's marker is not there",
    )


def test_a_leader_epoch_ends_with_the_log_and_one_that_never_was_is_unknown(link: Link, bootstrap: str) -> None:
    create(bootstrap, "epochs")
    produce(bootstrap, "epochs", numbered(7))
    partition = TopicPartition("epochs", 0)
    (first,) = {record.leader_epoch for answer in read_all(link, "epochs") for record in answer.records}
    assert first is not None
    own, later = (link.epoch_ends({partition: epoch}, timeout=60)[partition] for epoch in (first, first + 5))
    assert (own.leader_epoch, own.end_offset, own.error) == (first, 7, None)
    assert (later.leader_epoch, later.end_offset, later.error) == (None, None, None)


def test_a_segment_level_search_is_not_known_any_more_and_says_so(link: Link, bootstrap: str) -> None:
    create(bootstrap, "unsearched")
    answer = link.segments({TopicPartition("unsearched", 0): Spec.LATEST}, timeout=60)[TopicPartition("unsearched", 0)]
    assert answer.error is not None
    assert (answer.error.name, answer.offsets) == ("UNSUPPORTED_VERSION", ())


def test_one_link_serves_several_threads(link: Link, bootstrap: str) -> None:
    create(bootstrap, "shared", 8)
    partitions = [TopicPartition("shared", number) for number in range(8)]
    wrong: list[object] = []

    def check_answers() -> None:
        for _ in range(50):
            looked = link.offsets(dict.fromkeys(partitions, Spec.LATEST), timeout=60)
            wrong.extend(answer for answer in looked.values() if answer.offset != 0)

    threads = [threading.Thread(target=check_answers) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PROCESS_SECONDS)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def test_a_partition_that_does_not_exist_does_not_hide_its_neighbours(link: Link, bootstrap: str) -> None:
    create(bootstrap, "neighbours", 2)
    answers = link.offsets({TopicPartition("neighbours", n): Spec.LATEST for n in (0, 1, 2)}, timeout=60)
    assert [answer.offset for answer in answers.values()] == [0, 0, None]
