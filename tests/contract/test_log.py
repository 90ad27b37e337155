"""What every ``ClusterLog`` promises, tried on the cluster in memory and on the link to brokers made of sockets."""

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from state.model.entities import Fingerprint, TopicPartition
from state.settings.keys import Cluster, Tideover
from state.settings.security import Security
from streaming.clocks import Deadline
from streaming.cluster_log import ClusterLog, Spec
from streaming.errors import ClusterUnreachable, CredentialRefused, WrongCluster
from streaming.kafka.link import Link
from streaming.kafka.requests import list_offsets
from streaming.kafka.requests.records import digest
from streaming.last_records import read_last_records
from streaming.probe.identities import Identities
from streaming.resolve.batched_lookups import request_offsets
from tests.contract import samples
from tests.fakecluster import BASE_MS, EPOCH_STARTS, SEGMENT_RECORDS, STEP_MS, FakeCluster, silent_server
from tests.memory_log import MemoryCluster
from tests.memory_store import MemoryStore
from tests.segments import RECORDS, over_segments, written_at

PARTITIONS = [TopicPartition("t", number) for number in range(6)]
WHO_IT_IS = {3, 18}
"""Metadata and versions: what a broker gets as requests before it is known to be of the cluster."""
BY_TIME = dict.fromkeys(PARTITIONS, BASE_MS + 5 * STEP_MS)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 6}, records=RECORDS) as fake:
        yield fake


@pytest.fixture
def link(fake: FakeCluster) -> Iterator[Link]:
    with Link(Cluster(bootstrap=fake.bootstrap)) as link:
        yield link


def memory() -> MemoryCluster:
    cluster = MemoryCluster()
    cluster.create("t", 6)
    for offset in range(RECORDS):
        for number in range(6):
            for epoch in (epoch for epoch, start in EPOCH_STARTS.items() if epoch and start == offset):
                cluster.elect("t", number, epoch)
            if offset and offset % SEGMENT_RECORDS == 0:
                cluster.roll("t", number, written_at(offset - 1))
            cluster.append_entry("t", number, None, b"%d" % offset, BASE_MS + offset * STEP_MS)
    return cluster


@pytest.fixture(scope="module")
def still() -> MemoryCluster:
    """One that no test writes to."""
    return memory()


@pytest.fixture(params=["still", "link"], ids=["memory", "link"])
def log(request: pytest.FixtureRequest) -> ClusterLog:
    answer: ClusterLog = request.getfixturevalue(request.param)
    return answer


# -- every log -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requested", "offset", "timestamp"),
    [
        (BASE_MS - 1, 0, BASE_MS),
        (BASE_MS, 0, BASE_MS),
        (BASE_MS + 1, 1, BASE_MS + STEP_MS),
        (BASE_MS + (RECORDS - 1) * STEP_MS, RECORDS - 1, BASE_MS + (RECORDS - 1) * STEP_MS),
        (BASE_MS + (RECORDS - 1) * STEP_MS + 1, None, None),
        (Spec.EARLIEST, 0, None),
        (Spec.LATEST, RECORDS, None),
        (Spec.MAX_TIMESTAMP, RECORDS - 1, BASE_MS + (RECORDS - 1) * STEP_MS),
    ],
)
def test_a_time_is_the_first_offset_at_or_after_it(
    log: ClusterLog, requested: int, offset: int | None, timestamp: int | None
) -> None:
    for answer in log.offsets(dict.fromkeys(PARTITIONS, requested), timeout=60).values():
        assert (answer.offset, answer.timestamp_ms, answer.error) == (offset, timestamp, None)


def test_a_negative_time_is_refused(log: ClusterLog) -> None:
    with pytest.raises(ValueError, match="-4"):
        log.offsets({PARTITIONS[0]: -4}, timeout=60)


