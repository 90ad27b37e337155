"""An operator acts on the page: planned first, then the button; what was seen is what is begun, or nothing is."""

import re
from html import unescape
from urllib.parse import urlencode

import pytest

from state.model.entities import OperationKind, Phase
from tests.served import OPERATOR, VIEWER, Answer, Served
from tests.simulation.test_http_pages import look, text_of
from tests.simulation.test_http_pages import served as served  # a fixture
from tests.simulation.test_http_writes import THEN, leading
from tests.simulation.test_http_writes import led as led  # a fixture
from tests.simulation.world import QUERY, World

Fields = dict[str, str]


def send(served: Served, path: str, fields: Fields, token: str | None = OPERATOR, **headers: str) -> Answer:
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
    own = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.call(path, token=token, method="POST", headers={**kind, **own}, body=urlencode(fields).encode())


def form(answer: Answer, action: str) -> Fields | None:
    """The hidden fields of a form, as a browser would send them back; None where there is no such form."""
    found = re.search(rf'<form method="post" action="{re.escape(action)}".*?</form>', answer.body.decode(), re.DOTALL)
    if found is None:
        return None
    pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', found[0])
    return {name: unescape(value) for name, value in pairs}


MOVE = f"/queries/{QUERY}/move"


def planned(served: Served, **fields: str) -> Answer:
    answer = send(served, f"/queries/{QUERY}/plan", {"kind": "failover", **fields})
    assert answer.code == 200, answer.body
    return answer


def button(served: Served, **fields: str) -> Fields:
    found = form(planned(served, **fields), MOVE)
    assert found is not None
    return found


def test_a_move_is_planned_then_begun_by_its_button_and_followed(world: World, served: Served) -> None:
    plan = planned(served)
    assert (
        f"Plan: failover of {QUERY} from east to west Reads 0 records twice, leaves 20 records behind, "
        "takes an unknown time. Every gate passes."
    ) in text_of(plan)
    assert re.search(r"\d+ gates pass, with measure and limit", text_of(plan))
    assert "Note" not in text_of(plan), "a column without a word in it is left out"
    assert world.store.open_requests() == []
    fields = form(plan, MOVE)
    assert fields is not None
    assert (fields["expect_active"], fields["to"]) == ("east", "west")
    with leading(world.store):
        requested = send(served, MOVE, fields | {"reason": "east <b>is</b> down"})
    assert requested.code == 303
    (request,) = world.store.open_requests()
    assert requested.headers["Location"] == f"/requests/{request.id}"
    assert (request.actor, request.reason, request.expect_active) == ("anna@http", "east <b>is</b> down", "east")
    waiting = look(served, requested.headers["Location"])
    assert "The request is written." in text_of(waiting)
    assert b"<b>" not in waiting.body
    done = world.carry_out(request)
    assert done is not None
    assert look(served, requested.headers["Location"]).headers["Location"] == f"/operations/{done.id}"


@pytest.mark.usefixtures("led")
def test_a_rewind_is_planned_then_begun_by_its_button(world: World, served: Served) -> None:
    plan = planned(served, kind="rewind", to_time=THEN)
    assert f"Plan: rewind of {QUERY} on east to {THEN} Reads 80 records twice, takes an unknown time." in text_of(plan)
    assert f"Rewind {QUERY} to {THEN}" in text_of(plan)
    fields = form(plan, MOVE)
    assert fields is not None
    assert form(plan, f"/queries/{QUERY}/plan") == {"kind": "rewind", "to_time": THEN}
    assert send(served, MOVE, fields | {"to_time": "-59s"}).code == 409
    assert send(served, MOVE, fields).code == 303
    (request,) = world.store.open_requests()
    assert (request.kind, request.parameters) == (OperationKind.REWIND, {"to_time": THEN})


@pytest.mark.usefixtures("led")
def test_a_button_that_is_pressed_twice_makes_one_request(world: World, served: Served) -> None:
    fields = button(served)
    first, second = send(served, MOVE, fields), send(served, MOVE, fields)
    assert first.headers["Location"] == second.headers["Location"]
    assert len(world.store.open_requests()) == 1


@pytest.mark.usefixtures("led")
@pytest.mark.parametrize(
    "change",
    [{"plan": "0" * 64}, {"expect_active": "west"}, {"to": "east"}, {"consents": "loss"}, {"kind": "switchover"}],
    ids=lambda change: next(iter(change)),
)
def test_a_button_of_another_plan_begins_nothing(world: World, served: Served, change: Fields) -> None:
    answer = send(served, MOVE, button(served) | change)
    assert answer.code == 409
    assert b"Nothing was requested" in answer.body
    assert world.store.open_requests() == []


