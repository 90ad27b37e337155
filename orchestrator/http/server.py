"""The server: a thread and a store of its own beside the controller's loop, which never waits for it.

A port that is taken, or a certificate that cannot be read, is said once and tried again: no page is worth a controller
that does not start.
"""

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version

import h11
import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from orchestrator.http.application import Health, application
from orchestrator.http.auth import Gatekeeper, Sessions, cookie_name
from orchestrator.http.endpoints import endpoints_of
from orchestrator.http.events import Feed
from orchestrator.http.figures import FigureReader
from orchestrator.http.metrics import MetricsPage
from orchestrator.http.pages.routes import Pages
from orchestrator.http.reads import Reads
from orchestrator.http.requests.writes import Writes
from orchestrator.http.runners.call_answers import RunnerCalls
from orchestrator.lease import NAME
from state.settings.keys import Http, Tideover
from state.settings.values import host_and_port
from state.store.controller_store import ControllerStore
from streaming.clocks import Clock
from streaming.cluster_log import Logs
from streaming.kafka.link import Links
from streaming.probe.identities import Identities
from streaming.pulse import Pulse

RETRY_SECONDS = 10.0
TURN_SECONDS = 120.0
"""A loop that has not turned for so long hangs; systemd's watchdog and Kubernetes' probes wait as long."""
HEADERS_SECONDS = 10.0
"""The head of a request has to be there within this many seconds."""
IDLE_SECONDS = 5
CONNECTIONS = 512
"""Browsers keep two each for a page that is open: enough for 200 of them and some more."""
HEAD_BYTES = 16 * 1024
GRACE_SECONDS = 3

log = structlog.get_logger()


OpenLogs = Callable[[Tideover, ControllerStore], AbstractContextManager[Logs]]


@contextmanager
def own_links(settings: Tideover, store: ControllerStore) -> Iterator[Logs]:
    """Links to the clusters for as long as they are served."""
    identities = Identities(settings)
    identities.learn(store)
    links = Links(settings, identities)
    try:
        yield links
    finally:
        links.close()


class PatientProtocol(H11Protocol):
    """uvicorn's, but that a connection ends on which the head of a request does not come to an end."""

    headers_timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._end_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self.headers_timeout is None:
            self.headers_timeout = self.loop.call_later(HEADERS_SECONDS, self.transport.abort)

    def _end_wait(self) -> None:
        if self.headers_timeout is not None:
            self.headers_timeout.cancel()
            self.headers_timeout = None


@dataclass
class HttpServer:
    """Serves on a thread of its own from ``begin`` to ``close``."""

    settings: Tideover
    open_store: Callable[[], ControllerStore]
    """Opens a store that no other thread uses, so that readers here take no connection from the loop."""
    pulse: Pulse
    clock: Clock
    open_logs: OpenLogs = own_links
    """Opens links to the clusters that no other thread uses; a link is made when a plan first needs it."""
    port: int | None = None
    """Where it listens; None while it does not."""
    _began_at: float = 0.0
    _store: ControllerStore | None = None
    _calls: RunnerCalls | None = None
    _server: uvicorn.Server | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def is_listening(self) -> bool:
        """Whether requests are answered."""
        return self.port is not None and self._server is not None and self._server.started

    def begin(self) -> None:
        """Begin to listen, soon."""
        self._began_at = self.clock.monotonic()
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # else a client that sends rubbish fills the log
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End, after the answers that are being given."""
        self._over.set()
        if self._calls is not None:
            self._calls.close()
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(2 * GRACE_SECONDS)

    def _run(self) -> None:
        reported: str | None = None
        while not self._over.is_set():
            try:
                self._serve()
            except Exception as why:  # noqa: BLE001 - whatever it is, the controller continues without a page
                if str(why) != reported:
                    log.warning(
                        "HTTP does not listen; it is tried again", listen=self.settings.http.listen, error=str(why)
                    )
                reported = str(why)
            self._over.wait(RETRY_SECONDS)

    def _serve(self) -> None:
        http, store = self.settings.http, self.open_store()
        self._store = store
        calls = self._calls = RunnerCalls(store, self.settings)
        try:
            context = _tls(http)
            with _listening(http.listen) as listener, self.open_logs(self.settings, store) as logs:
                port = listener.getsockname()[1]
                server = self._server = uvicorn.Server(_config(self._application(store, logs, port, calls), http))
                server.config.ssl = context
                if self._over.is_set():
                    return
                self.port = port
                log.info("HTTP listens", listen=http.listen, port=self.port, tls=http.tls is not None)
                server.run(sockets=[listener])
        finally:
            self.port = None
            calls.close()
            store.close()

    def _application(self, store: ControllerStore, logs: Logs, port: int, calls: RunnerCalls) -> ASGIApp:
        gate = Gatekeeper(self.settings.http.tokens, self.clock.monotonic)
        reads = Reads(store, self.settings, self.clock)
        writes = Writes(store=store, settings=self.settings, logs=logs, clock=self.clock)
        endpoints = endpoints_of(reads, writes)
        health = Health(is_turning=self._is_turning, touch_store=lambda: store.leader(NAME))
        feed = Feed(reads, self._over.is_set)
        http, name = self.settings.http, version("tideover")
        figures = FigureReader(
            status=reads.status_now, store=store, settings=self.settings, clock=self.clock, pulse=self.pulse,
            version=name,
        )  # fmt: skip
        is_secure = http.tls is not None or http.behind_proxy
        cookie = cookie_name(port, is_secure=is_secure)
        sessions = Sessions(self.clock.monotonic, cookie, is_secure)
        pages = Pages(reads=reads, writes=writes, gate=gate, sessions=sessions, version=name)
        return application(endpoints, gate, health, feed, MetricsPage(figures), pages, calls)

    def _is_turning(self) -> bool:
        """A loop that has only begun has its first turn before it."""
        return self.clock.monotonic() - max(self.pulse.turned_at, self._began_at) < TURN_SECONDS


def _listening(address: str) -> socket.socket:
    host, port = host_and_port(address)
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(CONNECTIONS)
    except OSError:
        listener.close()
        raise
    return listener


def _tls(http: Http) -> ssl.SSLContext | None:
    if http.tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(http.tls.cert, http.tls.key)
    if http.tls.clients is not None:
        context.load_verify_locations(http.tls.clients)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _config(app: ASGIApp, http: Http) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    config.load()
    return config