def test_a_negative_time_is_refused_before_any_request(link: Link, fake: FakeCluster) -> None:
    for question in (link.offsets, link.segments):
        with pytest.raises(ValueError, match="-5"):
            question({PARTITIONS[0]: BASE_MS, PARTITIONS[1]: -5}, timeout=60)
    assert fake.requested == []


def test_one_partition_may_be_queried_for_several_times_at_once(log: ClusterLog) -> None:
    times = [BASE_MS, BASE_MS + 5 * STEP_MS, Spec.LATEST, BASE_MS]
    questions = [(partition, time) for time in times for partition in PARTITIONS]
    answers = request_offsets(log, questions, Deadline.after(5))
    assert len(answers) == 3 * len(PARTITIONS)
    for (_, requested), looked in answers.items():
        assert looked.error is None
        assert looked.offset == {BASE_MS: 0, BASE_MS + 5 * STEP_MS: 5, Spec.LATEST: RECORDS}[requested]


def test_a_read_committed_question_uses_a_version_that_knows_isolation() -> None:
    """Version 1 has no isolation level: an older broker would answer what an open transaction wrote (KIP-98)."""
    for time_ms, oldest in ((BASE_MS, 2), (Spec.LATEST, 2), (Spec.MAX_TIMESTAMP, 7)):
        request = list_offsets.partition_request({PARTITIONS[0]: time_ms}, read_committed=True).request(PARTITIONS[:1])
        assert (request.isolation_level, request._min_version) == (1, oldest)
    assert (
        list_offsets.partition_request({PARTITIONS[0]: BASE_MS}, read_committed=False)
        .request(PARTITIONS[:1])
        .isolation_level
        == 0
    )


def test_the_same_partition_twice_in_one_request_is_an_error_of_the_protocol(link: Link, fake: FakeCluster) -> None:
    """``INVALID_REQUEST`` (42) is what the separate requests avoid (KIP-79)."""
    twice = list_offsets.partition_request({PARTITIONS[0]: BASE_MS}, read_committed=False)
    answers = link._now.partitions.exchange(
        replace(twice, chunks=lambda partitions: [partitions * 2]), [PARTITIONS[0]], Deadline.after(2)
    )
    error = answers[PARTITIONS[0]].error
    assert error is not None
    assert (error.name, error.retriable) == ("INVALID_REQUEST", False)


def test_missing_partitions_do_not_hide_the_answers_of_others(log: ClusterLog) -> None:
    strangers = [TopicPartition("t", 99), TopicPartition("nowhere", 0)]
    answers = log.offsets(dict.fromkeys([*PARTITIONS, *strangers], Spec.LATEST), timeout=60)
    assert [answers[partition].offset for partition in PARTITIONS] == [RECORDS] * 6
    errors = [answers[partition].error for partition in strangers]
    assert [error and (error.name, error.retriable) for error in errors] == [("UNKNOWN_TOPIC_OR_PARTITION", False)] * 2


def test_a_topic_is_described_and_a_missing_one_is_reported(log: ClusterLog) -> None:
    facts = log.describe(["t", "nowhere"], timeout=60)
    assert sorted(facts["t"].partitions) == [0, 1, 2, 3, 4, 5]
    assert facts["t"].topic_id
    assert (facts["t"].timestamp_type, facts["t"].cleanup_policy) == ("CreateTime", "delete")
    error = facts["nowhere"].error
    assert error is not None
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_all_topics_are_named(log: ClusterLog) -> None:
    assert set(log.names(timeout=60)) == {"t"}


def test_names_lists_no_internal_topic_and_creates_none(link: Link, fake: FakeCluster) -> None:
    fake.topics |= {"__consumer_offsets": 1, "u": 1}
    assert set(link.names(timeout=60)) == {"t", "u"}
    assert fake.created == []


