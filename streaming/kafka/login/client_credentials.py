"""Fetches a token of an OpenID Connect provider by the grant ``client_credentials`` (RFC 6749, section 4.4).

No redirect is followed and no proxy used, so that the secret goes to the configured address and nowhere else. The
secret goes into the header, as Kafka's Java client sends it. A token that does not show when it ends is refused:
Kafka's Java client, which Spark uses, refuses it, too.
"""

import base64
import io
import json
import math
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead, InvalidURL
from typing import Any, NamedTuple

from state.error_meanings import meaning_of_authentication, meaning_of_status
from state.settings.security import ClientCredentials
from streaming.errors import CredentialRefused
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.prepared import SILENT
from streaming.kafka.login.tokens import Token, Tokens
from streaming.secrets import Broken, reveal

_SECONDS = 10.0
"""For the whole answer, however slowly it comes."""
_MOST_BYTES = 1 << 20
_LONGEST_SENTENCE = 300
_PARTS_OF_A_TOKEN = 3
_SUCCESS = range(200, 300)
_HINT = "security.sasl.token_endpoint is what the provider's discovery document calls token_endpoint"


class _Answer(NamedTuple):
    status: int
    reason: str
    body: bytes


class _Bounded(io.RawIOBase):
    """What a socket receives until a time: the library's own time-out begins again with each byte."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        super().__init__()
        self._sock = sock
        self._file = sock.makefile("rb", buffering=0)  # holds the socket open when the library closes it
        self._until = until

    def makefile(self, _mode: str) -> io.BufferedReader:
        """As the library requests it of a socket."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer is not whole in time")
        self._sock.settimeout(left)
        return self._file.readinto(buffer) or 0

    def close(self) -> None:
        self._file.close()
        super().close()


def client_credentials(settings: ClientCredentials) -> Tokens:
    """The tokens of one client."""
    return Tokens(lambda answered_before: fetch(settings, answered_before=answered_before), lambda: _secret(settings))


def fetch(
    settings: ClientCredentials, *, answered_before: bool = False, wall: Callable[[], float] = time.time
) -> Token:
    """Request a token; raises as ``Login.prepare`` does, and never with the secret in its text.

    ``answered_before``: the endpoint gave a token once, so it is one.
    """
    endpoint, secret = settings.token_endpoint, _secret(settings)
    pair = base64.b64encode(f"{settings.client_id}:{secret}".encode()).decode("ascii")
    hidden = (pair, pair.rstrip("="), secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret))
    answer = _answer(settings, pair, hidden)
    if answer.status not in _SUCCESS:
        said = _sentence(answer.body, hidden)
        # a number among the words is no status
        found = meaning_of_status(answer.status) or meaning_of_authentication(re.sub(r"\d", "#", said))
        reason = _shown(f"{answer.status} {answer.reason}", hidden)
        raise LoginFailed(f"the token endpoint {endpoint} answers {reason}{said}", found=found)
    try:
        content = json.loads(answer.body)
    except (ValueError, RecursionError):  # as a page of a proxy, or of a provider that is being repaired
        if answered_before:
            raise LoginFailed(f"the token endpoint {endpoint} answers no JSON", judged=SILENT) from None
        raise CredentialRefused(f"what {endpoint} answers is no token: it is no JSON", hint=_HINT) from None
    try:
        return _token(content, wall())
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        why = _shown(_what(error), hidden)
        raise CredentialRefused(f"what {endpoint} answers is no token: {why}", hint=_HINT) from None


def _answer(settings: ClientCredentials, pair: str, hidden: tuple[str, ...]) -> _Answer:
    """What the endpoint answers, whatever it is. Raises as ``fetch`` does."""
    endpoint = settings.token_endpoint
    try:
        return _exchanged(settings, pair)
    except ssl.SSLCertVerificationError as error:
        raise CredentialRefused(
            f"the certificate of {endpoint} is refused: {error.verify_message}",
            hint="name the authority that signed it: security.sasl.ca",
        ) from None
    except InvalidURL as error:
        raise _no_address(endpoint, error) from None
    except (OSError, HTTPException) as error:
        reason = _shown(str(error) or type(error).__name__, hidden)
        raise LoginFailed(f"the token endpoint {endpoint} does not answer: {reason}", judged=SILENT) from None
    except (ValueError, OverflowError) as error:  # UnicodeError of a host's name is a ValueError
        raise _no_address(endpoint, error) from None


