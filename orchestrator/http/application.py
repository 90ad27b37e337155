"""The application: a guard in front of a router that is made from the table of paths.

The guard sees every request first, whatever its path. It refuses names of hosts that are not ours, bodies, and requests
without a token; and it puts the same headers on every answer. What the paths answer is worked out on threads, a few at
a time, so that many requests wait for each other and not the controller for them.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import anyio
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
from orchestrator.http.auth import GUESSES_SECONDS, Gatekeeper, Principal, Role, TooManyGuesses
from orchestrator.http.endpoints import Call, Endpoint
from orchestrator.http.events import CLIENTS, Feed, TooManyClients
from orchestrator.http.metrics import CONTENT_TYPE, MetricsPage
from orchestrator.http.openapi import openapi
from orchestrator.http.pages.routes import OPEN_PATHS as PAGES_OPEN
from orchestrator.http.pages.routes import Pages, is_below
from orchestrator.http.runners.call_answers import RunnerCalls
from orchestrator.http.runners.call_route import runner_route
from orchestrator.http.waits import ANSWER_SECONDS, REQUEST_SECONDS, json_body_of, on_thread
from state.errors import Conflict, NotAllowed, StoreError, StoreUnavailable, TideoverError
from state.settings.values import is_loopback
from state.store.remote.runner_calls import MAX_BODY_BYTES as MAX_CALL_BYTES
from state.store.remote.runner_calls import PATH as RUNNER_PATH

AT_ONCE = 4
"""How many answers are worked out side by side."""
REQUESTS_AT_ONCE = 2
"""What is requested may take long; so it waits for no reader, and no reader for it."""
GROUPS_AT_ONCE = 2
"""Plans of many queries may take minutes: no other request waits for them."""
MAX_BODY_BYTES = 16 * 1024
MAX_GROUP_BYTES = 128 * 1024
"""500 moves with the hashes of their plans."""
GROUP_PATHS = frozenset({"/plans", "/moves", "/api/plans", "/api/moves"})
MAX_KEY_BYTES = 200
READY_SECONDS = 5.0
METRICS_SECONDS = 5.0
"""Prometheus waits 10 seconds; without the store it still gets what this process knows."""
MAX_QUERY_BYTES = 2048
OPEN_PATHS = frozenset({"/healthz", "/readyz", *PAGES_OPEN})
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
SECURE_HEADERS = {"strict-transport-security": "max-age=31536000"}
"""Where the browser reaches the page by TLS: for a year it does not try without, after a typed ``http://`` either."""

_OTHER_ROLE = {
    True: ("the token of a runner serves its own calls alone", "use a token of the role viewer or operator"),
    False: ("this needs the role runner", "use the token of a runner"),
}
"""By whether the token is a runner's."""
_SEE_SCHEMA = "/api/openapi.json lists what may be given"


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    """What the two open paths read."""

    is_turning: Callable[[], bool]
    """Whether the controller's loop has turned lately."""
    touch_store: Callable[[], object]
    """Reads something from the store; raises where it does not answer."""


def application(
    endpoints: tuple[Endpoint, ...], gate: Gatekeeper, health: Health, feed: Feed, metrics: MetricsPage, pages: Pages,
    calls: RunnerCalls,
) -> ASGIApp:  # fmt: skip
    """All of it, guard included."""
    limiters = {"GET": anyio.CapacityLimiter(AT_ONCE), "POST": anyio.CapacityLimiter(REQUESTS_AT_ONCE)}
    of_groups = anyio.CapacityLimiter(GROUPS_AT_ONCE)
    document = openapi(endpoints, pages.version)

    async def describe(_request: Request) -> Response:
        return as_json(document)

    routes = [
        Route(
            each.path,
            partial(_answer, each, of_groups if each.path in GROUP_PATHS else limiters[each.method]),
            methods=[each.method],
        )
        for each in endpoints
    ]
    routes += [
        Route("/api/openapi.json", describe, methods=["GET"]),
        Route("/events", partial(_events, feed), methods=["GET"]),
        Route("/metrics", partial(_metrics, metrics, anyio.CapacityLimiter(1)), methods=["GET"]),
        Route("/healthz", partial(_healthz, health), methods=["GET"]),
        Route("/readyz", partial(_readyz, health, anyio.CapacityLimiter(1)), methods=["GET"]),
        runner_route(calls),
        *pages.routes(),
    ]
    error_page = partial(_error_page, pages)
    app = Starlette(
        routes=routes,
        exception_handlers={TideoverError: error_page, HTTPException: error_page, Exception: error_page},
    )
    app.router.redirect_slashes = False  # a redirect would repeat the Host that a client sent
    return Guard(app, gate, pages)