@pytest.mark.usefixtures("led")
@pytest.mark.parametrize(
    "change",
    [{"plan": ""}, {"plan": "x"}, {"key": ""}, {"key": "x"}, {"kind": "rewind"}, {"kind": ""}, {"to": ""},
     {"consents": "everything"}, {"reason": "x" * 501}, {"expect_active": "<script>"}],
    ids=lambda change: "-".join(map(repr, change.items())),
)  # fmt: skip
def test_a_form_that_is_not_as_it_was_given_is_refused(world: World, served: Served, change: Fields) -> None:
    answer = send(served, MOVE, button(served) | change)
    assert answer.code == 400
    assert b"<script>" not in answer.body
    assert world.store.open_requests() == []


def test_a_plan_that_is_refused_has_no_button_until_a_consent_is_typed(world: World, served: Served) -> None:
    world.clusters["west"].reachable = False
    refused = planned(served)
    assert "Refused. standby-reachable" in text_of(refused)
    assert form(refused, MOVE) is None
    assert form(refused, f"/queries/{QUERY}/plan") == {"kind": "failover", "to": "west"}


@pytest.mark.usefixtures("led")
def test_a_consent_that_was_typed_goes_with_the_move(world: World, served: Served) -> None:
    fields = button(served, consents="loss, repeats")
    assert fields["consents"] == "loss repeats"
    assert send(served, MOVE, fields).code == 303
    (request,) = world.store.open_requests()
    assert set(request.consents) == {"loss", "repeats"}


@pytest.mark.usefixtures("led")
def test_a_rehearsal_is_planned_and_begun_alike(world: World, served: Served) -> None:
    requested = send(served, MOVE, button(served, kind="drill") | {"reason": "friday"})
    request = world.store.request(requested.headers["Location"].rpartition("/")[2])
    assert request is not None
    assert (request.kind, request.reason, request.actor) == (OperationKind.DRILL, "friday", "anna@http")


def test_without_a_leader_the_button_begins_nothing(world: World, served: Served) -> None:
    answer = send(served, MOVE, button(served))
    assert answer.code == 409
    assert b"no controller leads" in answer.body
    assert world.store.open_requests() == []


def test_an_open_operation_has_a_button_that_takes_it_back(world: World, served: Served) -> None:
    world.runner.proof = None
    blocked = world.carry_out(world.request(), seconds=5)
    assert blocked is not None
    path, cancel = f"/operations/{blocked.id}", f"/operations/{blocked.id}/cancel"
    assert form(look(served, path, VIEWER), cancel) is None
    fields = form(look(served, path, OPERATOR), cancel)
    assert fields == {"query": QUERY}
    with leading(world.store):
        requested = send(served, cancel, fields | {"reason": "east is back"})
    assert requested.code == 303
    request = world.store.request(requested.headers["Location"].rpartition("/")[2])
    assert request is not None
    assert (request.actor, request.reason) == ("anna@http", "east is back")
    ended = world.carry_out(request)
    assert ended is not None
    assert (ended.id, ended.phase) == (blocked.id, Phase.ABORTED)
    assert form(look(served, path, OPERATOR), cancel) is None
    with leading(world.store):
        assert send(served, cancel, fields).code == 409


def test_a_pause_of_all_or_of_one_is_made_and_ended_by_buttons(world: World, served: Served) -> None:
    assert send(served, "/pause", {"query": "", "until": "2h", "reason": "upgrade"}).headers["Location"] == "/"
    assert send(served, "/pause", {"query": QUERY}).headers["Location"] == f"/queries/{QUERY}"
    assert [(each.scope, each.actor, each.reason) for each in world.store.pauses()] == [
        ("*", "anna@http", "upgrade"), (QUERY, "anna@http", ""),
    ]  # fmt: skip
    assert send(served, "/resume", {"query": QUERY}).code == 303
    assert send(served, "/resume", {"query": ""}).code == 303
    assert [each.resumed_at is not None for each in world.store.pauses()] == [True, True]
    assert send(served, "/pause", {"until": "yesterday"}).code == 400
    assert send(served, "/ack", {"query": QUERY}).headers["Location"] == f"/queries/{QUERY}"


FORMS = (f"/queries/{QUERY}/plan", MOVE, "/operations/none/cancel", "/pause", "/resume", "/ack")


@pytest.mark.parametrize("path", FORMS)
def test_a_viewer_has_no_button_and_gets_nowhere_without_it(world: World, served: Served, path: str) -> None:
    fields = {"kind": "failover", "query": QUERY, "key": "0" * 32}
    assert send(served, path, fields, token=VIEWER).code == 403
    assert send(served, path, fields, token=None).headers["Location"] == "/login"
    assert send(served, path, fields, Origin="https://evil.example").code == 403
    assert world.store.pauses() == world.store.open_requests() == []


def test_an_operator_sees_buttons_and_a_viewer_none(world: World, served: Served) -> None:
    for path in ("/", f"/queries/{QUERY}"):
        assert b"<form method=" in look(served, path, OPERATOR).body.replace(b'action="/logout"', b"")
        forms = re.findall(r'method="post" action="([^"]+)"', look(served, path, VIEWER).body.decode())
        assert forms == ["/logout"]