def test_a_fetch_gives_the_records_from_the_wanted_offset_on(log: ClusterLog) -> None:
    fetched = log.fetch(dict.fromkeys(PARTITIONS, (990, 1 << 20)), timeout=60)
    for answer in fetched.values():
        assert [(record.offset, record.digest) for record in answer.records] == [
            (offset, digest(None, b"%d" % offset)) for offset in range(990, RECORDS)
        ]
        assert (answer.next_offset, answer.high_watermark, answer.log_start) == (RECORDS, RECORDS, 0)


def test_records_in_full_hold_key_value_and_time(log: ClusterLog) -> None:
    got = log.entries(PARTITIONS[1], (3, 1 << 20), timeout=60)
    assert (got.error, got.next_offset, got.records[0].offset) == (None, got.records[-1].offset + 1, 3)
    for each in got.records:
        assert (each.key, each.value, each.timestamp_ms) == (None, b"%d" % each.offset, BASE_MS + each.offset * STEP_MS)


def test_a_fetch_with_too_little_room_says_how_much_it_needs(log: ClusterLog) -> None:
    answer = log.fetch({PARTITIONS[0]: (7, 20)}, timeout=60)[PARTITIONS[0]]
    assert (answer.records, answer.next_offset) == ((), 7)
    assert answer.needs_bytes > 20


def test_a_fetch_may_leave_out_what_is_not_wanted(log: ClusterLog) -> None:
    starts = dict.fromkeys(PARTITIONS[:2], (100, 1 << 20))
    answers = log.fetch(starts, until={PARTITIONS[0]: 110}, timeout=60)
    assert [record.offset for record in answers[PARTITIONS[0]].records] == list(range(100, 110))
    assert answers[PARTITIONS[0]].next_offset == 110
    assert answers[PARTITIONS[1]].next_offset == RECORDS


def test_a_fetch_outside_the_log_is_an_error_of_its_partition_alone(log: ClusterLog) -> None:
    starts = {PARTITIONS[0]: (RECORDS + 1, 1000), PARTITIONS[1]: (0, 1000)}
    answers = log.fetch(starts, timeout=60)
    error = answers[PARTITIONS[0]].error
    assert error is not None
    assert error.name == "OFFSET_OUT_OF_RANGE"
    assert answers[PARTITIONS[0]].next_offset == RECORDS + 1
    assert answers[PARTITIONS[1]].records


@pytest.mark.parametrize("end", [0, 1, 31, 32, 33, 500, RECORDS])
def test_a_tail_holds_the_records_right_before_its_end(log: ClusterLog, end: int) -> None:
    for tail in read_last_records(log, dict.fromkeys(PARTITIONS, end), count=32, timeout=60).values():
        start = max(0, end - 32)
        assert tail.records == tuple(
            Fingerprint(offset, BASE_MS + offset * STEP_MS, digest(None, b"%d" % offset))
            for offset in range(start, end)
        )
        assert (tail.start, tail.dense, tail.error) == (start, True, None)


@pytest.mark.parametrize(("known", "start"), [(0, 468), (468, 468), (490, 490), (499, 499), (500, 500), (600, 500)])
def test_a_tail_reaches_back_to_what_is_known(log: ClusterLog, known: int, start: int) -> None:
    ends = dict.fromkeys(PARTITIONS, 500)
    for tail in read_last_records(log, ends, count=32, known=dict.fromkeys(PARTITIONS, known), timeout=60).values():
        assert [record.offset for record in tail.records] == list(range(start, 500))
        assert (tail.start, tail.dense, tail.error) == (start, True, None)


def test_a_tail_beyond_the_end_is_an_error(log: ClusterLog) -> None:
    tail = read_last_records(log, {PARTITIONS[0]: RECORDS + 500}, count=32, timeout=60)[PARTITIONS[0]]
    assert tail.records == ()
    assert tail.error is not None


