"""Fetches a token of an OpenID Connect provider by the grant ``client_credentials`` (RFC 6749, section 4.4).

No redirect is followed and no proxy used, so that the secret goes to the configured address and nowhere else. The
secret goes into the header, as Kafka's Java client sends it. A token that does not show when it ends is refused:
Kafka's Java client, which Spark uses, refuses it, too.
"""

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from state.settings.security import ClientCredentials
from streaming.errors import CredentialRefused
from streaming.kafka.login.tokens import Token, Tokens, failure
from streaming.secrets import Broken, reveal

_SECONDS = 10.0
_MOST_BYTES = 1 << 20
_LONGEST_SENTENCE = 300
_PARTS_OF_A_TOKEN = 3


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the error names the status."""


def client_credentials(settings: ClientCredentials) -> Tokens:
    """The tokens of one client."""
    return Tokens(lambda: fetch(settings), lambda: _secret(settings))


def fetch(settings: ClientCredentials, *, wall: Callable[[], float] = time.time) -> Token:
    """Request a token; raises as ``Login.prepare`` does, and never with the secret in its text."""
    secret = _secret(settings)
    endpoint = settings.token_endpoint
    form = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
    pair = base64.b64encode(f"{settings.client_id}:{secret}".encode()).decode("ascii")
    headers = {"Accept": "application/json", "Authorization": f"Basic {pair}"}
    request = urllib.request.Request(endpoint, data=urllib.parse.urlencode(form).encode(), headers=headers)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
    if endpoint.startswith("https:"):
        handlers.append(urllib.request.HTTPSHandler(context=_tls(settings)))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS) as response:
            return _token(json.loads(response.read(_MOST_BYTES)), wall())
    except urllib.error.HTTPError as error:
        said = _sentence(error).replace(secret, "*****")
        raise failure(f"the token endpoint {endpoint} answers {error.code} {error.reason}{said}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CredentialRefused(
            f"what {endpoint} answers is no token: {_what(error)}",
            hint="security.sasl.token_endpoint is what the provider's discovery document calls token_endpoint",
        ) from None
    except OSError as error:  # URLError, and a time-out while the answer is read
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise CredentialRefused(
                f"the certificate of {endpoint} is refused: {reason.verify_message}",
                hint="name the authority that signed it: security.sasl.ca",
            ) from None
        raise failure(f"the token endpoint {endpoint} does not answer: {reason}") from None


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


def _sentence(error: urllib.error.HTTPError) -> str:
    """What the provider says of it: ``error`` and ``error_description`` (RFC 6749, section 5.2)."""
    try:
        said = json.loads(error.read(_MOST_BYTES))
        words = [str(said[key]) for key in ("error", "error_description") if said.get(key)]
    except (OSError, ValueError, TypeError, AttributeError):
        words = []
    return (": " + ": ".join(words))[:_LONGEST_SENTENCE] if words else ""


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
    if seconds <= 0:
        raise ValueError("the token has expired already; compare the clocks of this host and of the provider")
    return seconds


def _what(error: Exception) -> str:
    return f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
