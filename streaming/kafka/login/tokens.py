"""A token that is used until it is nearly over, and then replaced: fetched once for all connections to a cluster."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafka import errors
from kafka.net.sasl.oauth import AbstractTokenProvider

from streaming.kafka.login.prepared import Settings

REFRESH_FACTOR = 0.8
"""Of a token's lifetime: then a new one is fetched, as Kafka's Java client does (``sasl.login.refresh.window.factor``).
A broker that ends sessions with their token wants the next login within the last 15 % of it."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 15.0
"""After a refusal nothing is requested for so long, unless the secret has changed: providers lock a client that keeps
on trying."""
_LEAST_SECONDS = 2.0
"""A token that a broker refuses is replaced no sooner: a broker that refuses each one must not empty the provider."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and for how many seconds it is good from when it was requested."""

    text: str
    seconds: float


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
        fetch: Callable[[], Token],
        secret: Callable[[], object],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        draw: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """``fetch`` raises as ``Login.prepare`` does; ``secret`` is compared only, to notice that it has changed."""
        self._fetch = fetch
        self._secret = secret
        self._monotonic = monotonic
        self._draw = draw
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._requested = 0.0
        self._failure: tuple[object, Exception] | None = None
        self._failures = 0
        self._quiet_until = 0.0

    def prepare(self, host: str) -> Settings:
        """The token for the next login at any broker: kept, or new. One thread fetches; the others wait for it."""
        with self._lock:
            return {"sasl_oauth_token_provider": FixedToken(self._current())}

    def was_refused(self) -> None:
        """Use this token no longer: what its provider says of us may have been corrected since it was given out."""
        with self._lock:
            if self._monotonic() - self._requested >= _LEAST_SECONDS:
                self._token = None

    def _current(self) -> str:
        kept = self._token
        age = self._monotonic() - self._requested
        if kept is not None and age < REFRESH_FACTOR * kept.seconds:
            return kept.text
        try:
            return self._renewed()
        except errors.SaslAuthenticationFailedError:
            if kept is not None and age < kept.seconds:
                return kept.text  # it is still good, and the next login tries again
            raise

    def _renewed(self) -> str:
        secret, now = self._secret(), self._monotonic()
        if self._failure is not None and self._failure[0] == secret and now < self._quiet_until:
            raise self._failure[1]
        try:
            token = self._fetch()
        except errors.SaslAuthenticationFailedError as error:
            longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10))
            self._failure, self._failures = (secret, error), self._failures + 1
            self._quiet_until = self._monotonic() + self._draw(longest / 2, longest)
            raise
        self._failure, self._failures = None, 0
        self._token, self._requested = token, now
        return token.text


def failure(text: str) -> Any:
    """What a login raises where its service refused it, or did not answer."""
    return errors.SaslAuthenticationFailedError(text)
