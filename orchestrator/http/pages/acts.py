"""What an operator requests by forms: the same requests as over the API, by the same functions.

A move is planned first. Its button comes with the plan, and sends the plan's hash and where the query was then; so
what is begun is what was seen, or nothing. A consent is typed, never clicked.
"""

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qs

import anyio
from markupsafe import Markup
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orchestrator.config.errors import worded
from orchestrator.decide.desk.operation_lines import gates_of, placed_of
from orchestrator.decide.desk.plan_cost import cost, waits_for_copies
from orchestrator.decide.move.plan import headline
from orchestrator.errors import Refused, UsageError
from orchestrator.facts.current import moved_last
from orchestrator.http.auth import Principal, Role
from orchestrator.http.pages.details import WORST, Details
from orchestrator.http.pages.markup import path_of, render
from orchestrator.http.requests.bodies import (
    MOST_QUERIES,
    AckBody,
    CancelBody,
    DrillBody,
    MoveBody,
    PauseBody,
    PlanBody,
    ResumeBody,
    RewindBody,
)
from orchestrator.http.requests.writes import Writes
from orchestrator.http.waits import REQUEST_SECONDS, body_of, on_thread
from state.model.entities import OperationKind
from state.model.plan import Plan

Parsed = TypeVar("Parsed", bound=BaseModel)
Worked = TypeVar("Worked")
ShowPage = Callable[[Request, str, Markup, int], Response]
_AT_ONCE = 2
_KEY = re.compile(r"[0-9a-f]{32}")
_FIELDS = 40


@dataclass
class Acts:
    """The paths of the forms; everyone but an operator is refused on all of them."""

    writes: Writes
    details: Details
    show: ShowPage
    """Makes a page of a title and what is below its head."""
    _limiter: anyio.CapacityLimiter = field(init=False, default_factory=lambda: anyio.CapacityLimiter(_AT_ONCE))

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/queries/{query}/plan", self._plan, methods=["POST"]),
            Route("/queries/{query}/move", self._move, methods=["POST"]),
            Route("/operations/{operation}/cancel", self._cancel, methods=["POST"]),
            Route("/requests/{request}", self._request, methods=["GET"]),
            Route("/pause", self._pause, methods=["POST"]),
            Route("/resume", self._resume, methods=["POST"]),
            Route("/ack", self._acknowledge, methods=["POST"]),
        ]

    async def _plan(self, request: Request) -> Response:
        _, form = await operator_form(request)
        name = request.path_params["query"]
        more = {"kind": text_of(form, "kind"), "to_time": text_of(form, "to_time") or None}
        parameters = typed_as(PlanBody, _wish(form, name) | more)
        plan, seen = await self._work(lambda: self.writes.planned(parameters))
        moved = await self._work(lambda: moved_last(self.writes.store))
        partitions = placed_of(plan)
        body = render(
            "plan.html", query=name, kind=parameters.kind, name=_name_of(plan), plan=plan, hash=seen,
            cost=cost([plan], moved, at_once=1), waits=waits_for_copies(plan),
            consents=parameters.consents, gates=gates_of(plan), partitions=partitions[:WORST], count=len(partitions),
            key=secrets.token_hex(16),
        )  # fmt: skip
        return self.show(request, f"Plan of a {parameters.kind}", body, 200)

    async def _move(self, request: Request) -> Response:
        who, form = await operator_form(request)
        name, kind, key = request.path_params["query"], text_of(form, "kind"), key_of(form)
        wish = _wish(form, name) | {"reason": text_of(form, "reason")}
        if kind == OperationKind.DRILL:
            drill = typed_as(DrillBody, wish)
            return await self._requested(request, name, lambda: self.writes.drill(drill, who, key))
        seen = {each: text_of(form, each) for each in ("expect_active", "plan")}
        if kind == OperationKind.REWIND:
            rewind = typed_as(RewindBody, _without_target(wish) | seen | {"to_time": text_of(form, "to_time")})
            return await self._requested(request, name, lambda: self.writes.rewind(rewind, who, key))
        move = typed_as(MoveBody, wish | seen)
        if kind not in {OperationKind.FAILOVER, OperationKind.SWITCHOVER, OperationKind.FAILBACK}:
            raise UsageError("the form names no move that exists", hint="make the plan first")
        return await self._requested(request, name, lambda: self.writes.move(OperationKind(kind), move, who, key))

    async def _cancel(self, request: Request) -> Response:
        who, form = await operator_form(request)
        body = typed_as(CancelBody, {"id": request.path_params["operation"], "reason": text_of(form, "reason")})
        query = text_of(form, "query")
        return await self._requested(request, query, lambda: self.writes.cancel(body, who, None))

    async def _requested(self, request: Request, query: str, call: Callable[[], Mapping[str, object]]) -> Response:
        """To the request that was written; a refusal is a page with the way back to the query."""
        try:
            written = await self._work(call)
        except Refused as why:
            body = render("refused.html", query=query, text=str(why))
            return self.show(request, "Refused", body, 409)
        return RedirectResponse(path_of("requests", str(written["request"])), 303)

    async def _request(self, request: Request) -> Response:
        """What became of a request; once an operation carries it out, that one's page."""
        found = await self._work(lambda: self.writes.request(request.path_params["request"]))
        if found["operation"] is not None:
            return RedirectResponse(path_of("operations", str(found["operation"])), 303)
        return self.show(request, "Request", render("request.html", request=found), 200)

    async def _pause(self, request: Request) -> Response:
        who, form = await operator_form(request)
        query, until = text_of(form, "query") or None, text_of(form, "until") or None
        body = typed_as(PauseBody, {"query": query, "until": until, "reason": text_of(form, "reason")})
        await self._work(lambda: self.writes.pause(body, who))
        return _back(query)

    async def _resume(self, request: Request) -> Response:
        who, form = await operator_form(request)
        query = text_of(form, "query") or None
        body = typed_as(ResumeBody, {"query": query, "reason": text_of(form, "reason")})
        await self._work(lambda: self.writes.resume(body, who))
        return _back(query)

    async def _acknowledge(self, request: Request) -> Response:
        who, form = await operator_form(request)
        body = typed_as(AckBody, {"query": text_of(form, "query"), "reason": text_of(form, "reason")})
        await self._work(lambda: self.writes.acknowledge(body, who))
        return _back(body.query)

    async def _work(self, work: Callable[[], Worked]) -> Worked:
        return await on_thread(work, self._limiter, REQUEST_SECONDS)


