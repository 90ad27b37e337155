"""A store of which a test sends the calls of a runner to a controller over HTTP, and all others straight."""

import contextlib
import inspect
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from orchestrator.config.load import load
from orchestrator.http.runners.call_scope import CallScope
from orchestrator.http.server import HttpServer
from state.store.controller_store import ControllerStore
from state.store.remote.http_connections import HttpConnections
from state.store.remote.remote_store import RemoteStore
from state.store.remote.runner_calls import CALLS
from streaming.clocks import SystemClock
from streaming.pulse import Pulse
from tests.waiting import until

TOKEN = "runner-0123456789abcdef"
_CONFIG = """
store: sqlite:///t.db
clusters: {east: {bootstrap: [localhost:1]}}
runners: {a: {}}
http:
  listen: 127.0.0.1:PORT
  tokens: [{name: a, role: runner, runner: a, token: "env:RUNNER"}]
"""


class EveryScope(CallScope):
    """The store's contract has any runner speak of any query; the rules of scopes have tests of their own."""

    def has_query(self, name: str) -> bool:
        return True

    def itself(self, name: str) -> str | None:
        return None

    cluster = observer = itself

    def topic(self, cluster: str, name: str) -> str | None:
        return None

    def event(self, event: object) -> str | None:
        return None


class Exchanged:
    """The store of the server, another one for each test."""

    now_in_use: ControllerStore | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.now_in_use, name)

    def close(self) -> None:
        """The test closes its own."""


class BehindController:
    """The runner's calls over HTTP, and the controller's without."""

    def __init__(self, remote: RemoteStore, inner: ControllerStore) -> None:
        self.remote = remote
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.remote if name in CALLS else self.inner, name)

    def note(self, event: Any, *, term: int | None = None) -> None:
        """A leader has the store itself."""
        (self.remote if term is None else self.inner).note(event, term=term)

    def report(self, intent: Any, *, term: int | None = None) -> bool:
        """Likewise."""
        return (self.remote if term is None else self.inner).report(intent, term=term)

    def close(self) -> None:
        self.inner.close()


@contextlib.contextmanager
def controller(folder: Path) -> Iterator[tuple[Exchanged, RemoteStore]]:
    """A server of its own, with a token that speaks of everything."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = folder / "tideover.yaml"
    file.write_text(_CONFIG.replace("PORT", str(port)), encoding="utf-8")
    settings, exchanged = load(file, {"RUNNER": TOKEN}).settings, Exchanged()
    pulse = Pulse(file=None, notify_socket=None)
    pulse.beat(time.monotonic())
    server = HttpServer(
        settings,
        lambda: cast("ControllerStore", exchanged),
        pulse,
        SystemClock(),
        lambda *_: contextlib.nullcontext(lambda cluster: None),
    )
    remote = RemoteStore(HttpConnections([f"http://127.0.0.1:{port}"], lambda: TOKEN))
    server.begin()
    try:
        until(lambda: server.is_listening, "the server does not listen")
        assert server._calls is not None
        server._calls.scope = EveryScope
        yield exchanged, remote
    finally:
        remote.close()
        server.close()


def is_about_runners(test: Any) -> bool:
    """Whether a test calls anything that a runner calls."""
    return any(f"store.{name}(" in inspect.getsource(test) for name in CALLS)
