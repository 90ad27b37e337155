"""A token that is used until it is nearly over, and then replaced: fetched once for all connections to a cluster."""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.kafka.login.prepared import Settings, one_at_a_time

REFRESH_FACTOR = 0.8
"""Of a token's lifetime: then a new one is fetched, as Kafka's Java client does (``sasl.login.refresh.window.factor``).
A broker that ends sessions with their token wants the next login within the last 15 % of it."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 15.0
"""After a refusal nothing is requested for so long, unless the secret has changed: providers lock a client that keeps
on trying."""
_LAST_SECONDS = 2.0
"""Of a token's life, and a fifth of it at most: no login uses it then. A broker ends a session with its token, and a
session that ends before its first answer looks like a cluster that closes its connections."""
_PATIENCE_SECONDS = 0.3
"""How long a login waits at most for the successor of a token that is still good; else a third of its time."""
_LEAST_SECONDS = 2.0
"""A token that a broker refuses is replaced no sooner: a broker that refuses each one must not empty the provider."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and for how many seconds it is good from when it was requested."""

    text: str
    seconds: float


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="token refresh", daemon=True).start()


class FixedToken(AbstractTokenProvider):  # type: ignore[misc]  # the library ships no types for it
    """Hands on one token."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def token(self) -> str:
        return self._text


class Tokens:
    """The tokens of one cluster: a ``Login``."""

    def __init__(
        self,
        fetch: Callable[[bool], Token],
        secret: Callable[[], object],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        draw: Callable[[float, float], float] = random.uniform,
        begin: Callable[[Callable[[], None]], None] = _in_a_thread,
    ) -> None:
        """``fetch`` gets whether a token was given before, and raises as ``Login.prepare`` does.

        ``secret`` is compared only, to notice that it has changed.
        """
        self._fetch = fetch
        self._secret = secret
        self._monotonic = monotonic
        self._draw = draw
        self._begin = begin
        self._fetching = threading.Lock()
        self._renewal = threading.Event()
        """Of the newest fetch behind the logins: set when it is over."""
        self._renewal.set()
        self._kept: tuple[Token, float] | None = None
        """With the time at which it was requested."""
        self._failure: tuple[object, Exception] | None = None
        self._failures = 0
        self._has_given = False
        self._quiet_until = 0.0

    def prepare(self, host: str, until: float | None = None) -> Settings:
        """The token for the next login at any broker: kept while it is good, else new.

        In the last part of its life a new one is fetched, and the login waits a moment for it: a broker ends a session
        with its token. A provider that does not answer costs no more than that moment until the token is over. One
        thread fetches; where no token is left, the others wait for it until their own time is up.
        """
        return {"sasl_oauth_token_provider": FixedToken(self._current(host, until))}

    def was_refused(self) -> None:
        """Use this token no longer: what its provider says of us may have been corrected since it was given out."""
        kept = self._kept
        if kept is not None and self._monotonic() - kept[1] >= _LEAST_SECONDS:
            self._kept = None

    def _current(self, host: str, until: float | None) -> str:
        left = None if until is None else max(0.0, until - self._monotonic())
        good = self._good()
        if good is not None and self._monotonic() - good[1] >= REFRESH_FACTOR * good[0].seconds:
            if self._fetching.acquire(blocking=False):
                self._begin_renewal()
            self._renewal.wait(_PATIENCE_SECONDS if left is None else min(_PATIENCE_SECONDS, left / 3))
            good = self._good()
        if good is None:
            with one_at_a_time(self._fetching, host, left):
                good = self._good() or self._renewed()
        return good[0].text

    def _good(self) -> tuple[Token, float] | None:
        """The kept token while a new session can use it, with the time at which it was requested."""
        kept = self._kept
        if kept is None:
            return None
        seconds = kept[0].seconds
        left = seconds - (self._monotonic() - kept[1])
        return kept if left > min(_LAST_SECONDS, seconds * (1 - REFRESH_FACTOR)) else None

    def _begin_renewal(self) -> None:
        """Renew on a thread of its own, which releases the lock; a host that starts no thread has the token still."""
        self._renewal = threading.Event()
        try:
            self._begin(self._renew_behind)
        except RuntimeError:
            self._renewal_is_over()

    def _renew_behind(self) -> None:
        """Fetch, with the lock that was taken for it; a failure is the next login's, once the token is over."""
        try:
            with contextlib.suppress(Exception):
                self._renewed()
        finally:
            self._renewal_is_over()

    def _renewal_is_over(self) -> None:
        self._fetching.release()
        self._renewal.set()

    def _renewed(self) -> tuple[Token, float]:
        secret, now = self._secret(), self._monotonic()
        if self._failure is not None and self._failure[0] == secret and now < self._quiet_until:
            raise self._failure[1]
        try:
            token = self._fetch(self._has_given)
        except Exception as error:
            longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10))
            self._failure, self._failures = (secret, error), self._failures + 1
            self._quiet_until = self._monotonic() + self._draw(longest / 2, longest)
            raise
        self._failure, self._failures, self._has_given = None, 0, True
        self._kept = token, now
        return self._kept
