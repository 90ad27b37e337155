"""Values as JSON: they come back as they were, and what is of another type is refused with its place."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from state.errors import Damaged
from state.model.entities import Assignment, Operation, Position, QueryFact
from state.model.fingerprints import Fingerprints
from state.model.maintenance import CleanedFiles
from state.model.timeline import Stretch
from state.store.remote.call_values import form_of
from tests.contract import samples


def written(value: Any) -> Any:
    kind: Any = type(value)
    return json.loads(json.dumps(form_of(kind).write(value)))


def came_back(value: Any) -> Any:
    kind: Any = type(value)
    return form_of(kind).read(written(value))


@pytest.mark.parametrize(
    "value",
    [
        samples.assignment(), samples.assignment(starting_offsets=None, mapping=None), samples.operation(),
        samples.event(), samples.intent(), samples.runner(), samples.fact(), samples.fact(rows=None, seen=None),
        samples.position(), samples.end(), samples.probe_report(), samples.pin(),
        Stretch(query="q", epoch=1, cluster="east", begin=samples.AT, until=samples.AT, packed=b"\x00\xff"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    assert came_back(value) == value


def test_records_that_were_not_committed_stay_marked() -> None:
    ring = Fingerprints.of(samples.ring(4, 100), uncommitted=[98])
    found = came_back(samples.position(ring=ring))
    assert found.ring.uncommitted == {98}


def test_a_time_is_one_moment_in_every_zone() -> None:
    there = samples.AT.astimezone(timezone(timedelta(hours=2)))
    assert came_back(samples.assignment(changed_at=there)).changed_at == samples.AT
    assert written(samples.assignment(changed_at=there)) == written(samples.assignment(changed_at=samples.AT))
    with pytest.raises(ValueError, match="has no time zone"):
        written(samples.assignment(changed_at=datetime(2026, 1, 1)))  # noqa: DTZ001 - what is to be refused
    sent = written(samples.assignment()) | {"changed_at": "2026-01-01T00:00:00"}
    with pytest.raises(ValueError, match="changed_at: wants a time with its zone"):
        form_of(Assignment).read(sent)
    assert form_of(datetime).read("2026-01-01T00:00:00+00:00").tzinfo is UTC


@pytest.mark.parametrize(
    ("kind", "value", "change", "text"),
    [
        (Assignment, samples.assignment(), {"epoch": "1"}, "epoch: wants an integer of 64 bits, and got str"),
        (Assignment, samples.assignment(), {"epoch": True}, "epoch: wants an integer of 64 bits, and got bool"),
        (Assignment, samples.assignment(), {"epoch": 2**63}, "epoch: wants an integer"),
        (Assignment, samples.assignment(), {"query": None}, "query: wants text, and got NoneType"),
        (Assignment, samples.assignment(), {"desired": "lost"}, "desired: wants a Desired"),
        (Assignment, samples.assignment(), {"starting_offsets": {"s": {"t": {"0": "7"}}}}, "starting_offsets: s: t: 0"),
        (Assignment, samples.assignment(), {"term": 4}, "a Assignment has no term"),
        (Position, samples.position(), {"ring": "AAA="}, "ring: 2 bytes are no ring"),
        (Position, samples.position(), {"ring": "%%"}, "ring: wants base64"),
        (QueryFact, samples.fact(), {"seen": ["/c", 1]}, "seen: wants a SeenCheckpoint, and got list"),
        (QueryFact, samples.fact(), {"stateful": 1}, "stateful: wants true or false"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_with_its_place(kind: Any, value: Any, change: Any, text: str) -> None:
    with pytest.raises(ValueError, match="^" + text):
        form_of(kind).read(written(value) | change)


def test_a_value_without_a_field_is_refused_unless_it_has_a_default() -> None:
    sent = written(samples.assignment())
    del sent["mapping"]
    assert form_of(Assignment).read(sent) == replace(samples.assignment(), mapping=None)
    del sent["epoch"]
    with pytest.raises(ValueError, match="a Assignment needs epoch"):
        form_of(Assignment).read(sent)


@pytest.mark.parametrize("outcome", [CleanedFiles(3, 4096), "it is in use"])
def test_a_value_of_two_types_comes_back_as_its_own(outcome: CleanedFiles | str) -> None:
    form = form_of(CleanedFiles | str)
    assert form.read(json.loads(json.dumps(form.write(outcome)))) == outcome
    with pytest.raises(ValueError, match="wants a CleanedFiles"):
        form.read(3)


def test_numbers_that_are_none_are_refused() -> None:
    assert form_of(float).read(3) == 3.0
    for wrong in (float("nan"), float("inf"), "3", True, None):
        with pytest.raises(ValueError, match="wants a number"):
            form_of(float).read(wrong)
    length = form_of(timedelta)
    assert length.read(length.write(timedelta(days=1, microseconds=1))) == timedelta(days=1, microseconds=1)
    with pytest.raises(ValueError, match="wants an integer"):
        length.read(1.5)


def test_a_plan_that_cannot_be_read_is_damaged() -> None:
    with pytest.raises(Damaged):
        form_of(Operation).read(written(samples.operation()) | {"plan": {"partitions": 7}})


def test_types_that_no_call_has_are_a_mistake() -> None:
    for kind in (set[int], complex, "int"):
        with pytest.raises(TypeError, match="has no form"):
            form_of(kind)
    with pytest.raises(TypeError, match="bytes is not JSON"):
        written(samples.event(detail={"x": b""}))
