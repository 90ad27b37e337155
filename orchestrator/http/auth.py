"""Who may send requests: bearer tokens with a role, sessions of browsers, and a limit for those who guess.

Of a token only its SHA-256 is kept here. A request's token is compared with all of them, each in constant time, so
that neither the time of an answer nor its order shows how close a guess was.

A browser keeps no token, but a random name for its session, of which the SHA-256 is kept here. Sessions end with the
controller, so the store holds none.
"""

import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from state.settings.keys import HttpToken

GUESSES = 10
"""Wrong tokens of one address within ``GUESSES_SECONDS`` after which each further wrong one is answered with 429.
A valid token always passes: a neighbour behind the same proxy cannot shut an operator out. The length of a token, not
this limit, is what stops a search (``state.settings.values`` refuses short and repetitive ones)."""
GUESSES_SECONDS = 60.0
_ADDRESSES = 1000
"""How many addresses are remembered; the length of a token stops an attacker who has more."""
SESSION_SECONDS = 12 * 3600.0
"""A shift: after it an operator logs in again."""
SESSIONS = 1000
"""How many there are at most: one more ends the oldest."""


class Role(StrEnum):
    """What a holder of a token may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    RUNNER = "runner"
    """Of a process that runs queries, and has no store of its own: it sees no page, and only what is its own."""

    def may(self, needed: "Role") -> bool:
        """Whether this role is enough."""
        return self is needed or (self, needed) == (Role.OPERATOR, Role.VIEWER)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request; the name is the actor in the history. None: anybody on this host."""

    name: str | None
    role: Role
    runner: str | None = None
    """For which runner a token of that role speaks."""


class TooManyGuesses(Exception):
    """Too many wrong tokens came from this address lately."""


@dataclass
class _Guesses:
    since: float
    count: int = 0


@dataclass
class Gatekeeper:
    """Knows the tokens. Without any, everybody is a viewer: then only loopback is listened on (``state.settings``)."""

    tokens: Sequence[HttpToken]
    monotonic: Callable[[], float]
    _known: tuple[tuple[bytes, Principal], ...] = field(init=False, repr=False)
    _guesses: OrderedDict[str, _Guesses] = field(init=False, default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self._known = tuple(
            (_digest(token.token.get_secret_value()), Principal(token.name, Role(token.role), token.runner))
            for token in self.tokens
        )
        self.tokens = ()  # from here on only the hashes are needed

    @property
    def is_open(self) -> bool:
        """Whether looking needs no token."""
        return not self._known

    def principal_of(self, authorization: Sequence[str], address: str) -> Principal | None:
        """Who sent these ``Authorization`` headers; None for no valid token. Raises ``TooManyGuesses``."""
        if self.is_open:
            return Principal(None, Role.VIEWER)
        if not authorization:
            return None
        found = self._holder_of(authorization[0]) if len(authorization) == 1 else None
        if found is None:
            self._count_guess(_group_of(address))
        return found

    def _holder_of(self, header: str) -> Principal | None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        given, found = _digest(token.strip()), None
        for known, principal in self._known:
            if hmac.compare_digest(given, known):
                found = principal
        return found

    def _count_guess(self, origin: str) -> None:
        now = self.monotonic()
        guesses = self._guesses.get(origin)
        if guesses is None or now - guesses.since > GUESSES_SECONDS:
            guesses = self._guesses[origin] = _Guesses(now)
            self._guesses.move_to_end(origin)
        while len(self._guesses) > _ADDRESSES:
            self._guesses.popitem(last=False)
        guesses.count += 1
        if guesses.count > GUESSES:
            raise TooManyGuesses


def _group_of(address: str) -> str:
    """An IPv4 address, or the network of an IPv6 one: who has one address there has all of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address


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


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