@pytest.mark.parametrize(
    ("requested", "epoch", "end"),
    [(0, 0, 300), (1, 0, 300), (2, 2, 700), (3, 3, RECORDS), (4, None, None)],
    ids=["an old one", "one without records", "the one before", "the leader's own", "a later one"],
)
def test_a_leader_epoch_ends_where_the_next_one_begins(
    log: ClusterLog, requested: int, epoch: int | None, end: int | None
) -> None:
    for answer in log.epoch_ends(dict.fromkeys(PARTITIONS, requested), timeout=60).values():
        assert (answer.leader_epoch, answer.end_offset, answer.error) == (epoch, end, None)


def test_an_epoch_of_what_does_not_exist_is_an_error_of_its_partition_alone(log: ClusterLog) -> None:
    answers = log.epoch_ends({PARTITIONS[0]: 0, TopicPartition("t", 99): 0}, timeout=60)
    error = answers[TopicPartition("t", 99)].error
    assert answers[PARTITIONS[0]].end_offset == 300
    assert error is not None
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.fixture(params=["memory", "link"])
def old_log(request: pytest.FixtureRequest) -> Iterator[ClusterLog]:
    """A log whose brokers still answer segment-level searches, as Kafka 3.9."""
    if request.param == "memory":
        yield memory()
        return
    with FakeCluster({"t": 6}, records=RECORDS, version=(3, 9)) as old, Link(Cluster(bootstrap=old.bootstrap)) as link:
        yield link


@over_segments
def test_segments_are_named_newest_first_and_minus_one_is_the_latest(
    old_log: ClusterLog, requested: int, limit: int, offsets: tuple[int, ...]
) -> None:
    answers = old_log.segments(dict.fromkeys(PARTITIONS, requested), limit=limit, timeout=60)
    assert {(answer.offsets, answer.error) for answer in answers.values()} == {(offsets, None)}


@pytest.mark.parametrize(("requested", "limit"), [(Spec.MAX_TIMESTAMP, 1), (-4, 1), (0, 0)])
def test_a_segment_question_that_cannot_be_answered_is_refused(old_log: ClusterLog, requested: int, limit: int) -> None:
    with pytest.raises(ValueError, match=r"segment|-4"):
        old_log.segments({PARTITIONS[0]: requested}, limit=limit, timeout=60)


def test_an_error_of_one_partition_does_not_hide_the_segments_of_others(old_log: ClusterLog) -> None:
    answers = old_log.segments({PARTITIONS[0]: -1, TopicPartition("t", 99): -1}, timeout=60)
    error = answers[TopicPartition("t", 99)].error
    assert answers[PARTITIONS[0]].offsets == (1000,)
    assert error is not None
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_the_segments_of_the_seed_are_found_where_it_wrote_them() -> None:
    """Two segments, the second being written: bases 0 and 7, end 8."""
    cluster = MemoryCluster()
    cluster.create("t")
    for offset in range(8):
        if offset == 7:
            cluster.roll("t", 0, written_ms=100)
        cluster.append("t", 0, offset, b"")
    found = {
        (requested, limit): cluster.segments({PARTITIONS[0]: requested}, limit=limit, timeout=1)[PARTITIONS[0]].offsets
        for requested in (Spec.LATEST, Spec.EARLIEST, 99, 100)
        for limit in (1, 2)
    }
    assert found == {
        (Spec.LATEST, 1): (8,), (Spec.LATEST, 2): (8, 7), (Spec.EARLIEST, 1): (0,), (Spec.EARLIEST, 2): (0,),
        (99, 1): (), (99, 2): (), (100, 1): (0,), (100, 2): (0,),
    }  # fmt: skip
    cluster.now_ms = 200
    assert cluster.segments({PARTITIONS[0]: 200}, limit=2, timeout=1)[PARTITIONS[0]].offsets == (8, 7)
    cluster.retain("t", 0, 3)
    assert cluster.segments({PARTITIONS[0]: 100}, timeout=1)[PARTITIONS[0]].offsets == (3,)