async def operator_form(
    request: Request, *, many: frozenset[str] = frozenset()
) -> tuple[Principal, dict[str, list[str]]]:
    """Who sent it, and what was sent. Raises ``HTTPException`` and ``UsageError``."""
    who: Principal = request.scope["principal"]
    if not may_act(who):
        raise HTTPException(403, "this needs the role operator")
    return who, await form_of(request, many=many)


def _name_of(plan: Plan) -> str:
    parameters = {} if plan.rewind is None else {"to_time": plan.rewind.to_time}
    return headline(OperationKind(plan.kind), plan.query, plan.source, plan.target, parameters)


def may_act(who: Principal | None) -> bool:
    """Whether this reader sees buttons."""
    return who is not None and who.role.may(Role.OPERATOR)


def _wish(form: dict[str, list[str]], query: str) -> dict[str, object]:
    return {"query": query, "to": text_of(form, "to") or None, "consents": consents_of(form)}


def consents_of(form: dict[str, list[str]]) -> tuple[str, ...]:
    """The consents that were typed, however they were set apart."""
    return tuple(filter(None, re.split(r"[\s,]+", text_of(form, "consents"))))


def key_of(form: dict[str, list[str]]) -> str:
    """What makes a button that is pressed twice one request. Raises ``UsageError`` where no plan gave it."""
    key = text_of(form, "key")
    if not _KEY.fullmatch(key):
        raise UsageError("this form did not come with a plan", hint="make the plan first")
    return key


def _without_target(wish: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in wish.items() if name != "to"}


def typed_as(model: type[Parsed], fields: Mapping[str, object]) -> Parsed:
    """The fields as what is requested. Raises ``UsageError``."""
    try:
        return model.model_validate(fields)
    except ValidationError as mistakes:
        raise UsageError("; ".join(worded(mistakes)), hint="go back and correct it") from None


def _back(query: str | None) -> Response:
    return RedirectResponse("/" if query is None else path_of("queries", query), 303)


async def form_of(request: Request, *, many: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """The fields of a form that have a value. ``many``: those that may come more than once.

    Raises ``HTTPException`` and ``UsageError``.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "the body must be a form of a page")
    most = _FIELDS + (MOST_QUERIES if many else 0)
    try:
        fields = parse_qs((await body_of(request)).decode("ascii"), strict_parsing=False, max_num_fields=most)
    except ValueError:
        raise UsageError("the body is not a form") from None
    if any(len(values) > 1 and name not in many for name, values in fields.items()):
        raise UsageError("a field is given twice")
    return fields


def text_of(form: dict[str, list[str]], name: str) -> str:
    """One field; empty where it was left empty."""
    return form.get(name, [""])[0].strip()
