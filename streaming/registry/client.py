"""Looks up in a schema registry what an id means: one request for each id, once; an id never changes its meaning.

The API is Confluent's (``GET /schemas/ids/ID``), which Apicurio, Karapace and Redpanda answer, too. No redirect is
followed and no proxy used, so that the password goes to the configured address and nowhere else.
"""

import base64
import json
import ssl
import threading
import urllib.error
import urllib.request
from typing import Any

from state.settings.keys import SchemaRegistry
from streaming.errors import RegistryUnreachable
from streaming.registry.wire import Schema
from streaming.secrets import Broken, reveal

_MOST_BYTES = 4_194_304
_ABSENT = 404


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the error names the status."""


class RegistryClient:
    """One registry; from any thread."""

    def __init__(self, settings: SchemaRegistry) -> None:
        self._settings = settings
        self._known: dict[int, Schema] = {}
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """As it is configured, without a trailing slash."""
        return self._settings.url.rstrip("/")

    def schema(self, schema_id: int, *, timeout: float) -> Schema | None:
        """The schema behind an id; None where there is none. Raises ``RegistryUnreachable``."""
        with self._lock:
            known = self._known.get(schema_id)
        if known is not None:
            return known
        found = self._ask(f"{self.address}/schemas/ids/{schema_id}", timeout)
        if found is not None:
            with self._lock:
                self._known[schema_id] = found
        return found

    def _ask(self, url: str, timeout: float) -> Schema | None:
        request = urllib.request.Request(url, headers=self._headers())
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
        try:
            if url.startswith("https:"):
                handlers.append(urllib.request.HTTPSHandler(context=self._tls()))
            with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as response:
                return _schema(json.loads(response.read(_MOST_BYTES)))
        except urllib.error.HTTPError as error:
            if error.code == _ABSENT:
                return None
            raise RegistryUnreachable(f"{self.address} answers {error.code}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryUnreachable(f"{self.address} does not answer as a registry: {reason}") from None

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=None if self._settings.ca is None else str(self._settings.ca))

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self._settings.username is not None and self._settings.password is not None:
            try:
                given = f"{self._settings.username}:{reveal(self._settings.password)}"
            except Broken as broken:
                raise RegistryUnreachable(f"the password of {self.address} cannot be read: {broken.why}") from None
            headers["Authorization"] = f"Basic {base64.b64encode(given.encode()).decode('ascii')}"
        return headers


def _schema(answer: dict[str, Any]) -> Schema:
    references = tuple((str(each["name"]), str(each["subject"])) for each in answer.get("references") or ())
    return Schema(str(answer.get("schemaType") or "AVRO"), str(answer["schema"]), references)
