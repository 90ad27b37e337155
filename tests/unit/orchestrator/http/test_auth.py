"""Ways to get in where one does not belong, each against a server that runs."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.http import auth, server, waits
from orchestrator.http.auth import GUESSES, Gatekeeper, Principal, Role
from orchestrator.http.events import CLIENTS
from orchestrator.http.requests.writes import actor_of
from state.model.automation import AUTOMATIC
from state.settings.keys import HttpToken
from tests.served import OPERATOR, VIEWER, Served, received, serving

GUARDED = (
    "/api/status", "/api/clusters", "/api/queries", "/api/queries/revenue", "/api/queries/revenue/timeline",
    "/api/queries/revenue/samples",
    "/api/operations", "/api/operations/op-1", "/api/history", "/api/config", "/api/openapi.json", "/events",
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    """For a test that is locked out."""
    with serving(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Without tokens, so for everybody on this host."""
    with serving(tmp_path_factory.mktemp("unguarded"), tokens="\n") as made:
        yield made


@pytest.mark.parametrize("path", GUARDED)
def test_no_path_answers_without_a_token(served: Served, path: str) -> None:
    answer = served.call(path)
    assert (answer.code, answer.kind) == (401, "no-token")
    assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/", "/nowhere", "/docs", "/api", "/.env", "/static/../tideover.yaml"])
def test_a_stranger_does_not_learn_which_paths_there_are(served: Served, path: str) -> None:
    assert served.call(path).code == 401


@pytest.mark.parametrize(
    "path",
    [
        "//api/status", "/api//status", "/api/./status", "/healthz/../api/status", "/healthz/..%2fapi/status",
        "/%68ealthz/../api/config", "/API/STATUS", "/api/status/", "/api/status;/healthz", "/healthz%00/api/status",
        "/api/status%23/healthz", "/api/config?/healthz",
    ],
)  # fmt: skip
def test_no_spelling_of_a_path_leads_past_the_guard(served: Served, path: str) -> None:
    assert served.call(path).code == 401


@pytest.mark.parametrize("target", ["http://127.0.0.1/api/status", "/healthz /api/status", "*", "api/status"])
def test_no_form_of_a_target_leads_past_the_guard(served: Served, target: str) -> None:
    came = served.send(f"GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".encode())
    assert came.split(b" ")[1] in {b"400", b"401"}


@pytest.mark.parametrize(
    "given",
    [
        "", "Bearer", "Bearer ", "Bearer x", f"Bearer {VIEWER}x", f"Bearer {VIEWER[:-1]}", f"Bearer {VIEWER.upper()}",
        f"Basic {VIEWER}", VIEWER, f"Bearer {VIEWER} {OPERATOR}", f"Bearer {VIEWER},{OPERATOR}", "Bearer null",
        "Bearer dashboard", "Bearer env:VIEWER", "Bearer \xff\xfe",
    ],
)  # fmt: skip
def test_nothing_but_a_whole_token_is_one(tmp_path: Path, given: str) -> None:
    gate = keeper()
    assert gate.principal_of([given], "10.0.0.1") is None


def keeper(now: float = 0.0) -> Gatekeeper:
    token = HttpToken.model_validate({"name": "dashboard", "role": "viewer", "token": VIEWER})
    return Gatekeeper((token,), lambda: now)


def test_a_wrong_token_is_refused_over_the_wire(fresh: Served) -> None:
    assert fresh.call("/api/status", token=VIEWER + "x").code == 401
    assert fresh.call("/api/status", token=VIEWER).code == 200


def test_two_tokens_in_one_request_are_none(fresh: Served) -> None:
    head = (
        f"GET /api/status HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {VIEWER}\r\nAuthorization: Bearer {OPERATOR}\r\n"
    )
    assert fresh.send(f"{head}Connection: close\r\n\r\n".encode()).split(b" ")[1] == b"401"


@pytest.mark.parametrize("path", ["/api/status?token=" + VIEWER, "/api/status?access_token=" + VIEWER])
def test_a_token_in_the_path_counts_for_nothing(served: Served, path: str) -> None:
    assert served.call(path).code == 401


def test_a_token_in_a_cookie_counts_for_nothing(served: Served) -> None:
    assert served.call("/api/status", headers={"Cookie": f"token={VIEWER}; session={VIEWER}"}).code == 401


@pytest.mark.parametrize("name", ["X-Forwarded-User", "X-Remote-User", "Proxy-Authorization", "X-Original-URL"])
def test_headers_of_a_proxy_give_no_identity(served: Served, name: str) -> None:
    assert served.call("/api/status", headers={name: "anna"}).code == 401


