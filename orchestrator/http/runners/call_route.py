"""The path of the calls of runners: who sent one, how many are worked out at once, and how much memory they take."""

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.http.auth import Principal
from orchestrator.http.runners.call_answers import RunnerCalls
from orchestrator.http.waits import json_body_of, on_thread
from state.store.remote.runner_calls import CALLS, PATH, WAIT_SECONDS

AT_ONCE = 8
"""How many calls are worked out side by side: no runner waits for the desk, and the desk for no runner."""
LARGE_AT_ONCE = 2
LARGE_BYTES = 1024 * 1024
"""Larger bodies are read two at a time, so that they take 100 MB at most."""
WAITING_AT_ONCE = 400
"""Runners that wait for a change; each has a thread while it waits."""
CALL_SECONDS = 8.0
"""Less than a runner waits for its answer."""


def runner_route(calls: RunnerCalls) -> Route:
    """``POST PATH/call``."""
    of_calls, of_waits = anyio.CapacityLimiter(AT_ONCE), anyio.CapacityLimiter(WAITING_AT_ONCE)
    of_large = anyio.CapacityLimiter(LARGE_AT_ONCE)

    async def answered(request: Request) -> Response:
        who: Principal = request.scope["principal"]
        runner, name = who.runner, request.path_params["call"]
        if runner is None or name not in CALLS:
            raise HTTPException(404, f"a runner has no call {name!r}")
        is_wait = name == "await_change"
        seconds = CALL_SECONDS + (WAIT_SECONDS if is_wait else 0.0)
        body = await json_body_of(request)
        request.scope["body_read"] = True
        result = await on_thread(
            lambda: calls.answer(runner, name, body), of_waits if is_wait else of_calls, seconds
        )  # fmt: skip
        return Response(result, media_type="application/json")

    async def answer(request: Request) -> Response:
        if int(request.headers.get("content-length", "0")) <= LARGE_BYTES:
            return await answered(request)
        async with of_large:
            return await answered(request)

    return Route(f"{PATH}/{{call}}", answer, methods=["POST"])