class Guard:
    """In front of everything."""

    def __init__(self, app: ASGIApp, gate: Gatekeeper, pages: Pages) -> None:
        self._app = app
        self._gate = gate
        self._pages = pages
        self._is_secure = pages.sessions.is_secure
        self._headers = HEADERS | (SECURE_HEADERS if self._is_secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({} if scope.get("body_read") else closing)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)  # a page says more of itself
            await send(message)

        # No client keeps a connection by a body that comes slowly, or never, behind the answer to it.
        closing = {"connection": "close"} if _has_body(Headers(scope=scope)) else {}
        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a client that is refused; else None, and ``scope`` says who it is."""
        headers = Headers(scope=scope)
        if not self._is_our_name(headers.getlist("host")):
            return error(
                421, "wrong-host", "the header Host does not name this host", "request it as localhost or 127.0.0.1"
            )
        if len(scope["query_string"]) > MAX_QUERY_BYTES:
            return error(414, "usage", f"the query string is longer than {MAX_QUERY_BYTES} bytes", "")
        if (wrong := _wrong_body(scope["method"], scope["path"], headers)) is not None:
            return wrong
        if scope["method"] not in {"GET", "HEAD"} and not _is_same_origin(headers, self._scheme(scope)):
            return error(403, "other-origin", "a page of another site sent this request", "")
        if scope["path"] in OPEN_PATHS:
            return None
        client = scope.get("client")
        try:
            who = self._gate.principal_of(headers.getlist("authorization"), client[0] if client else "")
        except TooManyGuesses:
            text = "too many wrong tokens came from this address"
            return error(429, "too-many-guesses", text, "wait a minute", {"retry-after": f"{GUESSES_SECONDS:.0f}"})
        if who is None and "authorization" not in headers:
            who = self._pages.sessions.holder("; ".join(headers.getlist("cookie")))
            if who is not None and scope["method"] == "POST" and not {"origin", "sec-fetch-site"} & {*headers}:
                return error(
                    403, "other-origin", "the session of a browser is not enough for a program", "send a token instead"
                )
        if who is None and self._pages.is_for(scope):
            return self._pages.to_login(scope)
        if who is None:
            hint = "send the header Authorization: Bearer TOKEN"
            return error(401, "no-token", "this needs a token that is valid", hint, {"www-authenticate": "Bearer"})
        if (who.role is Role.RUNNER) != is_below(scope["path"], RUNNER_PATH):
            return error(403, "not-allowed", *_OTHER_ROLE[who.role is Role.RUNNER])
        scope["principal"] = who
        return None

    def _scheme(self, scope: Scope) -> str:
        """How a browser reaches this page: a proxy that encrypts hides it from the server."""
        return "https" if self._is_secure else str(scope["scheme"])

    def _is_our_name(self, hosts: list[str]) -> bool:
        """Where no token is needed, a page from elsewhere could send requests by a name of its own that leads to us."""
        if not self._gate.is_open:
            return True
        return len(hosts) == 1 and is_loopback(hosts[0])


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _wrong_body(method: str, path: str, headers: Headers) -> Response | None:
    if method != "POST":
        return error(413, "usage", "only POST takes a body", "") if _has_body(headers) else None
    most = MAX_GROUP_BYTES if path in GROUP_PATHS else MAX_BODY_BYTES
    most = MAX_CALL_BYTES if is_below(path, RUNNER_PATH) else most
    if "transfer-encoding" in headers or int(headers.get("content-length", "0")) > most:
        return error(413, "usage", f"a body needs a Content-Length, of {most} bytes at most", "")
    return None


def _is_same_origin(headers: Headers, scheme: str) -> bool:
    """Whether no page from elsewhere sent it, as far as a browser says; a program says nothing."""
    if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        return False
    origins, hosts = headers.getlist("origin"), headers.getlist("host")
    return all([each] == [f"{scheme}://{host}" for host in hosts] for each in origins)


async def _answer(endpoint: Endpoint, limiter: anyio.CapacityLimiter, request: Request) -> Response:
    who: Principal = request.scope["principal"]
    if not who.role.may(endpoint.role):
        return error(403, "not-allowed", f"this needs the role {endpoint.role}", "use another token")
    seconds = endpoint.seconds or (ANSWER_SECONDS if endpoint.body is None else REQUEST_SECONDS)
    call = Call(
        who=who,
        names=request.path_params,
        parameters=_parameters(endpoint, request),
        body=None if endpoint.body is None else await _body(endpoint.body, request),
        key=_key(request) if endpoint.takes_key else None,
        until=time.monotonic() + seconds,
    )
    return as_json(await on_thread(lambda: endpoint.answer(call), limiter, seconds), endpoint.code)


async def _body(model: type[BaseModel], request: Request) -> BaseModel:
    """What was sent. Raises ``UsageError`` and ``HTTPException``."""
    sent = await json_body_of(request)
    try:
        found = model.model_validate_json(sent)
        json.loads(sent, object_pairs_hook=_each_key_once)  # pydantic takes the last of two, silently
        return found
    except ValidationError as mistakes:
        raise UsageError("; ".join(worded(mistakes)), hint=_SEE_SCHEMA) from None


def _each_key_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The object of a body. Raises ``UsageError`` where two readers could see two values of one key."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UsageError("a key of the body is given twice", hint=_SEE_SCHEMA)
    return found


def _key(request: Request) -> str | None:
    keys = request.headers.getlist("idempotency-key")
    if len(keys) > 1 or any(not each or len(each) > MAX_KEY_BYTES for each in keys):
        raise UsageError(f"an Idempotency-Key has 1 to {MAX_KEY_BYTES} letters, and is given once")
    return keys[0] if keys else None


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
        raise UsageError("; ".join(worded(mistakes)), hint=_SEE_SCHEMA) from None


async def _events(feed: Feed, request: Request) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    if request.query_params:
        raise UsageError("this path takes no parameters")
    try:
        return feed.join(request.headers.get("last-event-id"))
    except TooManyClients:
        text = f"{CLIENTS} clients follow the history already"
        return error(503, "too-many-clients", text, "try again later, or another controller", {"retry-after": "15"})


async def _metrics(page: MetricsPage, limiter: anyio.CapacityLimiter, _request: Request) -> Response:
    try:
        text = await on_thread(page.read, limiter, METRICS_SECONDS)
    except StoreError:
        text = page.without_store()
    return Response(text, media_type=CONTENT_TYPE)


async def _healthz(health: Health, _request: Request) -> Response:
    alive = health.is_turning()
    return PlainTextResponse("the loop turns\n" if alive else "the loop hangs\n", 200 if alive else 503)


async def _readyz(health: Health, limiter: anyio.CapacityLimiter, _request: Request) -> Response:
    try:
        await on_thread(health.touch_store, limiter, READY_SECONDS)
    except TideoverError:
        return PlainTextResponse("the store does not answer\n", 503)
    return PlainTextResponse("the store answers\n")


_CODES: Mapping[type[TideoverError], int] = {
    UnknownName: 404, UsageError: 400, Refused: 409, StoreUnavailable: 503, NotAllowed: 403, Conflict: 409
}  # fmt: skip


async def _error_page(pages: Pages, request: Request, why: Exception) -> Response:
    """An error as ``-o json`` prints it, or as a page. Of a bug only that it is one; the log has more."""
    code, kind, text, hint, headers = _error_of(why)
    if pages.is_for(request.scope):
        return pages.failure(request.scope, code, text, hint)
    return error(code, kind, text, hint, headers)


def _error_of(why: Exception) -> tuple[int, str, str, str, Mapping[str, str] | None]:
    if isinstance(why, TideoverError):
        code = next((code for kind, code in _CODES.items() if isinstance(why, kind)), 500)
        return code, why.kind, str(why), why.hint, None
    if isinstance(why, HTTPException):
        return why.status_code, "usage", why.detail, "/api/openapi.json lists the paths", why.headers
    return 500, "bug", "a bug in Tideover; the log of this controller has more", "", None


def error(code: int, kind: str, text: str, hint: str, headers: Mapping[str, str] | None = None) -> Response:
    """The shape of every error."""
    return as_json({"error": {"kind": kind, "text": text, "hint": hint or None}}, code, headers)


def as_json(value: object, code: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document; ``<`` is escaped, so that no browser can take a piece of it for a page."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return Response(text + "\n", code, headers, "application/json")
