"""What is requested over HTTP becomes the request rows of the verbs, with the same gates behind them."""

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from orchestrator.decide.times import instant
from orchestrator.lease import NAME
from state.model.entities import Desired, OperationKind, Phase
from state.store.controller_store import ControllerStore
from streaming.cluster_log import Logs
from tests.served import OPERATOR, VIEWER, Answer, Served, serving
from tests.simulation.conftest import CONFIG
from tests.simulation.world import QUERY, START_MS, World

MOVE = {"query": QUERY, "to": "west", "expect_active": "east", "reason": "east is down"}


@pytest.fixture
def served(world: World, folder: Path) -> Iterator[Served]:
    @contextlib.contextmanager
    def logs(*_: object) -> Iterator[Logs]:
        yield world.clusters.__getitem__

    with serving(folder, config=CONFIG, open_logs=logs) as made:
        yield made


@pytest.fixture
def led(world: World) -> Iterator[None]:
    """Another controller leads, and takes nothing yet."""
    with leading(world.store):
        yield


@contextlib.contextmanager
def leading(store: ControllerStore) -> Iterator[None]:
    lease = store.lead(NAME, "somebody", timedelta(hours=1))
    assert lease is not None
    yield
    store.resign(lease)


def planned(served: Served, **changes: Any) -> dict[str, Any]:
    answer = served.post("/api/plan", {"kind": "failover", "query": QUERY, **changes})
    assert answer.code == 200, answer.body
    return dict(answer.json)


def moved(served: Served, seen: dict[str, Any], *, key: str | None = None, **changes: Any) -> Answer:
    headers = {} if key is None else {"Idempotency-Key": key}
    return served.post("/api/failover", {**MOVE, "plan": seen["hash"], **changes}, headers=headers)


def test_a_move_is_planned_requested_and_followed_to_its_end(world: World, served: Served) -> None:
    seen = planned(served)
    assert (seen["plan"]["from"], seen["plan"]["to"], seen["plan"]["refused"]) == ("east", "west", False)
    assert world.store.open_requests() == []
    with leading(world.store):
        answer = moved(served, seen)
    assert (answer.code, answer.json["operation"], answer.json["refused"]) == (202, None, None)
    request = world.store.request(answer.json["request"])
    assert request is not None
    assert (request.kind, request.target, request.expect_active) == (OperationKind.FAILOVER, "west", "east")
    assert (request.actor, request.reason) == ("anna@http", "east is down")
    assert request.expires_at - request.created_at == timedelta(minutes=2)
    done = world.carry_out(request)
    assert done is not None
    assert (done.outcome, done.actor) == ("done", "anna@http")
    reported = served.call(f"/api/requests/{request.id}", token=VIEWER).json
    assert reported["operation"] == done.id
    assert served.call(f"/api/operations/{done.id}", token=VIEWER).json["outcome"] == "done"


def test_without_a_leader_no_request_is_made(world: World, served: Served) -> None:
    answer = moved(served, planned(served))
    assert (answer.code, answer.kind) == (409, "refused")
    assert served.post("/api/drill", {"query": QUERY}).code == 409
    assert world.store.open_requests() == []


@pytest.mark.usefixtures("led")
def test_a_plan_that_was_not_shown_moves_nothing(world: World, served: Served) -> None:
    seen = planned(served)
    assert moved(served, {"hash": "0" * 64}).code == 409
    assert moved(served, seen, expect_active="west").code == 409
    assert moved(served, seen, consents=["loss"]).code == 409
    assert moved(served, seen, to="east").code == 409
    assert moved(served, planned(served, kind="switchover")).code == 409
    assert world.store.open_requests() == []


@pytest.mark.usefixtures("led")
def test_a_plan_holds_while_the_query_reads_on(world: World, served: Served) -> None:
    seen = planned(served)
    world.track(QUERY, 9, 5_000)
    again = planned(served)
    assert again["hash"] == seen["hash"]
    assert moved(served, seen).code == 202