def _no_address(endpoint: str, error: Exception) -> CredentialRefused:
    return CredentialRefused(f"security.sasl.token_endpoint {endpoint} is no usable address: {error}", hint=_HINT)


def _exchanged(settings: ClientCredentials, pair: str) -> _Answer:
    """Send the request, and read the answer within ``_SECONDS``; raises what the library does."""
    url, until = urllib.parse.urlsplit(settings.token_endpoint), time.monotonic() + _SECONDS
    host = url.hostname or ""
    connection = (
        HTTPSConnection(host, url.port, timeout=_SECONDS, context=_tls(settings))
        if url.scheme == "https"
        else HTTPConnection(host, url.port, timeout=_SECONDS)
    )
    connection.response_class = lambda sock, *_, **more: HTTPResponse(_Bounded(sock, until), **more)  # type: ignore[assignment,arg-type]  # it has what the library uses
    form = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {pair}",
        "Connection": "close",
        "Content-Type": "application/x-www-form-urlencoded",
        "User-Agent": "tideover",
    }
    target = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
    try:
        connection.request("POST", target, urllib.parse.urlencode(form), headers)
        response = connection.getresponse()
        return _Answer(response.status, response.reason, _body(response))
    finally:
        connection.close()


def _body(response: HTTPResponse) -> bytes:
    """Raises OSError and HTTPException where a token is cut; a refusal says enough by its status."""
    try:
        body = response.read(_MOST_BYTES)
        if response.length and len(body) < _MOST_BYTES:
            raise IncompleteRead(body, response.length)
    except (OSError, HTTPException):
        if response.status in _SUCCESS:
            raise
        return b""
    return body


def _secret(settings: ClientCredentials) -> str:
    try:
        return reveal(settings.client_secret)
    except Broken as broken:
        hint = "it is named under security of this cluster, and read for each new token"
        raise CredentialRefused(f"the client's secret cannot be read: {broken.why}", hint=hint) from None


def _tls(settings: ClientCredentials) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if settings.ca is None else str(settings.ca))
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or type(error).__name__
        raise CredentialRefused(
            f"the certificate authority {settings.ca} cannot be loaded: {reason}", hint="check security.sasl.ca"
        ) from None


def _sentence(body: bytes, hidden: tuple[str, ...]) -> str:
    """What the provider says of it: ``error`` and ``error_description`` (RFC 6749, section 5.2)."""
    try:
        said = json.loads(body)
        words = [str(said[key]) for key in ("error", "error_description") if said.get(key)]
    except (ValueError, TypeError, AttributeError, RecursionError):
        words = []
    return _shown("".join(f": {each}" for each in words), hidden)


def _shown(text: str, hidden: tuple[str, ...]) -> str:
    """In one short line, without what is hidden: masked before it is cut, as half a secret is one, too."""
    for secret in hidden:
        text = text.replace(secret, "*****")
    return "".join(each if each.isprintable() else " " for each in text)[:_LONGEST_SENTENCE]


def _token(answer: dict[str, Any], now: float) -> Token:
    text = answer["access_token"]
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable():
        raise ValueError("access_token is no text of ASCII characters")
    return Token(text, _lifetime(answer, text, now))


def _lifetime(answer: dict[str, Any], text: str, now: float) -> float:
    """In seconds, by the answer or else by the token itself. Raises ValueError and KeyError where neither says it."""
    parts = text.split(".")
    if len(parts) != _PARTS_OF_A_TOKEN:
        raise ValueError("access_token is no JWT, which Kafka's Java client needs")
    claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    expires_in = answer.get("expires_in")
    seconds = float(claims["exp"]) - now if expires_in is None else float(expires_in)
    if not math.isfinite(seconds):
        raise ValueError("its lifetime is no number")
    if seconds <= 0:
        raise ValueError("the token has expired already; compare the clocks of this host and of the provider")
    return seconds


def _what(error: Exception) -> str:
    return f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
