"""The history as server-sent events: each line once, in order, to a bounded number of clients.

All of them look at the one status that is read at most once a second, so a client more costs the store nothing. A
client says by ``Last-Event-ID``, the sequence of a line, what it has seen; whatever lies behind it is read from the
history.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestrator.errors import UsageError
from orchestrator.http.reads import Reads
from orchestrator.shapes import operation_shapes
from state.errors import StoreError
from state.model.entities import Event

CLIENTS = 16
LOOK_SECONDS = 1.0
PING_SECONDS = 15.0
SEND_SECONDS = 20.0
"""A client that takes nothing for so long is let go."""
BATCH = 1000
"""How many lines a client gets that was away; of more it hears that it missed some."""
MISSED = "event: missed\ndata: {}\n\n"


class TooManyClients(Exception):
    """As many clients follow the history as may."""


@dataclass
class Feed:
    """The clients of one server, all on its event loop."""

    reads: Reads
    is_over: Callable[[], bool]
    """Whether the server is to end: then every stream does."""
    clients: int = 0
    """Those that follow now."""
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(2))

    def join(self, last_event_id: str | None) -> "EventStream":
        """A stream behind that line, or from now on. Raises ``TooManyClients`` and ``UsageError``."""
        if self.clients >= CLIENTS:
            raise TooManyClients
        if last_event_id is not None and not (last_event_id.isascii() and last_event_id.isdigit()):
            raise UsageError("Last-Event-ID must be the sequence of a line of the history")
        return EventStream(self, None if last_event_id is None else min(int(last_event_id[:19]), 2**62))

    async def news(self, seen: int | None) -> tuple[str, int]:
        """What is to be sent behind that line, and the line that is seen then. Raises ``StoreError``."""
        return await anyio.to_thread.run_sync(self._news, seen, abandon_on_cancel=True, limiter=self._limiter)

    def _news(self, seen: int | None) -> tuple[str, int]:
        newest: Sequence[Event] = self.reads.status_now().events
        last = _sequence(newest[-1]) if newest else 0
        if seen is None or last < seen:  # nothing was seen, or in a store that was put back since
            return "" if seen is None else MISSED, last
        if newest and _sequence(newest[0]) > seen + 1:
            newest = self.reads.store.history(after=seen, limit=BATCH + 1)
            last = _sequence(newest[-1]) if newest else last
        new = [event for event in newest if _sequence(event) > seen]
        return (MISSED if len(new) > BATCH else "") + "".join(as_text(event) for event in new[-BATCH:]), last


class EventStream(Response):
    """One client's."""

    def __init__(self, feed: Feed, seen: int | None) -> None:
        super().__init__(media_type="text/event-stream")
        self._feed = feed
        self._seen = seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._feed.clients += 1
        try:
            async with anyio.create_task_group() as group:

                async def until_gone() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    group.cancel_scope.cancel()

                group.start_soon(until_gone)
                await self._stream(send)
                group.cancel_scope.cancel()
        finally:
            self._feed.clients -= 1

    async def _stream(self, send: Send) -> None:
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        pinged = -PING_SECONDS
        while not self._feed.is_over():
            text = await self._reported()
            if anyio.current_time() - pinged >= PING_SECONDS:
                text += ": ping\n\n"
                pinged = anyio.current_time()
            if text:
                with anyio.move_on_after(SEND_SECONDS) as sending:
                    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
                if sending.cancelled_caught:
                    return
            await anyio.sleep(LOOK_SECONDS)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _reported(self) -> str:
        try:
            text, self._seen = await self._feed.news(self._seen)
        except StoreError:
            return ""  # it is read again
        return text


def as_text(event: Event) -> str:
    """As the standard of server-sent events has it; its data is JSON on one line."""
    data = json.dumps(operation_shapes.event_row(event), ensure_ascii=False).replace("<", "\\u003c")
    return f"id: {event.sequence}\nevent: history\ndata: {data}\n\n"


def _sequence(event: Event) -> int:
    return event.sequence or 0
