"""The paths of the page: who sees what, and what comes of a form.

Whoever is not logged in is led to the login from any path, whether there is such a page or not.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import anyio
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from orchestrator.http.auth import GUESSES_SECONDS, Gatekeeper, Principal, TooManyGuesses
from orchestrator.http.pages.forms import form_of, text_of
from orchestrator.http.pages.markup import STATIC, page_response, render, static_file
from orchestrator.http.pages.overview import Overview
from orchestrator.http.pages.sessions import Sessions
from orchestrator.http.reads import Reads
from orchestrator.http.waits import ANSWER_SECONDS, on_thread

OPEN_PATHS = frozenset({"/login", *(f"/static/{name}" for name in STATIC)})
"""Whoever has no token may see these: they tell nothing."""
_OTHERS = ("/api", "/events", "/healthz", "/readyz", "/metrics", "/static")
_INSIDE = re.compile(r"/(?:[A-Za-z0-9_.~%-][A-Za-z0-9_.~%/-]*)?")
STATIC_SECONDS = 3600
LINES = 300
"""So many lines of the history are shown on its page."""

Handler = Callable[[Request], Awaitable[Response]]


@dataclass
class Pages:
    """The pages of one server."""

    reads: Reads
    gate: Gatekeeper
    sessions: Sessions
    version: str
    _overview: Overview = field(init=False)
    _limiter: anyio.CapacityLimiter = field(init=False, default_factory=lambda: anyio.CapacityLimiter(2))

    def __post_init__(self) -> None:
        self._overview = Overview(self.reads)

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/", self._show_overview, methods=["GET"]),
            Route("/history", self._show_history, methods=["GET"]),
            Route("/runbook", self._show_runbook, methods=["GET"]),
            Route("/login", self._show_login, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            *(Route(f"/static/{name}", partial(_static, name), methods=["GET"]) for name in STATIC),
        ]

    def is_for(self, scope: Scope) -> bool:
        """Whether a browser asked for a page, so that it wants one also where there is none."""
        wants = "text/html" in Headers(scope=scope).get("accept", "")
        return wants and not any(is_below(scope["path"], each) for each in _OTHERS)

    def to_login(self, scope: Scope) -> Response:
        """The answer to a browser whose user is not logged in; from there it comes back."""
        path: str = scope["path"]
        back = f"?next={path}" if scope["method"] == "GET" and path != "/" and is_inside(path) else ""
        return RedirectResponse(f"/login{back}", 303)

    def failure(self, scope: Scope, code: int, text: str, hint: str) -> Response:
        """An error as a page."""
        markup = self._page(
            scope.get("principal"), "error.html", title="Not possible", code=code, text=text, hint=hint
        )  # fmt: skip
        return page_response(markup, code)

    def _page(self, who: Principal | None, template: str, **values: object) -> str:
        return render(template, who=who, has_login=not self.gate.is_open, version=self.version, **values)

    async def _show_overview(self, request: Request) -> Response:
        drawn = await on_thread(self._overview.markup, self._limiter, ANSWER_SECONDS)
        return page_response(self._page(request.scope["principal"], "page.html", title="Overview", body=drawn))

    async def _show_history(self, request: Request) -> Response:
        store = self.reads.store
        found = await on_thread(lambda: store.history(limit=LINES + 1), self._limiter, ANSWER_SECONDS)
        rows, more = found[-LINES:][::-1], len(found) > LINES
        who = request.scope["principal"]
        return page_response(self._page(who, "history.html", title="History", rows=rows, more=more))

    async def _show_runbook(self, request: Request) -> Response:
        return page_response(self._page(request.scope["principal"], "runbook.html", title="Runbook"))

    async def _show_login(self, request: Request) -> Response:
        if self.gate.is_open:
            return RedirectResponse("/", 303)
        return self._login("", _next(request.query_params.get("next", "")))

    def _login(self, wrong: str, back: str, code: int = 200) -> Response:
        return page_response(self._page(None, "login.html", title="Log in", wrong=wrong, back=back), code)

    async def _log_in(self, request: Request) -> Response:
        form = await form_of(request)
        token, back = text_of(form, "token"), _next(text_of(form, "next"))
        address = request.client.host if request.client else ""
        try:
            # An empty token is looked at, too: what is not looked at is not counted as a guess.
            who = self.gate.principal_of([f"Bearer {token}"], address)
        except TooManyGuesses:
            text = f"Too many wrong tokens came from this address. Wait {GUESSES_SECONDS:.0f} seconds."
            return self._login(text, back, 429)
        if who is None:
            return self._login("This is not a valid token.", back, 401)
        return RedirectResponse(back or "/", 303, {"set-cookie": self.sessions.begin(who)})

    async def _log_out(self, request: Request) -> Response:
        gone = self.sessions.end(request.headers.get("cookie", ""))
        return RedirectResponse("/login", 303, {"set-cookie": gone})


async def _static(name: str, _request: Request) -> Response:
    """One file; only what tells nothing is kept by a browser."""
    return Response(
        static_file(name), headers={"cache-control": f"max-age={STATIC_SECONDS}"}, media_type=STATIC[name]
    )  # fmt: skip


def is_below(path: str, folder: str) -> bool:
    """Whether a path is that of a folder, or in it."""
    return path == folder or path.startswith(f"{folder}/")


def is_inside(path: str) -> bool:
    """Whether a browser that follows it stays here: no host in it, and nothing that could be taken for one."""
    return _INSIDE.fullmatch(path) is not None


def _next(path: str) -> str:
    return path if is_inside(path) else ""
