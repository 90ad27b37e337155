"""The application: a guard in front of a router that is made from the table of paths.

The guard sees every request first, whatever its path: it refuses names of hosts that are not ours, bodies, and whoever
has no token; and it puts the same headers on every answer. What the paths answer is worked out on threads, a few at a
time, so that many who ask wait for each other and not the controller for them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
import structlog
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.config.errors import worded
from orchestrator.errors import Refused, UnknownName, UsageError
from orchestrator.http.auth import GUESSES_SECONDS, Gatekeeper, Principal, TooManyGuesses
from orchestrator.http.endpoints import Call, Endpoint
from orchestrator.http.openapi import openapi
from state.errors import StoreUnavailable, TideoverError
from state.settings.values import is_loopback

AT_ONCE = 4
"""So many answers are worked out side by side."""
ANSWER_SECONDS = 20.0
READY_SECONDS = 5.0
MAX_QUERY_BYTES = 2048
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

log = structlog.get_logger()
Worked = TypeVar("Worked")


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What the two open paths ask."""

    is_turning: Callable[[], bool]
    """Whether the controller's loop has turned lately."""
    touch_store: Callable[[], object]
    """Asks the store something; raises where it does not answer."""


def application(endpoints: tuple[Endpoint, ...], gate: Gatekeeper, health: Health, version: str) -> ASGIApp:
    """All of it, guard included."""
    limiter = anyio.CapacityLimiter(AT_ONCE)
    document = openapi(endpoints, version)

    async def describe(_request: Request) -> Response:
        return as_json(document)

    routes = [Route(each.path, partial(_answer, each, limiter), methods=["GET"]) for each in endpoints]
    routes += [
        Route("/api/openapi.json", describe, methods=["GET"]),
        Route("/healthz", partial(_healthz, health), methods=["GET"]),
        Route("/readyz", partial(_readyz, health, anyio.CapacityLimiter(1)), methods=["GET"]),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={TideoverError: _told, HTTPException: _told, Exception: _told},
    )
    app.router.redirect_slashes = False  # a redirect would repeat the Host that somebody sent
    return Guard(app, gate)


class Guard:
    """In front of everything."""

    def __init__(self, app: ASGIApp, gate: Gatekeeper) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to somebody who is turned away; else None, and ``scope`` says who it is."""
        headers = Headers(scope=scope)
        if not self._is_our_name(headers.getlist("host")):
            return error(421, "wrong-host", "this name is not one of this host", "ask for localhost or 127.0.0.1")
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            return error(414, "usage", f"what stands behind the ? is longer than {MAX_QUERY_BYTES} bytes", "")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return error(413, "usage", "no path here takes a body", "", close=True)
        if scope["path"] in OPEN_PATHS:
            return None
        client = scope.get("client")
        try:
            who = self._gate.principal_of(headers.getlist("authorization"), client[0] if client else "")
        except TooManyGuesses:
            text = "too many wrong tokens came from this address"
            return error(429, "too-many-guesses", text, "wait a minute", {"retry-after": f"{GUESSES_SECONDS:.0f}"})
        if who is None:
            hint = "send the header Authorization: Bearer TOKEN"
            return error(401, "no-token", "this needs a token that is valid", hint, {"www-authenticate": "Bearer"})
        scope["principal"] = who
        return None

    def _is_our_name(self, hosts: list[str]) -> bool:
        """Where nobody needs a token, a page from elsewhere could ask by a name of its own that leads to us."""
        if not self._gate.is_open:
            return True
        return len(hosts) == 1 and is_loopback(hosts[0])


async def _answer(endpoint: Endpoint, limiter: anyio.CapacityLimiter, request: Request) -> Response:
    who: Principal = request.scope["principal"]
    if not who.role.may(endpoint.role):
        return error(403, "not-allowed", f"this needs the role {endpoint.role}", "ask with another token")
    call = Call(who=who, names=request.path_params, parameters=_parameters(endpoint, request))
    return as_json(await _on_thread(lambda: endpoint.answer(call), limiter, ANSWER_SECONDS))


def _parameters(endpoint: Endpoint, request: Request) -> BaseModel | None:
    given = request.query_params.multi_items()
    if len({name for name, _ in given}) != len(given):
        raise UsageError("a parameter is given twice")
    if endpoint.parameters is None:
        if given:
            raise UsageError("this path takes no parameters")
        return None
    try:
        return endpoint.parameters.model_validate(dict(given))
    except ValidationError as mistakes:
        raise UsageError("; ".join(worded(mistakes)), hint="/api/openapi.json lists the parameters") from None


async def _on_thread(work: Callable[[], Worked], limiter: anyio.CapacityLimiter, seconds: float) -> Worked:
    """What ``work`` returns. A thread that hangs in a store keeps its place until the store lets it go."""
    with anyio.move_on_after(seconds):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    raise StoreUnavailable(f"no answer within {seconds:.0f} s", hint="the store may be away or slow; ask again")


async def _healthz(health: Health, _request: Request) -> Response:
    alive = health.is_turning()
    return PlainTextResponse("the loop turns\n" if alive else "the loop stands still\n", 200 if alive else 503)


async def _readyz(health: Health, limiter: anyio.CapacityLimiter, _request: Request) -> Response:
    try:
        await _on_thread(health.touch_store, limiter, READY_SECONDS)
    except TideoverError:
        return PlainTextResponse("the store does not answer\n", 503)
    return PlainTextResponse("the store answers\n")


_CODES: Mapping[type[TideoverError], int] = {UnknownName: 404, UsageError: 400, Refused: 409, StoreUnavailable: 503}


async def _told(request: Request, why: Exception) -> Response:
    """An error as ``-o json`` prints it. Of a bug nothing is told but that it is one; the log has the rest."""
    if isinstance(why, TideoverError):
        code = next((code for kind, code in _CODES.items() if isinstance(why, kind)), 500)
        return error(code, why.kind, str(why), why.hint)
    if isinstance(why, HTTPException):
        return error(why.status_code, "usage", why.detail, "/api/openapi.json lists the paths", why.headers)
    return error(500, "bug", "a bug in Tideover; the log of this controller tells more", "")


def error(
    code: int, kind: str, text: str, hint: str, headers: Mapping[str, str] | None = None, *, close: bool = False
) -> Response:
    """The shape of every error."""
    more = {**(headers or {}), **({"connection": "close"} if close else {})}
    return as_json({"error": {"kind": kind, "text": text, "hint": hint or None}}, code, more)


def as_json(value: object, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document; ``<`` is escaped, so that no browser can take a piece of it for a page."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return Response(text + "\n", code, headers, "application/json")
