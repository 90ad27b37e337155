"""Who may ask: bearer tokens with a role, and a limit for those who guess.

Of a token only its SHA-256 is kept here. A request's token is compared with all of them, each in constant time, so
that neither the time of an answer nor its order tells how close a guess was.
"""

import hashlib
import hmac
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from state.settings.keys import HttpToken

GUESSES = 10
"""So many wrong tokens of one address within ``GUESSES_SECONDS``, then none is looked at for the rest of them."""
GUESSES_SECONDS = 60.0
_ADDRESSES = 1000
"""So many addresses are remembered at most; whoever has that many is stopped by the length of a token."""


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    OPERATOR = "operator"

    def may(self, needed: "Role") -> bool:
        """Whether this role is enough."""
        return self is needed or self is Role.OPERATOR


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks; the name is the actor in the history. None: nobody in particular, on this host."""

    name: str | None
    role: Role


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
            (_digest(token.token.get_secret_value()), Principal(token.name, Role(token.role))) for token in self.tokens
        )
        self.tokens = ()  # from here on only the hashes are needed

    @property
    def is_open(self) -> bool:
        """Whether nobody needs a token to look."""
        return not self._known

    def principal_of(self, authorization: Sequence[str], address: str) -> Principal | None:
        """Who sent these ``Authorization`` headers; None for no valid token. Raises ``TooManyGuesses``."""
        if self.is_open:
            return Principal(None, Role.VIEWER)
        if not authorization:
            return None
        origin = _group_of(address)
        self._check_guesses(origin)
        found = self._holder_of(authorization[0]) if len(authorization) == 1 else None
        if found is None:
            self._guesses[origin].count += 1
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

    def _check_guesses(self, origin: str) -> None:
        now = self.monotonic()
        guesses = self._guesses.get(origin)
        if guesses is None or now - guesses.since > GUESSES_SECONDS:
            guesses = self._guesses[origin] = _Guesses(now)
            self._guesses.move_to_end(origin)
        while len(self._guesses) > _ADDRESSES:
            self._guesses.popitem(last=False)
        if guesses.count >= GUESSES:
            raise TooManyGuesses


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _group_of(address: str) -> str:
    """An IPv4 address, or the network of an IPv6 one: whoever has one address there has all of them."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False)) if parsed.version == 6 else address
