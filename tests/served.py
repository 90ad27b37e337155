"""A real server on loopback over a real store, and clients that send what no library would."""

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage, HTTPSConnection
from pathlib import Path
from typing import Any

from orchestrator.config.load import load
from orchestrator.http.server import HttpServer, OpenLogs, own_links
from state.store.sql.migrate import open_store
from streaming.clocks import SystemClock
from streaming.pulse import Pulse
from streaming.secrets import reveal
from tests.waiting import THREAD_SECONDS, until

VIEWER, OPERATOR = "viewer-0123456789abcdef", "operator-0123456789abcdef"
CONFIG = """
store: sqlite:///t.db
clusters:
  east: {bootstrap: [localhost:1]}
  west: {bootstrap: [localhost:2]}
runners: {a: {}}
queries:
  revenue:
    pipeline: examples.orders:revenue
    sources: {orders: {topics: [orders]}}
    clusters: [east, west]
    runners: [a]
    checkpoint: /cp/revenue
"""
ATTACHED = CONFIG.replace("pipeline: examples.orders:revenue", "attach: a").replace("    runners: [a]\n", "")
"""The query is one of an application."""
TOKENS = """
  tokens:
    - {name: dashboard, role: viewer, token: "env:VIEWER"}
    - {name: anna, role: operator, token: "env:OPERATOR"}
"""
ENVIRONMENT = {"VIEWER": VIEWER, "OPERATOR": OPERATOR}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    headers: HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """Of an error."""
        return str(self.json["error"]["kind"])


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    server: HttpServer
    authority: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        assert self.server.port is not None
        return self.server.port

    def call(
        self, path: str, *, token: str | None = None, method: str = "GET", headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:  # fmt: skip
        """One request on a connection of its own."""
        if self.authority is None:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=THREAD_SECONDS)
        else:
            connection = HTTPSConnection("127.0.0.1", self.port, timeout=THREAD_SECONDS, context=self.authority)
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers={**bearer, **(headers or {})})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())

    def post(
        self, path: str, value: object, *, token: str | None = OPERATOR, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request with a document in it."""
        more = {"Content-Type": "application/json", **(headers or {})}
        return self.call(path, token=token, method="POST", headers=more, body=json.dumps(value).encode())

    def send(self, data: bytes) -> bytes:
        """Send bytes as they stand, and return all that comes until the server ends the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=THREAD_SECONDS) as connection:
            with contextlib.suppress(ConnectionError):  # what it refuses it need not read to its end
                connection.sendall(data)
            return received(connection)


def received(connection: socket.socket) -> bytes:
    """All that comes until the other side ends the connection, which may be a reset."""
    came = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            came += piece
    return came


@contextlib.contextmanager
def serving(
    folder: Path, *, http: str = "listen: 127.0.0.1:0x", config: str = CONFIG, tokens: str = TOKENS,
    authority: ssl.SSLContext | None = None, open_logs: OpenLogs = own_links,
) -> Iterator[Served]:  # fmt: skip
    """A server for a configuration in a folder, on a port that is free; its loop turns just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = f"{config}\nhttp:\n  {http.replace('0x', str(port))}{tokens}"
    (folder / "tideover.yaml").write_text(text, encoding="utf-8")
    settings = load(folder / "tideover.yaml", ENVIRONMENT).settings
    pulse = Pulse(file=None, notify_socket=None)
    pulse.beat(time.monotonic())
    server = HttpServer(settings, lambda: open_store(reveal(settings.store)), pulse, SystemClock(), open_logs)
    server.begin()
    try:
        until(lambda: server.is_listening, "the server does not listen")
        yield Served(server, authority)
    finally:
        server.close()
