"""How long is waited: for what is worked out on a thread, and for a body that a client sends."""

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from state.errors import StoreUnavailable

ANSWER_SECONDS = 20.0
REQUEST_SECONDS = 60.0
"""What is requested may need clusters that do not answer."""
GROUP_SECONDS = 300.0
"""Each of several hundred queries may need them."""
BODY_SECONDS = 10.0

Worked = TypeVar("Worked")


async def on_thread(work: Callable[[], Worked], limiter: anyio.CapacityLimiter, seconds: float) -> Worked:
    """What ``work`` returns. A thread that hangs in a store keeps its place until the store lets it go."""
    with anyio.move_on_after(seconds):
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
    raise StoreUnavailable(
        f"no answer within {seconds:.0f} s",
        hint="the store, or a cluster that is read for it, is slow or does not answer; try again",
    )


async def body_of(request: Request) -> bytes:
    """What was sent. Raises ``HTTPException``."""
    try:
        with anyio.fail_after(BODY_SECONDS):
            return await request.body()
    except TimeoutError:
        raise HTTPException(408, "the body did not arrive in full") from None
    except ClientDisconnect:
        raise HTTPException(400, "the body did not arrive in full") from None


async def json_body_of(request: Request) -> bytes:
    """The same of a request that says that it sends JSON. Raises ``HTTPException``."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "send the header Content-Type: application/json")
    return await body_of(request)