def test_segments_are_not_requested_of_a_broker_with_a_changed_protocol(fake: FakeCluster, link: Link) -> None:
    answers = link.segments(dict.fromkeys(PARTITIONS, BASE_MS), timeout=60)
    assert {answer.error and answer.error.name for answer in answers.values()} == {"UNSUPPORTED_VERSION"}
    assert all(answer.error and "Kafka 4.0 removed it" in answer.error.text for answer in answers.values())
    assert 2 not in {key for _, key, _ in fake.requested}


# -- tails across holes ----------------------------------------------------------------------------------------------


def test_a_tail_steps_back_over_a_hole() -> None:
    cluster = memory()
    cluster.compact("t", 0, range(600, 990))
    tail = read_last_records(cluster, {PARTITIONS[0]: RECORDS}, count=32, timeout=60)[PARTITIONS[0]]
    assert [record.offset for record in tail.records] == [*range(578, 600), *range(990, 1000)]
    assert (tail.start, tail.dense, tail.error) == (578, False, None)


def test_a_tail_steps_back_over_a_hole_no_further_than_to_what_is_known() -> None:
    cluster = memory()
    cluster.compact("t", 0, range(600, 990))
    known = {PARTITIONS[0]: 595}
    tail = read_last_records(cluster, {PARTITIONS[0]: RECORDS}, count=32, known=known, timeout=60)[PARTITIONS[0]]
    assert [record.offset for record in tail.records] == [*range(595, 600), *range(990, 1000)]
    assert (tail.start, tail.dense, tail.error) == (595, False, None)


def test_a_tail_gives_up_on_a_hole_that_is_too_wide() -> None:
    cluster = memory()
    cluster.skip("t", 0, 100_000)
    tail = read_last_records(cluster, {PARTITIONS[0]: RECORDS + 100_000}, count=32, timeout=60)[PARTITIONS[0]]
    assert (tail.records, tail.dense, tail.error) == ((), False, None)


def test_a_tail_stops_at_the_begin_of_the_log() -> None:
    cluster = memory()
    cluster.retain("t", 0, 990)
    tail = read_last_records(cluster, {PARTITIONS[0]: RECORDS}, count=32, timeout=60)[PARTITIONS[0]]
    assert ([record.offset for record in tail.records], tail.start) == (list(range(990, RECORDS)), 990)
    assert tail.dense


# -- faults of a cluster ---------------------------------------------------------------------------------------------


def test_a_request_for_a_missing_topic_creates_nothing(link: Link, fake: FakeCluster) -> None:
    missing = TopicPartition("nowhere", 0)
    link.describe(["nowhere"], timeout=60)
    link.offsets({missing: Spec.LATEST}, timeout=60)
    link.fetch({missing: (0, 100)}, timeout=60)
    assert fake.created == []


def test_a_silent_bootstrap_server_does_not_matter(fake: FakeCluster) -> None:
    with silent_server() as silent, Link(Cluster(bootstrap=(silent, fake.bootstrap[0]))) as link:
        assert [answer.offset for answer in link.offsets(BY_TIME, timeout=60).values()] == [5] * 6


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_cluster_that_never_speaks_is_unreachable_by_the_deadline(protocol: str) -> None:
    security = Security.model_validate({"protocol": protocol})
    with silent_server() as silent:
        link = Link(Cluster(bootstrap=(silent,), security=security), name="east")
        with pytest.raises(ClusterUnreachable, match="east"):
            link.describe(["t"], timeout=0.3)
        link.close()
        link.close()


def test_a_tls_handshake_that_is_never_answered_leaves_no_connection_behind() -> None:
    security = Security.model_validate({"protocol": "SSL"})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Link(Cluster(bootstrap=(address,), security=security)) as link:
            with pytest.raises(ClusterUnreachable):
                link.describe(["t"], timeout=0.3)
            connection, _ = silent.accept()
            with connection:
                connection.settimeout(20)
                while connection.recv(4096):
                    pass  # its greeting; then the end, while the link is still open


