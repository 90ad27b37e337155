"""A token from a provider of the tests, and each answer that is none, without the secret in a sentence."""

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka import errors

from state.error_meanings import Meaning
from state.model.cluster_status import Fault
from state.settings.security import ClientCredentials
from streaming.errors import CredentialRefused
from streaming.kafka.errors import trouble_of
from streaming.kafka.login import client_credentials as module
from streaming.kafka.login.client_credentials import fetch
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.security import hindrance
from tests.ports import free_port
from tests.tokens import TokenServer, encoded, serving_tokens

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    with serving_tokens(tmp_path_factory.mktemp("tokens"), {"ann": SECRET}) as server:
        yield server


@pytest.fixture
def tokens(server: TokenServer) -> Iterator[TokenServer]:
    yield server
    server.answer = None


def client(tokens: TokenServer, **more: Any) -> ClientCredentials:
    known = {"mechanism": "OAUTHBEARER", "token_endpoint": tokens.token_endpoint, "client_id": "ann"}
    return ClientCredentials.model_validate({**known, "client_secret": SECRET, "scope": "kafka", **more})


def test_a_token_comes_with_its_lifetime(tokens: TokenServer) -> None:
    token = fetch(client(tokens))
    assert token.text.count(".") == 2
    assert token.seconds == tokens.seconds


def test_a_lifetime_that_the_answer_lacks_is_read_from_the_token(tokens: TokenServer) -> None:
    made = ".".join(encoded(each) for each in (b"{}", b'{"exp": 1100}', b"x"))
    tokens.answer = 200, {"access_token": made}
    assert fetch(client(tokens), wall=lambda: 1000.0).seconds == 100.0
    with pytest.raises(CredentialRefused, match="expired already"):
        fetch(client(tokens), wall=lambda: 1200.0)


@pytest.mark.parametrize(
    ("answer", "meaning", "words"),
    [
        ((401, {"error": "invalid_client", "error_description": "no such client"}), Meaning.REFUSED,
         "answers 401 Unauthorized: invalid_client: no such client"),
        ((400, {"error": "invalid_client", "error_description": f"{SECRET} is wrong"}), Meaning.REFUSED,
         r"invalid_client: \*\*\*\*\* is wrong"),
        ((302, {}), Meaning.REFUSED, "answers 302 Found"),
        ((429, {}), Meaning.THROTTLED, "answers 429 Too Many Requests"),
        ((503, {}), Meaning.PASSING, "answers 503 Service Unavailable"),
    ],
)  # fmt: skip
def test_a_refusal_of_a_provider_means_its_text(tokens: TokenServer, answer: Any, meaning: Meaning, words: str) -> None:
    tokens.answer = answer
    with pytest.raises(errors.SaslAuthenticationFailedError, match=words) as refused:
        fetch(client(tokens))
    found = hindrance(refused.value)
    assert found is not None
    assert found.meaning is meaning
    assert SECRET not in found.text


def test_a_provider_that_cannot_be_reached_says_nothing_of_our_secret(tokens: TokenServer) -> None:
    for endpoint in (f"http://127.0.0.1:{free_port()}/token", "http://no-such-host.invalid/token"):
        with pytest.raises(errors.SaslAuthenticationFailedError, match="does not answer") as refused:
            fetch(client(tokens, token_endpoint=endpoint))
        found = hindrance(refused.value)
        assert found is not None
        assert found.meaning is Meaning.PASSING


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"hello": 1}, "it has no access_token"),
        ({"access_token": "opaque", "expires_in": 5}, "no JWT"),
        ({"access_token": "a\nb.c.d", "expires_in": 5}, "no text of ASCII"),
        ([], "is no token"),
    ],
)
def test_an_answer_without_a_usable_token_is_refused_in_a_sentence(tokens: TokenServer, answer: Any, why: str) -> None:
    tokens.answer = 200, answer
    with pytest.raises(CredentialRefused, match=why):
        fetch(client(tokens))


