"""Which queries are sampled next, and what an answer is remembered as."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.decide.desk.readiness_sampling import (
    MOVE_TAKES,
    SAMPLE_LONGEST,
    next_samples,
    readiness_event,
    readiness_fact,
    sentence,
)
from orchestrator.decide.desk.status import SAMPLE_VALID
from orchestrator.decide.gates.gate import UNKNOWN, Gate
from orchestrator.decide.gates.readiness import Readiness
from tests.contract.samples import operation, readiness

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
GOOD = Gate(name="standby-reachable", ok=True, measured="12 ms", limit="2 s", text="west answers")
BAD = replace(GOOD, name="replication-lag", ok=False, measured="90 s", text="west is 90.0 s behind east")
BLIND = replace(BAD, name="exposure", measured=UNKNOWN, text="nothing tells")


def test_never_sampled_queries_come_first_and_then_the_oldest() -> None:
    ages = {"a": 60, "b": 61, "young": 59, "undeclared": 99}
    facts = [readiness(query=query, sampled_at=NOW - age * SECOND) for query, age in ages.items()]
    assert next_samples(["a", "b", "young", "new"], facts, [], NOW, {}) == ("new", "b", "a")


def test_a_sample_from_before_a_clock_was_set_back_is_old() -> None:
    assert next_samples(["a"], [readiness(query="a", sampled_at=NOW + SECOND)], [], NOW, {}) == ("a",)


@pytest.mark.parametrize(
    ("spent", "ready", "valid_for"),
    [(0.2, True, 60), (0.6, True, 120), (60.0, True, 240), (60.0, False, 60), (60.0, None, 60)],
)
def test_costly_samples_are_taken_less_often_unless_they_refuse(
    spent: float, ready: bool | None, valid_for: int
) -> None:
    fact = readiness(query="a", ready=ready, sampled_at=NOW)
    assert next_samples(["a"], [fact], [], NOW + (valid_for - 1) * SECOND, {"a": spent}) == ()
    assert next_samples(["a"], [fact], [], NOW + valid_for * SECOND, {"a": spent}) == ("a",)


def test_the_longest_interval_is_shorter_than_a_sample_is_valid() -> None:
    assert SAMPLE_LONGEST < SAMPLE_VALID


def test_a_query_with_an_open_operation_is_passed_over() -> None:
    blocked = operation(query="a", started_at=NOW - MOVE_TAKES)
    old = [readiness(query="a", sampled_at=NOW - MINUTE)]
    assert next_samples(["a", "b"], [], [blocked], NOW, {}) == ("b",)
    assert next_samples(["a", "b"], old, [blocked], NOW, {}) == ("b",)


def test_nothing_is_sampled_while_a_query_is_being_moved() -> None:
    moving = operation(query="a", started_at=NOW - MOVE_TAKES + SECOND)
    assert next_samples(["a", "b"], [], [moving], NOW, {}) == ()


@pytest.mark.parametrize(
    ("gates", "ready", "text"),
    [
        ((GOOD,), True, "revenue could fail over to west"),
        (
            (GOOD, BAD, BLIND),
            False,
            "revenue could not fail over to west: replication-lag: west is 90.0 s behind east (and 1 more)",
        ),
        ((BLIND,), None, "revenue cannot be checked for a failover to west: exposure: nothing tells"),
    ],
)
def test_an_answer_is_kept_with_its_gates_and_given_in_one_sentence(
    gates: tuple[Gate, ...], ready: bool | None, text: str
) -> None:
    fact = readiness_fact(Readiness(query="revenue", source="east", target="west", gates=gates, replication=None), NOW)
    assert (fact.query, fact.target, fact.ready, fact.since, fact.sampled_at) == ("revenue", "west", ready, NOW, NOW)
    assert fact.gates == tuple(gate.as_json() for gate in gates)
    assert sentence(fact) == text
    event = readiness_event(fact, actor="controller:one")
    assert (event.kind, event.query, event.at, event.actor, event.text) == (
        "readiness", "revenue", NOW, "controller:one", text,
    )  # fmt: skip
    assert event.detail["gates"] == [gate.as_json() for gate in gates if not gate.ok]
