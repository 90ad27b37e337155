"""The page of OpenAPI, made from the table of paths and the models of their parameters."""

import re
from collections.abc import Iterable, Iterator

from pydantic import BaseModel

from orchestrator.http.endpoints import Endpoint

_ERROR: dict[str, object] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "description": "one stable word"},
                "text": {"type": "string", "description": "what could not be done"},
                "hint": {"type": ["string", "null"], "description": "the way out"},
            },
            "required": ["kind", "text", "hint"],
        }
    },
    "required": ["error"],
}
_EVENTS: dict[str, object] = {
    "summary": "Lines of the history as they are written, as server-sent events",
    "parameters": [{"name": "Last-Event-ID", "in": "header", "required": False, "schema": {"type": "integer"}}],
    "responses": {"200": {"description": "lines without an end", "content": {"text/event-stream": {}}}},
}
_METRICS: dict[str, object] = {
    "summary": "What docs/metrics.md lists, for Prometheus",
    "responses": {"200": {"description": "Prometheus' text format 0.0.4", "content": {"text/plain": {}}}},
}
_PROBES = {
    "/healthz": "Whether the controller's loop turns: 200, else 503",
    "/readyz": "Whether the store answers: 200, else 503",
}


def openapi(endpoints: Iterable[Endpoint], version: str) -> dict[str, object]:
    """The document as JSON types, OpenAPI 3.1."""
    paths: dict[str, object] = {path: {"get": _probe(summary)} for path, summary in _PROBES.items()}
    paths |= {each.path: {each.method.lower(): _operation(each)} for each in endpoints}
    paths["/api/openapi.json"] = {"get": {"summary": "This document", "responses": _responses("OpenAPI 3.1")}}
    paths["/events"] = {"get": _EVENTS}
    paths["/metrics"] = {"get": _METRICS}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tideover", "version": version},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "security": [{"token": []}],
    }


def _probe(summary: str) -> dict[str, object]:
    answered = {"content": {"text/plain": {"schema": {"type": "string"}}}}
    responses = {"200": {"description": "yes", **answered}, "503": {"description": "no", **answered}}
    return {"summary": summary, "security": [], "responses": responses}


def _operation(endpoint: Endpoint) -> dict[str, object]:
    sent = {} if endpoint.body is None else {"requestBody": _body(endpoint.body)}
    key = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string", "maxLength": 200}}
    return {
        **sent,
        "summary": endpoint.summary,
        "description": f"For the role {endpoint.role}. The keys are those of `{endpoint.shape}` in docs/programs.md.",
        "parameters": [
            *_names(endpoint.path),
            *_parameters(endpoint.parameters),
            *([key] if endpoint.takes_key else []),
        ],
        "responses": _responses(endpoint.summary, endpoint.code),
    }


def _responses(summary: str, code: int = 200) -> dict[str, object]:
    wrong = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        str(code): {"description": summary, "content": {"application/json": {}}},
        "default": {"description": "it could not be done", "content": wrong},
    }


def _body(model: type[BaseModel]) -> dict[str, object]:
    return {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}


def _names(path: str) -> Iterator[dict[str, object]]:
    for name in re.findall(r"\{(\w+)\}", path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameters(model: type[BaseModel] | None) -> Iterator[dict[str, object]]:
    for name, schema in (model.model_json_schema()["properties"] if model is not None else {}).items():
        about = {"description": schema.pop("description", "")}
        schema.pop("title", None)
        yield {"name": name, "in": "query", "required": False, **about, "schema": schema}
