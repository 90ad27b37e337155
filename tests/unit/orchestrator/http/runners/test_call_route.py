"""Calls of runners at the real server: by their own token alone, bounded, and checked before anything is read."""

import contextlib
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from orchestrator.http.runners import call_answers
from state.model.entities import IntentState
from state.store.controller_store import ControllerStore
from state.store.remote.runner_calls import CALLS, MAX_BODY_BYTES, PATH
from tests.contract import samples
from tests.contract.samples import held, term_of
from tests.served import ENVIRONMENT, OPERATOR, TOKENS, VIEWER, Answer, Served, serving
from tests.waiting import THREAD_SECONDS

RUNNER = "runner-0123456789abcdef"
MORE = TOKENS + '    - {name: a, role: runner, runner: a, token: "env:RUNNER"}\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(ENVIRONMENT, "RUNNER", RUNNER)
        with serving(tmp_path_factory.mktemp("served"), tokens=MORE) as made:
            yield made


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """For a test that changes what is stored."""
    monkeypatch.setitem(ENVIRONMENT, "RUNNER", RUNNER)
    with serving(tmp_path, tokens=MORE) as made:
        yield made


@pytest.fixture
def store(fresh: Served) -> ControllerStore:
    assert fresh.server._store is not None
    return fresh.server._store


def called(served: Served, name: str, body: object, *, token: str | None = RUNNER) -> Answer:
    return served.post(f"{PATH}/{name}", body, token=token)


def test_a_runner_gets_what_is_its_own(served: Served) -> None:
    answer = called(served, "assignments", {})
    assert (answer.code, answer.json) == (200, {"result": []})
    refused = called(served, "assignment", {"query": "other"})
    assert (refused.code, refused.kind) == (403, "not-allowed")
    assert refused.json["error"]["text"] == "the token of runner a does not include query other"


@pytest.mark.parametrize(
    "path", ["/api/status", "/api/queries/revenue", "/api/openapi.json", "/metrics", "/events", "/"]
)
def test_a_runner_sees_nothing_else(served: Served, path: str) -> None:
    answer = served.call(path, token=RUNNER)
    assert (answer.code, answer.kind) == (403, "not-allowed")
    assert answer.json["error"]["text"] == "the token of a runner serves its own calls alone"


def test_a_runner_requests_no_move_and_no_page(served: Served) -> None:
    for path in ("/api/plan", "/api/failover", "/api/pause"):
        assert called(served, "now", {}).code == 200
        assert served.post(path, {}, token=RUNNER).code == 403
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{served.port}"}
    login = served.call("/login", method="POST", body=f"token={RUNNER}".encode(), headers=form)
    assert login.code == 403
    assert "set-cookie" not in login.headers
    assert b"This is the token of a runner" in login.body


@pytest.mark.parametrize(
    ("token", "code"), [(VIEWER, 403), (OPERATOR, 403), (None, 401), ("guess-0123456789abcdef", 401)]
)
def test_no_other_token_makes_a_call(served: Served, token: str | None, code: int) -> None:
    assert called(served, "now", {}, token=token).code == code


@pytest.mark.parametrize(
    ("name", "body", "code", "text"),
    [
        ("positions", {}, 404, "a runner has no call 'positions'"),
        ("assignment", {}, 400, "assignment: wants query"),
        ("assignment", {"query": 1}, 400, "assignment: query: wants text, and got int"),
        ("assignments", [], 400, "assignments: wants no arguments"),
    ],
)
def test_a_wrong_call_is_refused_in_one_sentence(served: Served, name: str, body: object, code: int, text: str) -> None:
    answer = called(served, name, body)
    assert (answer.code, answer.json["error"]["text"]) == (code, text)


def test_a_body_is_bounded_and_of_json(served: Served) -> None:
    long = {"Content-Type": "application/json", "Content-Length": str(MAX_BODY_BYTES + 1)}
    assert served.call(f"{PATH}/now", token=RUNNER, method="POST", headers=long, body=b"{}").code == 413
    assert served.call(f"{PATH}/now", token=RUNNER, method="POST", body=b"{}").code == 415
    sent = {"Content-Type": "application/json"}
    assert served.call(f"{PATH}/now", token=RUNNER, method="POST", headers=sent, body=b"{").code == 400
    nested = b'{"query":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    assert served.call(f"{PATH}/assignment", token=RUNNER, method="POST", headers=sent, body=nested).code == 400
    assert served.call(f"{PATH}/now", token=RUNNER).code == 405


def test_a_connection_stays_behind_a_body_that_was_read(served: Served) -> None:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=THREAD_SECONDS)
    headers = {"Authorization": f"Bearer {RUNNER}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        for path, body, kept in ((f"{PATH}/now", "{}", True), (f"{PATH}/now", "[]", True), ("/api/plan", "{}", False)):
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            response.read()
            assert (response.headers["connection"] != "close", connection.sock is not None) == (kept, kept)


def test_the_answer_of_one_runner_ends_no_order_of_another(fresh: Served, store: ControllerStore) -> None:
    """The id in a report is the runner's word; whose order that is, the store knows."""
    term = held(store)
    store.record(samples.operation(), term=term, intents=[samples.intent(runner="b")])
    done = samples.intent(runner="a", state=IntentState.DONE, result={}, ended_at=samples.AT)
    answer = called(fresh, "report", json.loads(CALLS["report"].write({"intent": done})))
    assert (answer.code, answer.json) == (200, {"result": False})
    assert [each.state for each in store.intents("op-1")] == [IntentState.PENDING]


def test_a_runner_waits_for_a_change_of_its_own(fresh: Served, store: ControllerStore) -> None:
    def marked(mark: str) -> str:
        return str(called(fresh, "await_change", {"mark": mark, "seconds": 0.05}).json["result"])

    first = marked("")
    assert marked(first) == first
    store.adopt(samples.assignment(query="other", runner="b"))
    assert marked(first) == first
    store.report_query(samples.fact())
    assert marked(first) == first
    store.adopt(samples.assignment())
    row = marked(first)
    assert row != first
    term = term_of(store)
    store.record(samples.operation(), term=term, intents=[samples.intent(id="i-2", name="x", runner="b")])
    assert marked(row) == row
    store.record(samples.operation(), term=term, intents=[samples.intent()])
    assert marked(row) != row


def test_a_server_that_ends_lets_its_waiting_runners_go(served: Served) -> None:
    calls = call_answers.RunnerCalls(served.server._store, served.server.settings)  # type: ignore[arg-type]
    mark = json.loads(calls.answer("a", "await_change", b'{"mark":"","seconds":0}'))["result"]
    calls.close()
    body = json.dumps({"mark": mark, "seconds": 5.0}).encode()
    assert json.loads(calls.answer("a", "await_change", body))["result"] == mark
