"""The paths of the page: who sees what, and what comes of a form.

A reader who is not logged in is led to the login from any path, whether there is such a page or not.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from orchestrator.errors import UsageError
from orchestrator.facts.evidence.page import page
from orchestrator.http.auth import GUESSES_SECONDS, Gatekeeper, Principal, Role, Sessions, TooManyGuesses
from orchestrator.http.pages.acts import Acts, form_of, may_act, text_of
from orchestrator.http.pages.details import Details, history_shown
from orchestrator.http.pages.groups import Groups
from orchestrator.http.pages.markup import STATIC, page_response, render, static_file
from orchestrator.http.pages.overview import Overview, overview_parameters
from orchestrator.http.reads import Reads
from orchestrator.http.requests.group_moves import GroupMoves
from orchestrator.http.requests.writes import Writes
from orchestrator.http.waits import ANSWER_SECONDS, on_thread

OPEN_PATHS = frozenset({"/login", *(f"/static/{name}" for name in STATIC)})
"""A reader without a token may see these: they show nothing of the store."""
_OTHERS = ("/api", "/events", "/healthz", "/readyz", "/metrics", "/static")
_INSIDE = re.compile(r"/(?:[A-Za-z0-9_.~%-][A-Za-z0-9_.~%/-]*)?")
STATIC_SECONDS = 3600

EVIDENCE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
"""The page of an operation's evidence is one file, so its style is in it; it has no script, no form and no link."""

Worked = TypeVar("Worked")


