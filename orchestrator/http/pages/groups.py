"""The pages of many moves at once: the plan of all of them with one button, and what became of each."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from orchestrator.decide.desk.plan_cost import cost, group_rows
from orchestrator.errors import Refused, UnknownName, UsageError
from orchestrator.facts.current import moved_last
from orchestrator.http.pages.acts import ShowPage, consents_of, key_of, operator_form, text_of, typed_as
from orchestrator.http.pages.markup import path_of, render
from orchestrator.http.requests.bodies import MovesBody, PlansBody
from orchestrator.http.requests.group_moves import GroupMoves
from orchestrator.http.waits import ANSWER_SECONDS, GROUP_SECONDS, on_thread
from state.model.entities import Operation
from state.model.entities import Request as Requested
from state.store.controller_store import ControllerStore

_SEEN = ("plan", "expect_active", "to", "query")
"""What the value of a box that is ticked says, with a space between; no name has one."""


@dataclass
class Groups:
    """The paths of moves of many queries; everyone but an operator is refused where something is planned."""

    moves: GroupMoves
    show: ShowPage
    _limiter: anyio.CapacityLimiter = field(init=False, default_factory=lambda: anyio.CapacityLimiter(1))
    """Such a plan takes a while: others wait for it, and single moves do not."""
    _reading: anyio.CapacityLimiter = field(init=False, default_factory=lambda: anyio.CapacityLimiter(1))

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/plans", self._plan, methods=["POST"]),
            Route("/moves", self._move, methods=["POST"]),
            Route("/groups/{group}", self._show_group, methods=["GET"]),
        ]

    async def _plan(self, request: Request) -> Response:
        _, form = await operator_form(request, many=frozenset({"query"}))
        fields = {
            "kind": text_of(form, "kind"), "queries": tuple(form.get("query", ())),
            "to": text_of(form, "to") or None, "consents": consents_of(form),
        }  # fmt: skip
        if not fields["queries"]:
            raise UsageError("no query is selected", hint="go back and select one")
        wanted = typed_as(PlansBody, fields)
        store = self.moves.writes.store
        seen = await on_thread(lambda: self.moves.planned(wanted), self._limiter, GROUP_SECONDS)
        moved = await on_thread(lambda: moved_last(store), self._reading, ANSWER_SECONDS)
        plans = [each.plan for each in seen]
        at_once = self.moves.writes.settings.operations.at_once
        rows = list(zip(group_rows(plans, moved), (each.hash for each in seen), strict=True))
        body = render(
            "plans.html", kind=wanted.kind, to=wanted.to or "", consents=wanted.consents, key=secrets.token_hex(16),
            rows=sorted(rows, key=lambda row: not row[0].plan.refused), cost=cost(plans, moved, at_once=at_once),
            ready=sum(not plan.refused for plan in plans), ways={(plan.source, plan.target) for plan in plans},
        )  # fmt: skip
        return self.show(request, f"Plan a {wanted.kind} of {len(plans)}", body, 200)

    async def _move(self, request: Request) -> Response:
        who, form = await operator_form(request, many=frozenset({"seen"}))
        key, moves = key_of(form), [dict(zip(_SEEN, each.split(" "), strict=False)) for each in form.get("seen", ())]
        if not moves:
            raise UsageError("no query is selected: nothing was requested", hint="go back and select one")
        fields = {"kind": text_of(form, "kind"), "consents": consents_of(form), "reason": text_of(form, "reason")}
        body = typed_as(MovesBody, {**fields, "moves": tuple(moves)})
        try:
            until = time.monotonic() + GROUP_SECONDS
            written = await on_thread(lambda: self.moves.move(body, who, key, until), self._limiter, GROUP_SECONDS)
        except Refused as why:
            return self.show(request, "Refused", render("refused.html", query="", text=str(why)), 409)
        if not written["refused"]:
            return RedirectResponse(path_of("groups", str(written["group"])), 303)
        return self.show(request, "Some were refused", render("some-refused.html", written=written), 200)

    async def _show_group(self, request: Request) -> Response:
        name, store = request.path_params["group"], self.moves.writes.store
        requests = await on_thread(lambda: store.requests_of(name), self._reading, ANSWER_SECONDS)
        if not requests:
            raise UnknownName("the store knows no such group", hint="the history names its operations")
        operations = await on_thread(lambda: _operations_of(store, name, requests), self._reading, ANSWER_SECONDS)
        rows = [(each, operations.get(each.operation or "")) for each in requests]
        over = sum(each.refused is not None or (it is not None and it.outcome is not None) for each, it in rows)
        rows.sort(
            key=lambda row: (row[0].refused is None and (row[1] is None or row[1].outcome == "done"), row[0].query)
        )
        body = render("group.html", rows=rows, over=over, kind=requests[0].kind, actor=requests[0].actor)
        return self.show(request, f"{over} of {len(rows)} have ended", body, 200)


def _operations_of(store: ControllerStore, group: str, requests: Sequence[Requested]) -> dict[str, Operation]:
    """By id, what carries the requests of a group out: a request may have joined an operation of another group."""
    found = {each.id: each for each in store.operations(group=group, limit=len(requests))}
    joined = {each.operation for each in requests if each.operation is not None} - found.keys()
    others = (store.operation(each) for each in joined)
    return found | {each.id: each for each in others if each is not None}
