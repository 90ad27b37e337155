"""Connections to the controllers of one store: kept for the next call, and replaced where one is lost.

Controllers share the store, so any of them answers; the one that answered last is tried first. No redirect is followed
and no proxy of the environment is used: the token goes to the addresses in the configuration alone.
"""

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from state.errors import StoreUnavailable

ANSWER_SECONDS = 10.0
"""A store that is slow lets its controller wait for less."""
CONNECT_SECONDS = 2.0
_IDLE_SECONDS = 3.0
"""After so long a controller may end a connection (``orchestrator.http.server.IDLE_SECONDS``)."""
_KEPT = 8
_PASSED_ON = frozenset({429, 502, 503, 504})
"""Answers of a controller without a store, or of a proxy without a controller: another one may do better."""
MOST_BYTES = 64 * 1024 * 1024
"""Of an answer."""


class Answer(NamedTuple):
    """What a controller sent back."""

    code: int
    body: bytes
    url: str


class _Kept(NamedTuple):
    connection: HTTPConnection
    used_at: float


@dataclass
class HttpConnections:
    """Safe to be shared by threads; each call has a connection of its own while it lasts."""

    urls: Sequence[str]
    token: Callable[[], str]
    """Read for each call, so that a file that is rotated counts at once. Raises ``StoreUnavailable``."""
    tls: ssl.SSLContext | None = None
    monotonic: Callable[[], float] = time.monotonic
    _kept: dict[str, list[_Kept]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _first: int = 0
    """Of the addresses, the one that answered last, or the one behind it where that one could do nothing."""
    _is_closed: bool = False

    def post(self, path: str, body: bytes, *, is_repeatable: bool, seconds: float = ANSWER_SECONDS) -> Answer:
        """Send a call to the first controller that takes it; the answer is the last one's where all can do nothing.

        A call that may have arrived is sent again only where it is repeatable. Raises ``StoreUnavailable``.
        """
        answer: Answer | None = None
        first = self._first
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": "application/json"}
        lost = ""
        for number in range(len(self.urls)):
            at = (first + number) % len(self.urls)
            for connection in self._connections(self.urls[at], kept=is_repeatable):
                is_sent = False
                try:
                    if connection.sock is None:
                        connection.timeout = CONNECT_SECONDS
                        connection.connect()
                    connection.sock.settimeout(seconds)
                    is_sent = True
                    answer = _exchange(connection, self.urls[at], path, body, headers)
                except (OSError, HTTPException, ValueError) as error:
                    connection.close()
                    lost = f"{self.urls[at]}: {str(error) or type(error).__name__}"
                    if is_sent and not is_repeatable:
                        raise StoreUnavailable(
                            f"the controller did not answer, so this may or may not have been saved: {lost}"
                        ) from None
                    if isinstance(error, TimeoutError):
                        break
                    continue
                self._keep(self.urls[at], connection)
                if answer.code not in _PASSED_ON:
                    self._first = at
                    return answer
                self._first = (at + 1) % len(self.urls)
                if not is_repeatable:
                    return answer
                break
        if answer is not None:
            return answer
        raise StoreUnavailable(f"no controller answers: {lost}", hint=_HINT)

    def close(self) -> None:
        """End all connections that no call has."""
        with self._lock:
            self._is_closed = True
            kept = [each.connection for of_url in self._kept.values() for each in of_url]
            self._kept.clear()
        for connection in kept:
            connection.close()

    def _connections(self, url: str, *, kept: bool) -> list[HTTPConnection]:
        """One that was kept, if there is one, and a new one behind it: the other side may have ended the first."""
        parts = urlsplit(url)
        host, port = str(parts.hostname), parts.port
        new: HTTPConnection = (
            HTTPSConnection(host, port, context=self.tls) if parts.scheme == "https" else HTTPConnection(host, port)
        )
        with self._lock:
            of_url, now = self._kept.get(url, []), self.monotonic()
            while of_url and kept:
                newest = of_url.pop()
                if now - newest.used_at < _IDLE_SECONDS:
                    return [newest.connection, new]
                newest.connection.close()
        return [new]

    def _keep(self, url: str, connection: HTTPConnection) -> None:
        with self._lock:
            of_url = self._kept.setdefault(url, [])
            if connection.sock is not None and not self._is_closed and len(of_url) < _KEPT:
                of_url.append(_Kept(connection, self.monotonic()))
                return
        connection.close()


_HINT = "check the key controller in the configuration, that a controller runs, and that its HTTP is on"


def _exchange(connection: HTTPConnection, url: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
    """Send, and read all of the answer. Raises ``OSError``, ``HTTPException`` and ``ValueError``."""
    connection.request("POST", urlsplit(url).path.rstrip("/") + path, body, headers)
    with contextlib.closing(connection.getresponse()) as response:
        answered = response.read(MOST_BYTES + 1)
        if len(answered) > MOST_BYTES:
            raise ValueError(f"the answer has more than {MOST_BYTES} bytes")
        return Answer(response.status, answered, url)
