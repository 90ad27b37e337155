"""Moves in waves: who begins when, and who stays where an earlier wave did not get through."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.decide.operation.post_commit import joins
from orchestrator.decide.operation.turns import Turn, too_late, turn_in_wave, wave_of, waves_of
from state.model.entities import Operation, OperationKind, Phase, Request
from tests.contract import samples


@pytest.mark.parametrize(
    ("sizes", "waves"),
    [
        ((), {"a": 1, "b": 1, "c": 1, "d": 1}),
        ((1,), {"a": 1, "b": 2, "c": 2, "d": 2}),
        ((1, 2), {"a": 1, "b": 2, "c": 2, "d": 3}),
        ((1, 3), {"a": 1, "b": 2, "c": 2, "d": 2}),
        ((9,), {"a": 1, "b": 1, "c": 1, "d": 1}),
    ],
)
def test_queries_go_into_waves_in_their_order(sizes: Sequence[int], waves: dict[str, int]) -> None:
    assert waves_of("abcd", sizes) == waves


@given(st.lists(st.integers(1, 9), max_size=5), st.integers(0, 30))
def test_each_query_is_in_one_wave_and_none_is_empty(sizes: list[int], count: int) -> None:
    names = [f"q{number}" for number in range(count)]
    found = waves_of(names, sizes)
    assert list(found) == names
    assert sorted(set(found.values())) == list(range(1, len(set(found.values())) + 1))
    assert list(found.values()) == sorted(found.values())
    for wave, size in enumerate(sizes, start=1):
        assert list(found.values()).count(wave) <= size


def requested(query: str, wave: int | None, *, refused: str | None = None, operation: str | None = None) -> Request:
    parameters = {} if wave is None else {"wave": wave}
    return samples.request(
        id=f"r-{query}", group="g", query=query, parameters=parameters, refused=refused, operation=operation
    )


def moved(outcome: str | None, phase: Phase = Phase.SETTLED) -> Operation:
    return samples.operation(id="op", phase=phase, outcome=outcome, sentence="why not")


OWN = requested("search", 2)
FIRST = requested("revenue", 1)
BEGUN = replace(FIRST, operation="op")


@pytest.mark.parametrize(
    "others",
    [
        [],
        [(BEGUN, moved("done"))],
        [(replace(FIRST, refused="not-already-there: revenue is already on west"), None)],
        [(requested("clicks", 2), None)],
        [(requested("clicks", 3, refused="exposure: 9 s"), None)],
    ],
    ids=["alone", "done", "there already", "of its own wave", "of a later one"],
)
def test_a_wave_begins_when_all_before_it_are_done(others: list[tuple[Request, Operation | None]]) -> None:
    assert turn_in_wave(OWN, others) is None


@pytest.mark.parametrize("operation", [None, moved(None, Phase.STARTING), moved(None, Phase.ABORTED)])
def test_a_wave_waits_for_what_is_open_before_it(operation: Operation | None) -> None:
    first = FIRST if operation is None else BEGUN
    text = "search keeps running in wave 2 and waits for wave 1: revenue is not done"
    assert turn_in_wave(OWN, [(first, operation)]) == Turn(text=text)
    more = turn_in_wave(OWN, [(first, operation), (requested("clicks", None), None)])
    assert more is not None
    assert more.text.endswith("waits for wave 1: 2 of its moves are open")


@pytest.mark.parametrize(
    ("first", "operation", "why"),
    [
        (replace(FIRST, refused="exposure: 9 s"), None, "exposure: 9 s"),
        (BEGUN, moved("failed"), "operation op (failed): why not"),
        (BEGUN, moved("refused"), "operation op (refused): why not"),
    ],
)
def test_a_wave_stays_where_one_before_it_was_not_moved(first: Request, operation: Operation | None, why: str) -> None:
    text = f"wave-failed: search is not moved, because revenue of an earlier wave was not: {why}"
    others = [(requested("clicks", 1), None), (first, operation)]
    assert turn_in_wave(OWN, others) == Turn(text=text, never=True), "although another one is waited for"


def test_a_move_that_awaits_the_next_start_holds_no_wave() -> None:
    scheduled = replace(moved(None, Phase.BLOCKED), sentence="awaits the next start of nightly, which does not run now")
    assert turn_in_wave(OWN, [(BEGUN, scheduled)]) is None
    turn = turn_in_wave(OWN, [(BEGUN, scheduled), (requested("clicks", 1), None)])
    assert turn is not None
    assert turn.text.endswith("waits for wave 1: clicks is not done")


def test_a_time_that_is_up_names_the_wave_that_was_waited_for() -> None:
    turn = turn_in_wave(OWN, [(FIRST, None)])
    reported = too_late(replace(OWN, expires_at=samples.AT + timedelta(minutes=2)), waited=True, turn=turn)
    assert "search keeps running in wave 2 and waits for wave 1" in reported


def test_a_request_joins_the_same_move_whatever_its_wave() -> None:
    standing = samples.operation(
        query="search", target="west", phase=Phase.FENCING, outcome=None, parameters={"wave": 3}
    )
    mine = replace(OWN, kind=standing.kind, target="west")
    assert joins(mine, standing)
    assert not joins(replace(mine, kind=OperationKind.REWIND, parameters={"to_time": "x", "wave": 2}), standing)


def test_a_request_without_a_wave_is_of_the_first() -> None:
    assert (wave_of({}), wave_of({"wave": 4}), wave_of({"to_time": "x"})) == (1, 4, 1)