def test_a_secret_that_went_away_is_ours_to_correct(tokens: TokenServer, tmp_path: Path) -> None:
    with pytest.raises(CredentialRefused, match=r"the client's secret cannot be read: .* is not a file"):
        fetch(client(tokens, client_secret=f"file:{tmp_path / 'gone'}"))


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """An endpoint that sends one client what a server of HTTP would not."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener.accept()[0] as connection:
            read_request(connection)
            serve(connection)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/token"
        thread.join(60)


def read_request(connection: socket.socket) -> None:
    """All of it: an end that is closed with bytes unread resets the connection, and takes its reply along."""
    request, wanted = b"", -1
    while wanted < 0 or len(request) < wanted:
        more = connection.recv(1 << 16)
        if not more:
            return
        request += more
        head, end, _ = request.partition(b"\r\n\r\n")
        if end:
            (length,) = re.findall(rb"(?i)content-length: (\d+)", head)
            wanted = len(head) + len(end) + int(length)


def at(endpoint: str) -> ClientCredentials:
    """Also where the settings would refuse the endpoint."""
    known = {"mechanism": "OAUTHBEARER", "token_endpoint": "http://e/token", "client_id": "ann"}
    return ClientCredentials.model_validate({**known, "client_secret": SECRET}).model_copy(
        update={"token_endpoint": endpoint}
    )


def failed(settings: ClientCredentials, **more: Any) -> Exception:
    with pytest.raises((LoginFailed, CredentialRefused)) as raised:
        fetch(settings, **more)
    assert isinstance(raised.value, LoginFailed | CredentialRefused)
    return raised.value


def answer(status: str, body: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


CHUNKED = b"Transfer-Encoding: chunked\r\n\r\nff\r\n{"
PAGE = answer("200 OK", "<html>")


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (b"", Fault.HERE),
        (b"\x15\x03\x01\x00\x02\x02\x46 garbage\r\n\r\n", Fault.HERE),
        (b"HTTP/1.1 200 OK\r\n" + CHUNKED, Fault.HERE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", Fault.HERE),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200, Fault.HERE),
        (b"HTTP/1.1 503 Away\r\n" + CHUNKED, Fault.HERE),
        (b"HTTP/1.1 401 No\r\n" + CHUNKED, Fault.OURS),
        (answer("522 Origin timed out"), Fault.HERE),
        (answer("408 Request Timeout"), Fault.HERE),
        (answer("425 Too Early"), Fault.HERE),
        (answer("400 No", '{"error": "temporarily_unavailable"}'), Fault.HERE),
        (answer("401 No", '{"error": "invalid_client", "error_description": "504 503"}'), Fault.OURS),
        (answer("400 No", "[" * 100_000), Fault.OURS),
        (PAGE, Fault.OURS),
        (answer("200 OK", "[" * 100_000), Fault.OURS),
        (answer("200 OK", '{"access_token": "a.e30.c", "expires_in": 1e999}'), Fault.OURS),
        (answer("200 OK", '{"access_token": "a.e30.c", "expires_in": NaN}'), Fault.OURS),
    ],
)
def test_a_broken_answer_of_a_provider_is_no_fault_of_the_cluster(reply: bytes, fault: Fault) -> None:
    with raw_server(sending(reply)) as endpoint:
        found = trouble_of(failed(at(endpoint)), "east:9092", answered_before=True)
    assert found.fault is fault, found
    assert found.text.isprintable()


@pytest.mark.parametrize(
    "endpoint",
    ["http://idp:84x3/token", "http://[x/token", "https://idp:99999/token", f"http://{'a' * 70}.example/t",
     "http://a..b/token", "http://127.0.0.1:1/t\u00f6ken"],
)  # fmt: skip
def test_an_endpoint_without_a_usable_address_is_ours_to_correct(endpoint: str) -> None:
    with pytest.raises(CredentialRefused, match="is no usable address"):
        fetch(at(endpoint))
    with pytest.raises(ValueError, match="token_endpoint"):
        ClientCredentials.model_validate(at(endpoint).model_dump())


@pytest.mark.parametrize("endpoint", ["file:///etc/passwd", "jar:http://idp/x!/y", "ftp://idp/token", "//idp/token"])
def test_an_endpoint_names_a_host_by_http_and_never_a_file(endpoint: str) -> None:
    with pytest.raises(ValueError, match="token_endpoint"):
        ClientCredentials.model_validate({**at("http://idp/t").model_dump(), "token_endpoint": endpoint})


def test_a_page_instead_of_a_token_is_ours_only_where_no_token_ever_came() -> None:
    for answered_before, fault in ((False, Fault.OURS), (True, Fault.HERE)):
        with raw_server(sending(PAGE)) as endpoint:
            error = failed(at(endpoint), answered_before=answered_before)
        assert trouble_of(error, "e:1", answered_before=True).fault is fault, error


def sending(reply: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(reply)


def test_no_part_of_the_secret_is_shown_wherever_a_sentence_is_cut() -> None:
    pair = base64.b64encode(f"ann:{SECRET}".encode()).decode()
    for word in (SECRET, pair):
        for before in range(280, 300):
            body = json.dumps({"error": "x", "error_description": "y" * before + word})
            with raw_server(sending(answer("400 No", body))) as endpoint:
                error = str(failed(at(endpoint)))
            assert not [size for size in (4, 8) if word[:size] in error], error


def test_numbers_and_words_of_the_endpoint_do_not_decide() -> None:
    reply = answer("401 Unauthorized", '{"error": "invalid_client"}')
    with raw_server(sending(reply)) as endpoint:
        error = failed(at(endpoint.replace("/token", "/504/throttle/expired")))
    found = hindrance(error)
    assert found is not None
    assert found.meaning is Meaning.REFUSED


def test_an_answer_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.5)
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nA: ")
        try:
            while not over.wait(0.05):
                connection.sendall(b"b")
        except OSError:
            over.set()

    with raw_server(drip) as endpoint:
        began = time.monotonic()
        try:
            error = failed(at(endpoint))
            assert over.wait(60), "the connection is not closed"
        finally:
            over.set()
    assert "not whole in time" in str(error) or "timed out" in str(error)
    assert time.monotonic() - began < 60
