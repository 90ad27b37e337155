"""How long automatic mode leaves a query alone."""

from datetime import datetime, timedelta

import pytest

from orchestrator.decide.gates.automatic import cooldown_of
from state.model.entities import Operation
from tests.unit.orchestrator.decide.gates.test_automatic import HOUR, MINUTE, NOW, operation


def attempt(minutes_ago: float, name: str = "x") -> Operation:
    return operation(id=f"{name}{minutes_ago:g}", outcome="refused", ended_at=NOW - minutes_ago * MINUTE)


def until(
    *operations: Operation, acknowledged: frozenset[str] = frozenset(), cooldown: timedelta = HOUR
) -> datetime | None:
    found = cooldown_of(operations, acknowledged, cooldown)
    return None if found is None else found.until


def test_no_cool_down_holds_a_query_that_was_never_moved() -> None:
    assert until() is None


def test_a_move_cools_down_for_as_long_as_policy_says() -> None:
    assert until(operation(ended_at=NOW)) == NOW + HOUR
    assert until(operation(ended_at=NOW), cooldown=timedelta(0)) == NOW


def test_an_open_operation_is_not_judged_here() -> None:
    assert until(operation(outcome=None, ended_at=None)) is None


def test_a_persons_move_counts_as_acknowledgement_but_a_refusal_does_not() -> None:
    automatic = operation(ended_at=NOW)
    assert until(operation(actor="ann@desk", id="p"), automatic) is None
    assert until(operation(actor="ann@desk", id="p", outcome="refused"), automatic) == NOW + HOUR


def test_a_move_that_could_not_be_verified_is_a_move_all_the_same() -> None:
    unverified = operation(outcome="failed", ended_at=NOW)
    assert until(unverified) == NOW + HOUR
    found = cooldown_of((unverified,), frozenset(), HOUR)
    assert found is not None
    assert found.moved
    assert until(operation(actor="ann@desk", id="p", outcome="failed"), operation(ended_at=NOW)) is None


def test_an_acknowledgement_covers_what_was_before_it_and_nothing_after() -> None:
    first, second = operation(id="x1", ended_at=NOW - 10 * MINUTE), operation(id="x2", ended_at=NOW)
    assert until(second, first, acknowledged=frozenset({"x2"})) is None
    assert until(second, first, acknowledged=frozenset({"x1"})) == NOW + HOUR


@pytest.mark.parametrize(("attempts", "minutes"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (40, 60)])
def test_refused_attempts_come_ever_later_up_to_the_cooldown(attempts: int, minutes: int) -> None:
    assert until(*(attempt(index) for index in range(attempts))) == NOW + minutes * MINUTE


@pytest.mark.parametrize("cooldown", [timedelta(0), MINUTE / 2])
def test_a_failed_attempt_is_not_repeated_within_a_minute(cooldown: timedelta) -> None:
    assert until(attempt(0), cooldown=cooldown) == NOW + MINUTE
    assert until(attempt(0), attempt(0.5), attempt(1.5), cooldown=cooldown) == NOW + MINUTE


def test_attempts_of_long_ago_are_forgotten() -> None:
    assert until(attempt(0), attempt(61), attempt(62)) == NOW + MINUTE


def test_an_attempt_after_a_move_does_not_shorten_its_cooldown() -> None:
    moved = operation(ended_at=NOW - 10 * MINUTE)
    assert until(attempt(1), moved) == NOW + 50 * MINUTE
    found = cooldown_of((attempt(1), moved), frozenset(), HOUR)
    assert found is not None
    assert found.moved
    assert until(attempt(0), moved, cooldown=10 * MINUTE) == NOW + MINUTE
