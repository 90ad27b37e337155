"""Pages of the desk that are open: ``python -m bench.desk_pages PORT COUNT FILE``, until SIGTERM.

Each does what a browser does with ``desk.js``, over real connections. It keeps one for its page, requests to follow the
history, and fetches its page each ten seconds, and soon after each line if it may follow. Half of them show the
overview, half a query. What came of it is written to FILE as JSON: fetches, refusals, and seconds of each answer.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

AGES_SECONDS = 10.0
SOON_SECONDS = 0.3
AT_LEAST_SECONDS = 1.5
"""The times of ``desk.js``."""
QUERY = "/queries/orders"
_HOST = "127.0.0.1"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Seen:
    """By all pages together."""

    answers: list[float] = field(default_factory=list)
    """Seconds from the request of a page to its last byte."""
    refused: int = 0
    followers: int = 0


@dataclass
class Page:
    """One page that is open."""

    port: int
    path: str
    seen: Seen
    _streams: Streams | None = None
    _due: asyncio.Event = field(default_factory=asyncio.Event)

    async def stay_open(self, wait: float) -> None:
        """Until it is cancelled; it begins after ``wait`` seconds, for people do not come all at once."""
        await asyncio.sleep(wait)
        following = asyncio.create_task(self._follow())
        try:
            while True:
                await self._fetch()
                await asyncio.sleep(AT_LEAST_SECONDS)
                await _within(AGES_SECONDS - AT_LEAST_SECONDS, self._due.wait())
                self._due.clear()
        finally:
            following.cancel()

    async def _fetch(self) -> None:
        began = time.monotonic()
        code = await self._requested()
        self.seen.answers.append(time.monotonic() - began)
        self.seen.refused += code != 200

    async def _requested(self) -> int:
        """The code of the answer; a connection that the server has closed is opened again."""
        for _ in range(2):
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = self._streams = self._streams or await asyncio.open_connection(_HOST, self.port)
                writer.write(_head(self.path, "text/html", "keep-alive"))
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(_length(head))
                return int(head.split(b" ", 2)[1])
            self._streams = None
        return 0

    async def _follow(self) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(_HOST, self.port)
            writer.write(_head("/events", "text/event-stream", "close"))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.splitlines()[0]:
                writer.close()
                return
            self.seen.followers += 1
            while line := await reader.readline():
                if line.startswith(b"event:"):
                    await asyncio.sleep(SOON_SECONDS)
                    self._due.set()


async def _within(seconds: float, awaited: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(awaited, seconds)


def _head(path: str, accept: str, connection: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {_HOST}\r\nAccept: {accept}\r\nConnection: {connection}\r\n\r\n".encode()


def _length(head: bytes) -> int:
    lines = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:] if b": " in line)
    return int(lines[b"content-length"])


async def stay(port: int, count: int, file: Path) -> None:
    """Keep this number of pages open until SIGTERM; then write what they saw."""
    over, seen = asyncio.Event(), Seen()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    pages = [Page(port, QUERY if number % 2 else "/", seen) for number in range(count)]
    tasks = [
        asyncio.create_task(page.stay_open(AGES_SECONDS * number / count)) for number, page in enumerate(pages)
    ]  # fmt: skip
    await over.wait()
    for task in tasks:
        task.cancel()
    file.write_text(json.dumps({"answers": seen.answers, "refused": seen.refused, "followers": seen.followers}))


if __name__ == "__main__":
    asyncio.run(stay(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
