"""Schedules: typed by a person, kept in the store, requested once by the leader when their time has come."""

import json
from datetime import timedelta
from typing import Any

import pytest

from orchestrator.schedules import request_due
from state.model.automation import Schedule
from state.model.entities import DRILLS, OperationKind
from tests.contract import samples
from tests.contract.samples import term_of
from tests.simulation.test_cli import run, run_json, two
from tests.simulation.world import QUERY, World

__all__ = ["two"]

HOUR = timedelta(hours=1)


def added(world: World, **change: Any) -> Schedule:
    now = world.store.now()
    schedule = samples.schedule(**{"queries": (QUERY,), "created_at": now, "next_at": now + HOUR, **change})
    world.store.add_schedule(schedule, event=samples.event(kind="schedule", operation=None))
    return schedule


def request_due_ones(world: World) -> int:
    term = term_of(world.store)
    return request_due(world.store, world.settings, term=lambda: term)


def test_a_scheduled_switchover_is_requested_at_its_time_and_once() -> None:
    world = World()
    schedule = added(world)
    assert request_due_ones(world) == 0
    world.clock.wait(HOUR.total_seconds())
    assert [request_due_ones(world), request_due_ones(world)] == [1, 0]
    (request,) = world.store.open_requests()
    assert (request.kind, request.query, request.target) == (OperationKind.SWITCHOVER, QUERY, "west")
    assert (request.actor, request.reason) == ("ann@desk", "maintenance (schedule s-1)")
    (left,) = world.store.schedules()
    assert (left.next_at, left.last_at, left.last_outcome) == (
        None, schedule.next_at, "switchover requested as scheduled",
    )  # fmt: skip


def test_a_switchover_that_did_not_begin_in_time_is_missed_and_recorded() -> None:
    world = World()
    added(world)
    world.clock.wait(2 * HOUR.total_seconds())
    assert request_due_ones(world) == 1
    assert world.store.open_requests() == []
    (left,) = world.store.schedules()
    assert left.is_over
    assert world.store.history()[-1].text.startswith(
        "schedule s-1: switchover missed: no controller led for 60 minutes"
    )


def test_a_drill_of_all_queries_comes_again_and_again() -> None:
    world = World()
    added(world, kind=OperationKind.DRILL, queries=(), target=None, cron="0 * * * *")
    for count in (1, 2, 3):
        world.clock.wait(HOUR.total_seconds())
        assert request_due_ones(world) == 1
        assert len(world.store.open_requests(kinds=DRILLS)) == count
        (left,) = world.store.schedules()
        assert left.next_at is not None
        assert timedelta(0) < left.next_at - world.store.now() <= HOUR


def test_only_the_leader_requests_what_is_due() -> None:
    world = World()
    added(world)
    world.clock.wait(HOUR.total_seconds())
    assert request_due(world.store, world.settings, term=lambda: None) == 0
    assert world.store.open_requests() == []


def test_a_person_schedules_lists_and_cancels(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "schedule", "switchover", QUERY, "--to", "west", "--at", "2h", "--reason", "brokers", "-o", "json"
    )
    (made,) = json.loads(out)
    assert (code, made["kind"], made["queries"], made["target"]) == (0, "switchover", QUERY, "west")
    assert "no controller is running now" in err
    code, listed = run_json(capsys, "schedule", "list")
    assert (code, [each["id"] for each in listed]) == (0, [made["id"]])
    code, ended = run_json(capsys, "cancel", made["id"])
    assert (code, ended[0]["cancelled_by"] is not None) == (0, True)
    code, _, err = run(capsys, "cancel", made["id"])
    assert (code, f"schedule {made['id']} is over" in err) == (1, True)
    world.clock.wait(2 * HOUR.total_seconds())
    assert request_due_ones(world) == 0


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (("switchover", QUERY, "--at", "2h"), "a switchover at a time needs --to"),
        (("switchover", QUERY, "--to", "west", "--at", "yesterday"), "'yesterday' is not a time"),
        (("switchover", QUERY, "--to", "west", "--at", "2020-01-01T00:00:00Z"), "is in the past"),
        (("switchover", "--to", "west", "--at", "2h"), "name one or more queries, or use --all"),
        (("switchover", QUERY, "--to", "north", "--at", "2h"), "cluster 'north' is not declared"),
        (("drill", QUERY, "--cron", "0 3 * *"), "has 4 fields, and cron has five"),
        (("drill", QUERY, "--cron", "0 3 30 2 *"), "never comes"),
        (("drill", QUERY, "--cron", "0 3 * * *", "--zone", "Mars"), "'Mars' is not a time zone"),
        (("drill", "nothing", "--cron", "0 3 * * *"), "query 'nothing' is not declared"),
    ],
)
@pytest.mark.usefixtures("world")
def test_a_schedule_that_cannot_be_is_refused_with_one_sentence(
    capsys: pytest.CaptureFixture[str], typed: tuple[str, ...], sentence: str
) -> None:
    code, _, err = run(capsys, "schedule", *typed)
    assert (code, sentence in err) == (2, True), err