def test_a_plan_of_before_a_move_does_not_hold_behind_it(world: World, served: Served) -> None:
    seen = planned(served)
    assert world.carry_out(world.request()) is not None
    with leading(world.store):
        assert moved(served, seen).code == 409
        assert moved(served, seen, expect_active="west").code == 409
    assert world.store.open_requests() == []


@pytest.mark.usefixtures("led")
def test_one_key_makes_one_request_and_never_another_one(world: World, served: Served) -> None:
    seen = planned(served)
    first = moved(served, seen, key="night-1")
    assert moved(served, seen, key="night-1").json == first.json
    other = moved(served, seen, key="night-1", reason="another")
    assert (other.code, other.kind) == (400, "usage")
    assert len(world.store.open_requests()) == 1
    assert moved(served, seen, key="night-2").json["request"] != first.json["request"]


@pytest.mark.usefixtures("led")
def test_one_key_at_the_same_time_makes_one_request(world: World, served: Served) -> None:
    seen, reported = planned(served), []
    threads = [
        threading.Thread(target=lambda: reported.append(moved(served, seen, key="twice").json["request"]))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(reported) == 6
    assert len(set(reported)) == len(world.store.open_requests()) == 1


@pytest.mark.usefixtures("led")
def test_a_consent_is_kept_with_the_run_that_it_was_given_for(world: World, served: Served) -> None:
    seen = planned(served, consents=["unfenced"])
    answer = moved(served, seen, consents=["unfenced"])
    request = world.store.request(answer.json["request"])
    assert request is not None
    (consent,) = request.consents
    assert consent.startswith("unfenced (runner a ")


@pytest.mark.usefixtures("led")
def test_a_failback_goes_home_and_nowhere_else(served: Served) -> None:
    answer = served.post("/api/plan", {"kind": "failback", "query": QUERY, "to": "west"})
    assert (answer.code, answer.kind) == (400, "usage")
    assert planned(served, kind="failback")["plan"]["to"] == "east"


def test_a_plan_of_an_impossible_move_is_refused(served: Served) -> None:
    assert served.post("/api/plan", {"kind": "failover", "query": "nothing"}).code == 404
    assert served.post("/api/plan", {"kind": "failover", "query": QUERY, "to": "south"}).code == 400
    assert served.post("/api/plan", {"kind": "rewind", "query": QUERY}).code == 400
    assert served.post("/api/plan", {"kind": "failover", "query": QUERY, "to_time": "-1h"}).code == 400


THEN, EARLIER = (str(instant(START_MS - seconds * 1000)) for seconds in (60, 61))


def test_a_rewind_is_planned_requested_and_done(world: World, served: Served) -> None:
    seen = planned(served, kind="rewind", to_time=THEN)
    assert (seen["plan"]["from"], seen["plan"]["to"], seen["plan"]["refused"]) == ("east", "east", False)
    assert seen["plan"]["totals"]["replay_records"] == 80
    back = {"query": QUERY, "expect_active": "east", "to_time": seen["plan"]["rewind"]["to_time"], "plan": seen["hash"]}
    key = {"Idempotency-Key": "back"}
    with leading(world.store):
        for change in ({"to_time": EARLIER}, {"expect_active": "west"}, {"consents": ["loss"]}):
            assert served.post("/api/rewind", back | change).code == 409
        assert served.post("/api/failover", {**MOVE, "to": "east", "plan": seen["hash"]}).code == 409
        assert world.store.open_requests() == []
        answer = served.post("/api/rewind", back, headers=key)
        assert served.post("/api/rewind", back, headers=key).json == answer.json
        assert served.post("/api/rewind", back | {"to_time": "-59s"}, headers=key).code == 400
    assert (answer.code, answer.json["kind"], answer.json["to"]) == (202, "rewind", "east")
    (request,) = world.store.open_requests()
    assert (request.actor, request.parameters) == ("anna@http", {"to_time": THEN})
    done = world.carry_out(request)
    assert done is not None
    assert (done.kind, done.outcome, done.parameters) == (OperationKind.REWIND, "done", {"to_time": THEN})


@pytest.mark.parametrize(
    "change",
    [{"to_time": "yesterday"}, {"to_time": "2026-01-31T12:00:00"}, {"to": "west"}, {"to": "east"}],
    ids=lambda change: "-".join(change.values()),
)
def test_a_rewind_goes_back_to_a_time_and_to_no_other_cluster(served: Served, change: dict[str, str]) -> None:
    answer = served.post("/api/plan", {"kind": "rewind", "query": QUERY, "to_time": THEN, **change})
    assert (answer.code, answer.kind) == (400, "usage")


def test_an_operation_before_its_commit_is_taken_back(world: World, served: Served) -> None:
    world.runner.proof = None
    blocked = world.carry_out(world.request(), seconds=5)
    assert blocked is not None
    assert blocked.is_open
    requested, key = {"id": blocked.id, "reason": "east is back"}, {"Idempotency-Key": "back"}
    with leading(world.store):
        answer = served.post("/api/cancel", requested, headers=key)
    assert answer.code == 202
    request = world.store.request(answer.json["request"])
    assert request is not None
    ended = world.carry_out(request)
    assert ended is not None
    assert (ended.id, ended.phase, ended.outcome) == (blocked.id, Phase.ABORTED, "refused")
    row = world.store.assignment(QUERY)
    assert row is not None
    assert (row.cluster, row.desired) == ("east", Desired.RUNNING)
    with leading(world.store):
        late = served.post("/api/cancel", {"id": blocked.id})
        again = served.post("/api/cancel", requested, headers=key)
        otherwise = served.post("/api/cancel", {**requested, "id": "nothing"}, headers=key)
    assert (late.code, late.kind) == (409, "refused")
    assert (again.code, again.json["request"], otherwise.code) == (202, request.id, 400)
    assert served.post("/api/cancel", {"id": "nothing"}).code == 404


@pytest.mark.usefixtures("led")
def test_a_drill_can_be_requested_over_http(world: World, served: Served) -> None:
    answer = served.post("/api/drill", {"query": QUERY, "reason": "friday"})
    assert (answer.code, answer.json["kind"], answer.json["to"]) == (202, "drill", "west")
    request = world.store.request(answer.json["request"])
    assert request is not None
    assert (request.actor, request.expect_active, request.consents) == ("anna@http", "east", ())


def test_a_pause_is_made_and_ended_by_the_name_of_the_token(world: World, served: Served) -> None:
    (made,) = served.post("/api/pause", {"query": QUERY, "until": "2h", "reason": "upgrade"}).json
    assert (made["scope"], made["actor"], made["reason"]) == (QUERY, "anna@http", "upgrade")
    assert served.post("/api/pause", {"until": "yesterday"}).code == 400
    (ended,) = served.post("/api/resume", {"query": QUERY}).json
    assert ended["resumed_at"] is not None
    assert served.post("/api/resume", {"query": QUERY}).json == []
    assert served.post("/api/ack", {"query": QUERY}).json == []
    assert [event.actor for event in world.store.history(kind="pause")] == ["anna@http"]


@pytest.mark.parametrize(
    "verb", ["plan", "failover", "switchover", "failback", "rewind", "drill", "cancel", "pause", "resume", "ack"]
)
def test_a_viewer_can_request_nothing(world: World, served: Served, verb: str) -> None:
    body = {"kind": "failover", "id": "op-1", **MOVE, "plan": "0" * 64}
    answer = served.post(f"/api/{verb}", body, token=VIEWER)
    assert (answer.code, answer.kind) == (403, "not-allowed")
    assert served.post(f"/api/{verb}", body, token=None).code == 401
    assert served.call(f"/api/{verb}", token=OPERATOR).code == 405
    assert world.store.pauses() == []