def test_a_cluster_that_refuses_is_unreachable_and_says_why(fake: FakeCluster, link: Link) -> None:
    for node in fake.ports:
        fake.kill(node)
    with pytest.raises(ClusterUnreachable, match="ECONNREFUSED"):
        link.offsets(BY_TIME, timeout=0.3)


def test_a_partition_without_a_leader_has_an_error_and_the_others_answers(fake: FakeCluster, link: Link) -> None:
    fake.leaderless.add(("t", 1))
    answers = link.offsets(BY_TIME, timeout=0.7)
    assert [answer.offset for answer in answers.values()] == [5, None, 5, 5, 5, 5]
    error = answers[PARTITIONS[1]].error
    assert error is not None
    assert (error.name, error.retriable) == ("LEADER_NOT_AVAILABLE", True)


PATIENCE = (3, 12, 48)
"""Seconds for a request that a lost leader makes last to its limit. A busy machine may need more for the others."""


@pytest.mark.parametrize(
    ("fault", "name"),
    [(lambda fake: fake.kill(1), "NETWORK_EXCEPTION"), (lambda fake: fake.hung.add(1), "TIMED_OUT")],
    ids=["dead", "hung"],
)
def test_a_lost_leader_costs_only_its_own_partitions(
    fake: FakeCluster, link: Link, fault: Callable[[FakeCluster], None], name: str
) -> None:
    link.offsets(BY_TIME, timeout=60)
    fault(fake)
    for seconds in PATIENCE:
        answers = link.offsets(BY_TIME, timeout=seconds)
        if [answer.offset for answer in answers.values()] == [5, None, 5, 5, None, 5]:
            break
    assert [answer.offset for answer in answers.values()] == [5, None, 5, 5, None, 5]
    assert {answer.error.name for answer in answers.values() if answer.error} == {name}
    for seconds in PATIENCE:
        fetched = link.fetch(dict.fromkeys(PARTITIONS, (0, 500)), timeout=seconds)
        if sum(answer.error is None for answer in fetched.values()) == 4:
            break
    assert [answer.error is None for answer in fetched.values()] == [True, False, True, True, False, True]


def test_an_error_that_a_retry_cannot_mend_comes_at_once(fake: FakeCluster, link: Link) -> None:
    fake.errors["t", 2] = 43
    began = time.monotonic()
    answers = link.offsets(BY_TIME, timeout=60)
    assert time.monotonic() - began < 30
    assert [answer.error and answer.error.name for answer in answers.values()] == [
        None, None, "UNSUPPORTED_FOR_MESSAGE_FORMAT", None, None, None,
    ]  # fmt: skip


def test_a_moved_leader_is_found_again(fake: FakeCluster, link: Link) -> None:
    fake.not_leader = {("t", 0): 2, ("t", 4): 1}
    assert [answer.offset for answer in link.offsets(BY_TIME, timeout=10).values()] == [5] * 6


def test_a_partition_that_was_added_later_is_found(fake: FakeCluster, link: Link) -> None:
    link.offsets(BY_TIME, timeout=60)
    fake.topics["t"] = 8
    added = TopicPartition("t", 7)
    assert link.offsets({added: Spec.LATEST}, timeout=60)[added].offset == RECORDS


def test_an_old_broker_does_not_misread_a_question_for_the_largest_time() -> None:
    with FakeCluster({"t": 6}, version=(2, 8)) as old, Link(Cluster(bootstrap=old.bootstrap)) as link:
        answers = link.offsets(dict.fromkeys(PARTITIONS, Spec.MAX_TIMESTAMP), timeout=60)
        assert {answer.error and answer.error.name for answer in answers.values()} == {"UNSUPPORTED_VERSION"}
        assert all(answer.error and "needs Kafka 3.0 or newer" in answer.error.text for answer in answers.values())
        assert [answer.offset for answer in link.offsets(BY_TIME, timeout=60).values()] == [5] * 6