def test_an_address_that_guesses_waits_and_its_valid_tokens_still_pass(fresh: Served) -> None:
    assert {fresh.call("/api/status", token=f"guess-{index}").code for index in range(GUESSES)} == {401}
    locked = fresh.call("/api/status", token="one-guess-too-many")
    assert (locked.code, locked.kind, locked.headers["Retry-After"]) == (429, "too-many-guesses", "60")
    assert fresh.call("/api/status", token=VIEWER).code == 200
    assert fresh.call("/healthz").code == 200


def test_a_forwarded_address_does_not_give_new_guesses(fresh: Served) -> None:
    codes = [
        fresh.call("/api/status", token="guess", headers={"X-Forwarded-For": f"10.0.0.{index}"}).code
        for index in range(GUESSES + 1)
    ]
    assert codes == [401] * GUESSES + [429]


def test_addresses_of_one_network_share_their_guesses() -> None:
    gate = keeper()
    for index in range(GUESSES):
        assert gate.principal_of(["Bearer guess"], f"2001:db8::{index:x}") is None
    with pytest.raises(auth.TooManyGuesses):
        gate.principal_of(["Bearer guess"], "2001:db8::ffff:1")
    assert gate.principal_of(["Bearer guess"], "2001:db8:0:1::1") is None


def test_the_guesses_of_an_address_are_forgotten_after_a_minute() -> None:
    now = [0.0]
    gate = keeper()
    gate.monotonic = lambda: now[0]
    for _ in range(GUESSES):
        gate.principal_of(["Bearer guess"], "10.0.0.1")
    with pytest.raises(auth.TooManyGuesses):
        gate.principal_of(["Bearer guess"], "10.0.0.1")
    now[0] = auth.GUESSES_SECONDS + 1
    assert gate.principal_of(["Bearer guess"], "10.0.0.1") is None


def test_many_addresses_do_not_fill_the_memory() -> None:
    gate = keeper()
    for index in range(3000):
        gate.principal_of(["Bearer guess"], f"10.{index // 250}.{index % 250}.1")
    assert len(gate._guesses) == auth._ADDRESSES


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"])
def test_no_method_but_get_does_anything_to_what_is_read(served: Served, method: str) -> None:
    assert served.call("/api/config", token=OPERATOR, method=method).code == 405


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_a_request_with_another_host_name_is_refused(unguarded: Served, host: str) -> None:
    answer = unguarded.call("/api/status", headers={"Host": host})
    assert (answer.code, answer.kind) == (421, "wrong-host")


@pytest.mark.parametrize("host", ["localhost", "localhost:8340", "127.0.0.1:8340", "[::1]:8340", "LOCALHOST"])
def test_without_tokens_everybody_on_this_host_may_look(unguarded: Served, host: str) -> None:
    assert unguarded.call("/api/status", headers={"Host": host}).code == 200


def test_no_other_origin_may_read_an_answer(unguarded: Served) -> None:
    answer = unguarded.call("/api/status", headers={"Origin": "https://evil.example"})
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/healthz", "/api/status", "/nowhere"])
def test_every_answer_forbids_scripts_frames_and_guesses_of_type(served: Served, path: str) -> None:
    headers = served.call(path).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
    assert "server" not in {name.lower() for name in headers}


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "%3Cscript%3E", "..%2F..%2Fetc%2Fpasswd", "a%0d%0aX: y"])
def test_a_name_that_nothing_has_is_not_repeated(served: Served, name: str) -> None:
    answer = served.call(f"/api/queries/{name.replace(' ', '%20')}", token=VIEWER)
    assert answer.code == 404
    assert b"<" not in answer.body
    assert b"passwd" not in answer.body
    assert "X" not in answer.headers


def test_a_parameter_that_is_wrong_is_no_markup(served: Served) -> None:
    answer = served.call("/api/history?limit=%3Cscript%3E&nonsense=1", token=VIEWER)
    assert (answer.code, answer.kind) == (400, "usage")
    assert b"<" not in answer.body
    assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "requested",
    ["limit=0", "limit=10001", "limit=-1", "limit=1e9", "since=-1", "nonsense=1", "limit=1&limit=2", "since=1;drop"],
)
def test_a_parameter_out_of_its_limits_is_refused(served: Served, requested: str) -> None:
    answer = served.call(f"/api/history?{requested}", token=VIEWER)
    assert (answer.code, answer.kind) == (400, "usage")


