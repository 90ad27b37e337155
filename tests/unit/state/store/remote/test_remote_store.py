"""The store behind a controller: its errors, its wake-ups, TLS, and secrets that appear nowhere."""

import logging
import time
from functools import partial
from pathlib import Path

import pytest

from state.errors import Conflict, NotAllowed, StoreError, StoreUnavailable
from state.store.remote import remote_store
from state.store.remote.http_connections import Answer, HttpConnections
from state.store.remote.remote_store import RemoteStore, open_remote_store
from tests.behind_controller import TOKEN
from tests.certificates import make_certificates
from tests.contract import samples
from tests.served import ENVIRONMENT, TOKENS, serving
from tests.waiting import THREAD_SECONDS, until

MORE = TOKENS + '    - {name: a, role: runner, runner: a, token: "env:RUNNER"}\n'


@pytest.fixture(autouse=True)
def runner_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENT, "RUNNER", TOKEN)


class Scripted(HttpConnections):
    """Answers with what a test says."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(["http://127.0.0.1:1"], lambda: TOKEN)
        self.answer = Answer(code, body, "http://127.0.0.1:1")

    def post(self, path: str, body: bytes, *, is_repeatable: bool, seconds: float = 0.0) -> Answer:
        return self.answer


@pytest.mark.parametrize(
    ("code", "body", "kind", "text"),
    [
        (409, b'{"error":{"kind":"conflict","text":"no","hint":null}}', Conflict, "^no$"),
        (403, b'{"error":{"kind":"not-allowed","text":"no","hint":"h"}}', NotAllowed, "^no$"),
        (503, b'{"error":{"kind":"store-unavailable","text":"no","hint":"h"}}', StoreUnavailable, "^no$"),
        (401, b'{"error":{"kind":"no-token","text":"no","hint":"h"}}', StoreUnavailable, "refused the call: no$"),
        (400, b'{"error":{"kind":"usage","text":"no","hint":"h"}}', StoreError, "refused the call: no$"),
        (500, b'{"error":{"kind":"bug","text":"no","hint":null}}', StoreError, "refused the call: no$"),
        (502, b"<html>Bad gateway</html>", StoreUnavailable, "answered with code 502, which is no answer of a contr"),
        (200, b"<html>Log in</html>", StoreError, "answered now with what this version does not read"),
        (200, b'{"result":"yesterday"}', StoreError, "answered now with what this version does not read"),
    ],
)
def test_an_error_is_of_the_class_that_the_store_raises(
    code: int, body: bytes, kind: type[StoreError], text: str
) -> None:
    with pytest.raises(StoreError, match=text) as raised:
        RemoteStore(Scripted(code, body)).now()
    assert type(raised.value) is kind


def test_a_write_of_a_leader_is_not_sent() -> None:
    store = RemoteStore(Scripted(200, b""))
    with pytest.raises(NotAllowed, match="writes without a term"):
        store.note(samples.event(), term=1)
    store.save_positions([])
    store.save_ends([])
    store.save_probe_reports([])


def test_a_call_that_no_controller_takes_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_store, "MAX_BODY_BYTES", 10)
    with pytest.raises(StoreError, match=r"save_positions has \d+ bytes, and a controller takes 10") as raised:
        RemoteStore(Scripted(200, b"")).save_positions([samples.position()])
    assert "the key store" in raised.value.hint


def test_a_runner_is_woken_by_a_change(tmp_path: Path) -> None:
    with serving(tmp_path, tokens=MORE) as served:
        remote = open_remote_store([f"http://127.0.0.1:{served.port}"], lambda: TOKEN)
        wakeups = remote.wakeups()
        until(lambda: wakeups.are_heard)
        count = wakeups.count
        began = time.monotonic()
        served.server._store.adopt(samples.assignment())  # type: ignore[union-attr] # it listens, so it has one
        wakeups.wait(count, THREAD_SECONDS)
        assert wakeups.count > count
        assert time.monotonic() - began < THREAD_SECONDS
        wakeups.close()
        remote.close()


def test_by_tls_it_trusts_its_own_authority_alone(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certs", "unused")
    http = "listen: 127.0.0.1:0x\n  tls: {cert: certs/server.pem, key: certs/server.key, clients: certs/ca.pem}"
    with serving(tmp_path, http=http, tokens=MORE) as served:
        url = f"https://127.0.0.1:{served.port}"
        known = {"ca": made / "ca.pem", "cert": made / "client.pem", "key": made / "client.plain"}
        remote = open_remote_store([url], lambda: TOKEN, **known)
        assert remote.assignments() == []
        remote.close()
        for wrong in ({**known, "ca": made / "stranger.pem"}, {"ca": made / "ca.pem"}):
            with pytest.raises(StoreUnavailable, match="no controller answers"):
                open_remote_store([url], lambda: TOKEN, **wrong).now()
    with pytest.raises(StoreError, match="a certificate for the controller cannot be read"):
        open_remote_store([url], lambda: TOKEN, ca=tmp_path / "none.pem")


def test_no_error_and_no_log_shows_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with serving(tmp_path, tokens=MORE) as served:
        url = f"http://127.0.0.1:{served.port}"
        for token in (TOKEN, "wrong-" + TOKEN):
            remote = open_remote_store([url], partial(str, token))
            with pytest.raises(StoreError) as raised:
                remote.assignment("other")
            assert TOKEN not in f"{raised.value!r} {raised.value.hint} {remote!r}"
    assert TOKEN not in caplog.text
