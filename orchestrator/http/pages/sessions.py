"""Who is logged in: a browser keeps a random name for its session, and this process the SHA-256 of it.

A token never stays in the browser. The end of the controller is the end of every session, so nothing has to be kept.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from orchestrator.http.auth import Principal

SESSION_SECONDS = 12 * 3600.0
"""A shift: then whoever works on logs in again."""
SESSIONS = 1000
"""So many at most; the oldest ends for another one."""


class _Session(NamedTuple):
    who: Principal
    began: float


@dataclass
class Sessions:
    """All of one process; used on one event loop."""

    monotonic: Callable[[], float]
    cookie: str
    """Its name. It has the port in it, because browsers give a cookie to all ports of a host."""
    is_secure: bool
    """Whether the browser may send it by TLS alone."""
    _known: OrderedDict[bytes, _Session] = field(default_factory=OrderedDict)

    def begin(self, who: Principal) -> str:
        """The header ``Set-Cookie`` of a new session."""
        name = secrets.token_urlsafe(32)
        self._known[_digest(name)] = _Session(who, self.monotonic())
        while len(self._known) > SESSIONS:
            self._known.popitem(last=False)
        return self._set(name, "")

    def end(self, header: str) -> str:
        """End the session that a ``Cookie`` header names; the ``Set-Cookie`` that takes it from the browser."""
        for name in self._named(header):
            self._known.pop(_digest(name), None)
        return self._set("", "; Max-Age=0")

    def holder(self, header: str) -> Principal | None:
        """Who is logged in by a ``Cookie`` header. Two names of sessions in it are none."""
        names = self._named(header)
        if len(names) != 1:
            return None
        session = self._known.get(_digest(names[0]))
        if session is None or self.monotonic() - session.began > SESSION_SECONDS:
            return None
        return session.who

    def _named(self, header: str) -> list[str]:
        pairs = (part.strip().partition("=") for part in header.split(";"))
        return [value for name, _, value in pairs if name == self.cookie]

    def _set(self, value: str, more: str) -> str:
        secure = "; Secure" if self.is_secure else ""
        return f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}"


def cookie_name(port: int, *, is_secure: bool) -> str:
    """``__Host-`` has the browser refuse such a cookie from another host of the domain; it wants TLS."""
    return f"{'__Host-' if is_secure else ''}tideover-{port}"


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