@dataclass
class Pages:
    """The pages of one server."""

    reads: Reads
    writes: Writes
    gate: Gatekeeper
    sessions: Sessions
    version: str
    _overview: Overview = field(init=False)
    _details: Details = field(init=False)
    _acts: Acts = field(init=False)
    _groups: Groups = field(init=False)
    _limiter: anyio.CapacityLimiter = field(init=False, default_factory=lambda: anyio.CapacityLimiter(2))

    def __post_init__(self) -> None:
        self._overview = Overview(self.reads)
        self._details = Details(self.reads, self.version)
        self._acts = Acts(self.writes, self._details, self._shown)
        self._groups = Groups(GroupMoves(self.writes), self._shown)

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/", self._show_overview, methods=["GET"]),
            Route("/history", self._show_history, methods=["GET"]),
            Route("/queries/{query}", self._show_query, methods=["GET"]),
            Route("/queries/{query}/partitions", self._show_partitions, methods=["GET"]),
            Route("/queries/{query}/timeline", self._show_timeline, methods=["GET"]),
            Route("/operations/{operation}", self._show_operation, methods=["GET"]),
            Route("/operations/{operation}/partitions", self._show_placed, methods=["GET"]),
            Route("/operations/{operation}/evidence", self._show_evidence, methods=["GET"]),
            Route("/operations/{operation}/evidence.json", self._give_evidence, methods=["GET"]),
            Route("/runbook", self._show_runbook, methods=["GET"]),
            Route("/login", self._show_login, methods=["GET"]),
            Route("/login", self._log_in, methods=["POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
            *self._acts.routes(),
            *self._groups.routes(),
            *(Route(f"/static/{name}", partial(_static, name), methods=["GET"]) for name in STATIC),
        ]

    def is_for(self, scope: Scope) -> bool:
        """Whether a browser requested a page, so that it wants one also where there is none."""
        wants = "text/html" in Headers(scope=scope).get("accept", "")
        return wants and not any(is_below(scope["path"], each) for each in _OTHERS)

    def to_login(self, scope: Scope) -> Response:
        """The answer to a browser whose user is not logged in; from there it comes back."""
        path: str = scope["path"]
        back = f"?next={path}" if scope["method"] == "GET" and path != "/" and is_inside(path) else ""
        return RedirectResponse(f"/login{back}", 303)

    def failure(self, scope: Scope, code: int, text: str, hint: str) -> Response:
        """An error as a page, without what only programs need."""
        hint = "" if "/api" in hint else hint
        markup = self._page(
            scope.get("principal"), "error.html", title="Not possible", code=code, text=text, hint=hint
        )  # fmt: skip
        return page_response(markup, code)

    def _page(self, who: Principal | None, template: str, **values: object) -> str:
        usual = {"headline": "", "tone": ""}
        return render(template, who=who, has_login=not self.gate.is_open, version=self.version, **(usual | values))

    async def _show(self, request: Request, title: str, draw: Callable[[], Markup]) -> Response:
        return self._shown(request, title, await self._work(draw), 200)

    def _shown(self, request: Request, title: str, body: Markup, code: int) -> Response:
        return page_response(self._page(request.scope["principal"], "page.html", title=title, body=body), code)

    async def _work(self, work: Callable[[], Worked]) -> Worked:
        return await on_thread(work, self._limiter, ANSWER_SECONDS)

    async def _show_overview(self, request: Request) -> Response:
        acts, parameters = may_act(request.scope["principal"]), overview_parameters(request.query_params)
        body = await self._work(lambda: self._overview.markup(may_act=acts, requested=parameters))
        headline, tone = await self._work(lambda: self._overview.state(parameters))
        markup = self._page(
            request.scope["principal"], "page.html", title="Overview", body=body, headline=headline, tone=tone
        )  # fmt: skip
        return page_response(markup)

    async def _show_query(self, request: Request) -> Response:
        name, acts = request.path_params["query"], may_act(request.scope["principal"])
        return await self._show(request, name, lambda: self._details.query(name, may_act=acts))

    async def _show_partitions(self, request: Request) -> Response:
        name, first = request.path_params["query"], _first(request)
        return await self._show(request, f"Partitions of {name}", lambda: self._details.partitions(name, first))

    async def _show_timeline(self, request: Request) -> Response:
        name = request.path_params["query"]
        at, topic = (request.query_params.get(each, "").strip() for each in ("at", "topic"))
        return await self._show(request, f"Timeline of {name}", lambda: self._details.timeline(name, at, topic))

    async def _show_operation(self, request: Request) -> Response:
        name, acts = request.path_params["operation"], may_act(request.scope["principal"])
        return await self._show(
            request, f"Operation {name}", lambda: self._details.operation(name, may_act=acts)
        )  # fmt: skip

    async def _show_placed(self, request: Request) -> Response:
        name, first = request.path_params["operation"], _first(request)
        return await self._show(request, f"Partitions of {name}", lambda: self._details.placed(name, first))

    async def _show_evidence(self, request: Request) -> Response:
        name = request.path_params["operation"]
        drawn = await self._work(lambda: page(self._details.evidence(name)))
        return page_response(drawn, headers={"content-security-policy": EVIDENCE_POLICY})

    async def _give_evidence(self, request: Request) -> Response:
        """The very bytes whose hash is in the chain."""
        name = request.path_params["operation"]
        kept = await self._work(lambda: self._details.evidence(name))
        headers = {"content-disposition": f'attachment; filename="{_plain(kept.operation)}.json"'}
        return Response((kept.document or "").encode(), headers=headers, media_type="application/json")

    async def _show_history(self, request: Request) -> Response:
        parameters = history_shown(request.query_params)
        return await self._show(request, "History", lambda: self._details.history(parameters))

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
        if who.role is Role.RUNNER:
            return self._login("This is the token of a runner. Use a token of the role viewer or operator.", back, 403)
        return RedirectResponse(back or "/", 303, {"set-cookie": self.sessions.begin(who)})

    async def _log_out(self, request: Request) -> Response:
        gone = self.sessions.end(request.headers.get("cookie", ""))
        return RedirectResponse("/login", 303, {"set-cookie": gone})


async def _static(name: str, _request: Request) -> Response:
    """One file; only what shows nothing of the store is kept by a browser."""
    return Response(
        static_file(name), headers={"cache-control": f"max-age={STATIC_SECONDS}"}, media_type=STATIC[name]
    )  # fmt: skip


def _first(request: Request) -> int:
    """From which row on; what is no number is none. Raises ``UsageError``."""
    given = request.query_params.get("first", "0")
    if not re.fullmatch(r"[0-9]{1,7}", given):
        raise UsageError("first must be the number of a row", hint="follow the links of the page")
    return int(given)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is that of a folder, or in it."""
    return path == folder or path.startswith(f"{folder}/")


def is_inside(path: str) -> bool:
    """Whether a browser that follows it stays here: no host in it, and nothing that could be taken for one."""
    return _INSIDE.fullmatch(path) is not None


def _next(path: str) -> str:
    return path if is_inside(path) else ""