def test_a_name_is_not_a_piece_of_sql(served: Served) -> None:
    answer = served.call("/api/operations?query=x'%20OR%20'1'='1", token=VIEWER)
    assert (answer.code, answer.json) == (200, [])


def test_a_long_parameter_is_refused(served: Served) -> None:
    assert served.call("/api/history?query=" + "x" * 3000, token=VIEWER).code == 414


def test_a_huge_head_is_not_read_to_its_end(served: Served) -> None:
    came = served.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 200_000)
    assert came == b"" or came.split(b" ")[1] == b"400"


def test_a_body_is_refused_before_it_is_read(served: Served) -> None:
    head = (
        f"GET /api/status HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Length: 1000000000\r\n\r\n"
    )
    assert served.send(head.encode()).split(b" ")[1] == b"413"


def test_a_body_in_chunks_without_an_end_is_refused(served: Served) -> None:
    head = "POST /healthz HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    assert served.send(head.encode()).split(b" ")[1] == b"413"


def test_two_lengths_that_differ_smuggle_no_request(served: Served) -> None:
    head = "GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\nGET /api/config HTTP/1.1"
    assert served.send(head.encode()).split(b" ")[1] == b"400"


def test_a_length_and_chunks_together_smuggle_no_request(served: Served) -> None:
    head = "POST /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET "
    assert served.send(head.encode()).split(b" ")[1] in {b"400", b"413"}


def test_a_header_with_a_line_feed_inside_is_refused(served: Served) -> None:
    came = served.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\nX: a\nAuthorization : b\r\n\r\n")
    assert came.split(b" ")[1] == b"400"


def test_rubbish_is_answered_and_ended(served: Served) -> None:
    assert served.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").split(b" ")[1] == b"400"


def test_a_web_socket_does_not_open(served: Served) -> None:
    upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(f"GET /api/status HTTP/1.1\r\nHost: h\r\n{upgrade}\r\n".encode())
        assert connection.recv(65_536).split(b" ")[1] == b"401"


def test_a_client_that_never_ends_its_head_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADERS_SECONDS", 0.3)
    with serving(tmp_path) as served, socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        assert received(slow) == b""


def test_a_client_that_sends_nothing_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADERS_SECONDS", 0.3)
    with serving(tmp_path) as served, socket.create_connection(("127.0.0.1", served.port), timeout=60) as idle:
        assert received(idle) == b""


def test_a_second_head_that_never_ends_is_let_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADERS_SECONDS", 0.3)
    monkeypatch.setattr(server, "IDLE_SECONDS", 1)
    with serving(tmp_path) as served, socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /healthz HTTP/1.1\r\nX: ")
        assert received(slow).count(b"HTTP/1.1 200") == 1


def test_more_connections_than_there_is_room_for_are_turned_away(fresh: Served) -> None:
    crowd = [socket.create_connection(("127.0.0.1", fresh.port), timeout=60) for _ in range(server.CONNECTIONS)]
    try:
        assert fresh.call("/healthz").code == 503
    finally:
        for each in crowd:
            each.close()


def test_five_hundred_followers_of_the_history_block_no_other_client(fresh: Served) -> None:
    requested = f"GET /events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {VIEWER}\r\n\r\n".encode()
    crowd = [socket.create_connection(("127.0.0.1", fresh.port), timeout=60) for _ in range(500)]
    try:
        for each in crowd:
            each.sendall(requested)
        codes = Counter(each.recv(12) for each in crowd)
        assert codes == {b"HTTP/1.1 200": CLIENTS, b"HTTP/1.1 503": 500 - CLIENTS}
        assert fresh.call("/healthz").code == fresh.call("/api/status", token=VIEWER).code == 200
    finally:
        for each in crowd:
            each.close()


