"""Requests JSON of one HTTP service, with a password or a token by reference.

No redirect is followed and no proxy used, so that either goes to the configured address and nowhere else.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from pydantic import SecretStr

from streaming.errors import ServiceTrouble
from streaming.secrets import Broken, reveal

_MOST_BYTES = 4_194_304


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the error names the status."""


@dataclass(frozen=True, slots=True)
class Service:
    """Where it is, and with which user; from any thread."""

    address: str
    """Without a trailing slash."""
    username: str | None = None
    password: SecretStr | None = None
    ca: str | None = None
    """Authority of its certificate; None: those of this system."""
    what: str = "the service"
    """What it should be, for sentences."""
    token: SecretStr | None = None
    """Of a bearer, instead of a user."""

    def query(self, path: str, *, timeout: float, body: object = None, accept: str = "application/json") -> Any:
        """The JSON at a path below the address, by POST where there is a body. Raises ``ServiceTrouble``."""
        answer = self.fetch(path, timeout=timeout, body=body, accept=accept, most=_MOST_BYTES)
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise self.odd(error) from None

    def fetch(self, path: str, *, timeout: float, accept: str, most: int, body: object = None) -> bytes:
        """What is at a path, as it is. Raises ``ServiceTrouble``, also where it has more than ``most`` bytes."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, **({} if data is None else {"Content-Type": "application/json"}), **self._login()}
        request = urllib.request.Request(f"{self.address}{path}", data=data, headers=headers)
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
        try:
            if self.address.startswith("https:"):
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.ca)))
            with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
                answer: bytes = response.read(most + 1)
        except urllib.error.HTTPError as error:
            raise ServiceTrouble(f"{self.address} answers {error.code}", status=error.code) from None
        except (OSError, HTTPException, ValueError) as error:
            raise self.odd(getattr(error, "reason", None) or error) from None
        if len(answer) > most:
            raise self.odd(f"its answer has more than {most:,} bytes")
        return answer

    def odd(self, reason: object) -> ServiceTrouble:
        """What to raise where its answer is not that of such a service."""
        return ServiceTrouble(f"{self.address} does not answer as {self.what}: {reason}")

    def _login(self) -> dict[str, str]:
        """Raises ``ServiceTrouble``."""
        secret = self.token or self.password
        if secret is None or (self.token is None and self.username is None):
            return {}
        try:
            revealed = reveal(secret)
        except Broken as broken:
            kind = "password" if self.token is None else "token"
            raise ServiceTrouble(f"the {kind} of {self.address} cannot be read: {broken.why}") from None
        if self.token is not None:
            return {"Authorization": f"Bearer {revealed}"}
        given = f"{self.username}:{revealed}"
        return {"Authorization": f"Basic {base64.b64encode(given.encode()).decode('ascii')}"}
