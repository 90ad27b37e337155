"""Looks up in a schema registry what an id means: one request for each id, once; an id never changes its meaning.

The API is Confluent's (``GET /schemas/ids/ID``), which Apicurio, Karapace and Redpanda answer, too.
"""

import threading
from typing import Any

from state.settings.keys import SchemaRegistry
from streaming.errors import RegistryUnreachable, ServiceTrouble
from streaming.registry.wire import Schema
from streaming.rest import Service

_ABSENT = 404
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryClient:
    """One registry; from any thread."""

    def __init__(self, settings: SchemaRegistry) -> None:
        ca = None if settings.ca is None else str(settings.ca)
        self._service = Service(settings.url.rstrip("/"), settings.username, settings.password, ca, "a registry")
        self._known: dict[int, Schema] = {}
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """As it is configured, without a trailing slash."""
        return self._service.address

    def schema(self, schema_id: int, *, timeout: float) -> Schema | None:
        """The schema behind an id; None where there is none. Raises ``RegistryUnreachable``."""
        with self._lock:
            known = self._known.get(schema_id)
        if known is not None:
            return known
        found = self._fetch(schema_id, timeout)
        if found is not None:
            with self._lock:
                self._known[schema_id] = found
        return found

    def _fetch(self, schema_id: int, timeout: float) -> Schema | None:
        try:
            return _schema(self._service.query(f"/schemas/ids/{schema_id}", timeout=timeout, accept=_ACCEPT))
        except ServiceTrouble as trouble:
            if trouble.status == _ABSENT:
                return None
            raise RegistryUnreachable(str(trouble)) from None
        except (KeyError, TypeError, AttributeError) as error:
            raise RegistryUnreachable(str(self._service.odd(error))) from None


def _schema(answer: dict[str, Any]) -> Schema:
    references = tuple((str(each["name"]), str(each["subject"])) for each in answer.get("references") or ())
    return Schema(str(answer.get("schemaType") or "AVRO"), str(answer["schema"]), references)