def test_many_clients_at_once_are_all_answered(served: Served) -> None:
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(served.call("/api/status", token=VIEWER).code)) for _ in range(30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert codes == [200] * 30


def test_the_configuration_shows_no_token(served: Served) -> None:
    answer = served.call("/api/config", token=VIEWER)
    assert answer.code == 200
    assert VIEWER not in answer.body.decode()
    assert OPERATOR not in answer.body.decode()
    assert [each["name"] for each in answer.json["http"]["tokens"]] == ["dashboard", "anna"]


def test_markup_in_what_is_known_is_escaped(served: Served) -> None:
    assert json.loads(served.call("/api/openapi.json", token=VIEWER).body)["openapi"] == "3.1.0"
    assert b"<" not in served.call("/api/openapi.json", token=VIEWER).body


OTHER_ORIGINS = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", OTHER_ORIGINS, ids=str)
def test_a_page_from_elsewhere_writes_nothing(served: Served, headers: dict[str, str]) -> None:
    answer = served.post("/api/pause", {}, headers=headers)
    assert (answer.code, answer.kind) == (403, "other-origin")
    assert served.call("/api/status", token=VIEWER).json["pauses"] == []


def test_a_page_of_another_scheme_is_from_elsewhere(fresh: Served) -> None:
    for origin in (f"https://127.0.0.1:{fresh.port}", f"127.0.0.1:{fresh.port}"):
        assert fresh.post("/api/pause", {}, headers={"Origin": origin}).code == 403


def test_a_page_of_our_own_may_write(fresh: Served) -> None:
    own = {"Origin": f"http://127.0.0.1:{fresh.port}", "Sec-Fetch-Site": "same-origin"}
    assert fresh.post("/api/pause", {"reason": "own"}, headers=own).code == 200


def test_without_tokens_no_client_writes(unguarded: Served) -> None:
    answer = unguarded.post("/api/pause", {}, token=None)
    assert (answer.code, answer.kind) == (403, "not-allowed")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_of_a_form_is_not_taken(served: Served, kind: str) -> None:
    assert served.post("/api/pause", {}, headers={"Content-Type": kind}).code == 415


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b'"x"', b"[" * 10_000, b'{"query": "\xff"}', b'{"query": "<script>"}',
        b'{"query": "revenue", "query": "sums"}', b'{"query": "../x"}', b'{"query": 1}', b'{"actor": "bob"}',
        b'{"reason": "' + b"x" * 501 + b'"}', b'{"until": "never"}', b'{"until": "-1h"}',
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)  # fmt: skip
def test_a_body_that_is_wrong_changes_nothing(served: Served, body: bytes) -> None:
    answer = served.call(
        "/api/pause", token=OPERATOR, method="POST", headers={"Content-Type": "application/json"}, body=body
    )
    assert (answer.code, answer.kind) == (400, "usage")
    assert b"<" not in answer.body
    assert served.call("/api/status", token=VIEWER).json["pauses"] == []


def test_letters_that_cannot_be_seen_are_cleaned_from_a_reason(fresh: Served) -> None:
    assert fresh.post("/api/pause", {"reason": "a\nb\x1b[31m\x9b\u202ec\u2028d"}).code == 200
    (pause,) = fresh.call("/api/status", token=VIEWER).json["pauses"]
    assert pause["reason"] == "a b\ufffd[31m\ufffd\ufffdc d"


def test_a_body_that_is_too_large_is_not_read(served: Served) -> None:
    assert served.post("/api/pause", {"reason": "x" * 20_000}).code == 413


def test_a_body_in_chunks_is_not_read(served: Served) -> None:
    head = (
        f"POST /api/pause HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {OPERATOR}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert served.send(head.encode()).split(b" ")[1] == b"413"


def test_a_body_that_never_comes_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "BODY_SECONDS", 0.3)
    head = f"POST /api/pause HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {OPERATOR}\r\n"
    with serving(tmp_path) as served:
        came = served.send(f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{".encode())
    assert came.split(b" ")[1] == b"408"


def test_a_stranger_with_a_body_keeps_no_connection(served: Served) -> None:
    came = served.send(b"POST /api/pause HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{")
    assert came.split(b" ")[1] == b"401"
    assert b"\r\nconnection: close\r\n" in came


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_a_key_that_is_too_short_or_long_is_refused(served: Served, key: str) -> None:
    answer = served.post("/api/drill", {"query": "revenue"}, headers={"Idempotency-Key": key})
    assert (answer.code, answer.kind) == (400, "usage")


def test_a_token_with_the_name_of_automatic_mode_is_not_its_actor() -> None:
    assert actor_of(Principal("auto", Role.OPERATOR)) != AUTOMATIC


@pytest.mark.parametrize(
    "body", [b'{"query": "revenue", "query": "sums"}', b'{"query": "revenue", "more": {"a": 1, "a": 1}}']
)
def test_a_body_with_a_key_twice_is_refused_and_nothing_is_done(served: Served, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = served.call("/api/pause", token=OPERATOR, method="POST", headers=headers, body=body)
    assert answer.code == 400
    assert served.call("/api/status", token=VIEWER).json["pauses"] == []
    if b"more" not in body:
        assert answer.json["error"]["text"] == "a key of the body is given twice"