def test_a_broker_without_leader_epochs_gets_no_request_for_their_ends() -> None:
    with FakeCluster({"t": 6}, version=(1, 0)) as old, Link(Cluster(bootstrap=old.bootstrap)) as link:
        answers = link.epoch_ends(dict.fromkeys(PARTITIONS, 0), timeout=60)
        assert {answer.error and answer.error.name for answer in answers.values()} == {"UNSUPPORTED_VERSION"}


def test_a_missing_certificate_is_our_fault_and_needs_no_connection() -> None:
    security = Security.model_validate({"protocol": "SSL", "ca": "/nowhere/ca.pem"})
    cluster = Cluster(bootstrap=("127.0.0.1:1",), security=security)
    reported = r"east: the certificate authority /nowhere/ca\.pem"
    with Link(cluster, name="east") as link, pytest.raises(CredentialRefused, match=reported):
        link.describe(["t"], timeout=60)


def test_a_memory_cluster_can_be_out_of_reach() -> None:
    cluster = memory()
    cluster.unreachable = True
    with pytest.raises(ClusterUnreachable):
        cluster.describe(["t"], timeout=1)


QUESTIONS: dict[str, Callable[[Link], object]] = {
    "describe": lambda link: link.describe(["t"], timeout=60),
    "names": lambda link: link.names(timeout=60),
    "offsets": lambda link: link.offsets(BY_TIME, timeout=60),
    "fetch": lambda link: link.fetch(dict.fromkeys(PARTITIONS, (0, 100)), timeout=60),
    "epoch_ends": lambda link: link.epoch_ends(dict.fromkeys(PARTITIONS, 0), timeout=60),
    "entries": lambda link: link.entries(PARTITIONS[0], (0, 100), timeout=60),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_another_cluster_behind_remembered_leaders_answers_nothing(fake: FakeCluster, question: str) -> None:
    known = Identities(Tideover.model_validate({"store": "sqlite://", "clusters": {"east": {"bootstrap": ["e:1"]}}}))
    with Link(Cluster(bootstrap=fake.bootstrap), name="east", identify=known.of("east")) as link:
        assert link.offsets(BY_TIME, timeout=60)[PARTITIONS[0]].offset == 5
        fake.cluster_id = "other"
        fake.hang_up()
        for _ in range(2):
            with pytest.raises(WrongCluster, match="east leads to cluster other") as raised:
                QUESTIONS[question](link)
            assert raised.value.seen == "other"
        fake.cluster_id = "fake"
        QUESTIONS[question](link)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_kept_connection_gives_no_answer_of_a_cluster_without_its_name(fake: FakeCluster, question: str) -> None:
    """A process that saw nothing of the change reads the pin, and queries the cluster that has the name now."""
    store = MemoryStore(lambda: datetime(2026, 3, 1, tzinfo=UTC))
    known = Identities(Tideover.model_validate({"store": "sqlite://", "clusters": {"east": {"bootstrap": ["e:1"]}}}))
    with FakeCluster({"t": 6}) as successor:
        successor.cluster_id = "other"
        servers = (*fake.bootstrap, *successor.bootstrap)
        store.pin(samples.pin(id="fake"), event=samples.event())
        known.learn(store)
        with Link(Cluster(bootstrap=servers), name="east", identify=known.of("east")) as link:
            assert link.offsets(BY_TIME, timeout=60)[PARTITIONS[0]].offset == 5
            store.replace_pin("east", former="fake", new="other", event=samples.event())
            known.learn(store)
            fake.requested.clear()
            QUESTIONS[question](link)
            assert {key for _, key, _ in fake.requested} <= WHO_IT_IS
            assert {key for _, key, _ in successor.requested} > WHO_IT_IS or question == "names"
