"""A broker that answers one known question wrongly is named, and an honest cluster never is."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from orchestrator.decide.gates.gate import Gate
from orchestrator.decide.gates.readiness import answers_consistent
from orchestrator.facts.preflight import check_queries
from state.model.entities import TopicPartition
from state.settings.keys import Cluster
from streaming.cluster_log import OffsetAnswer, PartitionError, Spec
from streaming.kafka.link import Link
from streaming.probe import self_questions as module
from streaming.probe.answers import ClusterAnswers, PartitionAnswers, contradictions_of
from streaming.probe.self_questions import VALID_SECONDS, SelfQuestions, check_answers
from tests.fakecluster import BASE_MS, STEP_MS, FakeCluster
from tests.memory_log import MemoryCluster
from tests.simulation.world import QUERY, World, settings
from tests.unit.orchestrator.decide.gates.test_readiness import NOW, READY

AT = datetime(2026, 3, 1, tzinfo=UTC)
Answer = tuple[int, int]
Lie = Callable[[int, int, Answer], Answer]


@pytest.fixture(autouse=True)
def answers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine an honest broker takes longer than the 2 s that are kept for it in use."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 60.0)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster({"t": 6}) as fake:
        yield fake


def requested_of(fake: FakeCluster, turn: int = 1) -> ClusterAnswers:
    with Link(Cluster(bootstrap=fake.bootstrap), name="west") as link:
        return check_answers(lambda _: link, "west", ["t"], turn=turn, at=AT)


def by_time(change: Callable[[Answer], Answer]) -> Lie:
    return lambda node, requested, true: change(true) if node == 1 and requested >= 0 else true


def by_spec(spec: Spec, change: Callable[[Answer], Answer]) -> Lie:
    return lambda node, requested, true: change(true) if node == 1 and requested == spec else true


class EndGoesBack:
    """Each second answer of a broker has an end that lies before the one of its answer before."""

    def __init__(self) -> None:
        self.answers = 0

    def __call__(self, node: int, requested: int, true: Answer) -> Answer:
        if node != 1 or requested != Spec.LATEST:
            return true
        self.answers += 1
        return (true[0] - (self.answers - 1) // 2 % 2 * 10, -1)


LIES: dict[str, tuple[Callable[[], Lie], str]] = {
    "too late": (lambda: by_time(lambda true: (true[0] + 20, true[1])), ": 20 too late"),
    "none": (lambda: by_time(lambda _: (-1, -1)), " finds none"),
    "an older record": (
        lambda: by_time(lambda true: (true[0] - 5, true[1] - 5 * STEP_MS)), "finds an older one"),
    "begin behind the end": (
        lambda: by_spec(Spec.EARLIEST, lambda _: (2000, -1)), "it begins at offset 2000, after its end 1000"),
    "end goes back": (EndGoesBack, "its end went back from 1000 to 990"),
    "old largest time": (
        lambda: by_spec(Spec.MAX_TIMESTAMP, lambda _: (0, BASE_MS)), "newer than what it calls its largest timestamp"),
    "no largest time": (lambda: by_spec(Spec.MAX_TIMESTAMP, lambda _: (-1, -1)), "and names no largest timestamp"),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_one_lie_of_one_broker_is_found_and_the_broker_named(fake: FakeCluster, name: str) -> None:
    lie, text = LIES[name]
    fake.lie = lie()
    found = requested_of(fake, turn=2)
    assert {each.broker for each in found.contradictions} == {f"127.0.0.1:{fake.ports[1]} (broker 1)"}
    assert {each.partition.partition for each in found.contradictions if each.partition} == {1, 4}
    assert all(text in each.text for each in found.contradictions), found.contradictions


@pytest.mark.parametrize("turn", range(6))
def test_an_honest_cluster_contradicts_itself_nowhere_in_its_log(fake: FakeCluster, turn: int) -> None:
    found = requested_of(fake, turn)
    assert (found.contradictions, found.error, found.partitions) == ((), "", 6)


def test_a_change_between_two_answers_is_no_lie(fake: FakeCluster) -> None:
    """Retention took the record away that was read: looked up once more, all is well."""
    late = iter([True])

    def once(node: int, requested: int, true: Answer) -> Answer:
        return (true[0] + 20, true[1]) if requested >= 0 and next(late, False) else true

    fake.lie = once
    assert requested_of(fake).contradictions == ()


def test_a_look_takes_few_requests_and_is_used_for_a_while(fake: FakeCluster) -> None:
    now = [0.0]
    with Link(Cluster(bootstrap=fake.bootstrap), name="west") as link:
        questions = SelfQuestions(lambda _: link, lambda: now[0])
        first = questions.of("west", ["t"], lambda: AT)
        count = len([key for _, key, _ in fake.requested if key in {1, 2}])
        assert count <= 7 * 3, "seven of each leader"
        now[0] += VALID_SECONDS - 1
        assert questions.of("west", ["t"], lambda: AT) is first
        assert len([key for _, key, _ in fake.requested if key in {1, 2}]) == count
        now[0] += 2
        assert questions.of("west", ["t"], lambda: AT) is not first


def test_a_cluster_that_does_not_answer_is_not_called_a_liar() -> None:
    cluster = MemoryCluster("west")
    cluster.unreachable = True
    found = check_answers(lambda _: cluster, "west", ["t"], turn=1, at=AT)
    assert (found.contradictions, found.partitions) == ((), 0)
    assert found.error


def test_an_empty_or_a_missing_topic_gives_no_question() -> None:
    cluster = MemoryCluster("west")
    cluster.create("t", 2)
    found = check_answers(lambda _: cluster, "west", ["t", "missing"], turn=1, at=AT)
    assert (found.contradictions, found.partitions, found.error) == ((), 0, "")


REFUSED = OffsetAnswer(
    offset=None, timestamp_ms=None, leader_epoch=None,
    error=PartitionError(name="UNSUPPORTED_VERSION", text="too old", retriable=False),
)  # fmt: skip
HONEST = PartitionAnswers(
    partition=TopicPartition("t", 0), broker="w:1 (broker 1)", begin=0, first_end=10, record=(4, 100),
    by_time=OffsetAnswer(offset=3, timestamp_ms=100, leader_epoch=0),
    newest=OffsetAnswer(offset=9, timestamp_ms=100, leader_epoch=0), last_end=10,
)  # fmt: skip
TOO_LATE = replace(HONEST, by_time=OffsetAnswer(offset=24, timestamp_ms=120, leader_epoch=0))


@pytest.mark.parametrize(
    "change",
    [
        {"newest": REFUSED}, {"by_time": REFUSED}, {"last_end": None}, {"begin": None},
        {"record": None, "newest": None}, {"by_time": None, "newest": None, "last_end": None}, {"last_end": 11},
    ],
)  # fmt: skip
def test_a_missing_answer_contradicts_nothing(change: dict[str, Any]) -> None:
    """An old broker does not know the largest timestamp; one that is busy does not answer in time."""
    assert contradictions_of([replace(HONEST, **change)]) == ()


def test_a_record_behind_the_end_is_a_contradiction() -> None:
    found = contradictions_of([replace(HONEST, first_end=4, last_end=4)])
    assert [each.text for each in found] == ["it served record 4, and says that the log ends at 4"]


def gate_of(*answers: ClusterAnswers) -> Gate | None:
    return answers_consistent(replace(READY, answers=answers))


def answers(cluster: str = "west", **changes: Any) -> ClusterAnswers:
    return replace(ClusterAnswers(cluster=cluster, at=NOW - timedelta(seconds=12), partitions=2), **changes)


def test_the_gate_names_cluster_broker_partition_and_age() -> None:
    gate = gate_of(answers("east"), answers(contradictions=contradictions_of([TOO_LATE, TOO_LATE])))
    assert gate is not None
    assert (gate.ok, gate.measured, gate.limit) == (False, "2 contradictions", "0 contradictions")
    assert gate.text == (
        "west: w:1 (broker 1) of t-0: a look-up by the time of its record 4 finds 24: 20 too late, and 1 more; "
        "checked 12 s ago; do not trust resume offsets that rest on its answers: repair or replace this broker"
    )


def test_the_gate_passes_honest_answers_and_says_when_it_had_none() -> None:
    gates = gate_of(answers("east"), answers()), gate_of(answers(partitions=0)), gate_of(answers(error="no answer"))
    assert [gate and (gate.ok, gate.text) for gate in gates] == [
        (True, "the answers for 4 partitions are correct, checked 12 s ago"),
        (True, "no record to check with yet"), None,
    ]  # fmt: skip


def test_check_queries_both_clusters_and_refuses_a_late_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(settings())
    requested: list[str] = []

    def of(self: SelfQuestions, cluster: str, topics: object, now: object) -> ClusterAnswers:
        requested.append(cluster)
        found = contradictions_of([TOO_LATE]) if cluster == "west" else ()
        return replace(answers(cluster), at=world.store.now(), contradictions=found)

    monkeypatch.setattr(SelfQuestions, "of", of)
    (ready,) = check_queries(
        [QUERY], store=world.store, settings=world.settings, logs=world.clusters.__getitem__, clock=world.clock
    )
    gate = next(each for each in ready.gates if each.name == "answers-consistent")
    assert (requested, gate.ok, ready.ready) == (["east", "west"], False, False)
