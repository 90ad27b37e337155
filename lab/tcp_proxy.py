"""The link between the sites: forwards TCP, and delays or stalls what it forwards on request.

`tc netem` would do it below TCP, but not every kernel has it, and it wants a privilege. This proxy holds every chunk
back for the delay of a slow line, and a lost packet is what TCP makes of it. The stream stops for a
retransmission timeout, and what is behind waits, too. The request is in a file: `DELAY_MS LOSS_PERCENT`.
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ORDERS = Path("/tmp/link")
"""Where the request is; absent or empty: forward at once."""
TALLY = Path("/tmp/link.tally")
"""Where it says how many chunks it has passed on since the orders last changed, and how many of those it stalled."""

_CHUNK = 65536
_QUEUED = 64
_LOOK_SECONDS = 0.5
_RETRANSMIT_SECONDS = 0.2


@dataclass(frozen=True)
class Line:
    """What the line is like."""

    delay_ms: float = 0.0
    loss_percent: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Line":
        """Read orders, `200 5`; a clear line when there are none. ValueError when they are no numbers."""
        words = text.split()
        return cls(*(float(word) for word in words[:2]))

    def loses(self, draw: float) -> bool:
        """Whether a chunk is lost at first; `draw` is in [0, 1)."""
        return draw < self.loss_percent / 100

    def hold_seconds(self, *, lost: bool) -> float:
        """How long a chunk is held back."""
        stall = _RETRANSMIT_SECONDS + self.delay_ms / 1000 if lost else 0.0
        return self.delay_ms / 1000 + stall


class TcpProxy:
    """Forwards connections, each from one of its ports to one address."""

    def __init__(self, orders: Path, tally: Path, chance: random.Random) -> None:
        self._orders = orders
        self._tally = tally
        self._chance = chance
        self._line = Line()
        self._passed = self._lost = 0

    async def serve(self, routes: dict[int, tuple[str, int]]) -> None:
        """Listen on every port until cancelled."""
        servers = [
            await asyncio.start_server(partial(self.accept, host=host, there=there), port=port)
            for port, (host, there) in routes.items()
        ]
        try:
            while True:
                self.look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for server in servers:
                server.close()

    def look(self) -> None:
        """Read the orders, and say what was done; orders that cannot be read change nothing."""
        line = self._line
        with contextlib.suppress(ValueError):
            line = Line.parse(self._orders.read_text(encoding="ascii") if self._orders.exists() else "")
        if line != self._line:
            self._line, self._passed, self._lost = line, 0, 0
        whole = self._tally.with_suffix(".new")
        whole.write_text(f"{self._passed} {self._lost}\n", encoding="ascii")
        whole.replace(self._tally)  # a reader at the same time gets all of the old one

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, there: int) -> None:
        """Forward one connection to an address, both ways, until both ends have closed."""
        try:
            there_reader, there_writer = await asyncio.open_connection(host, there)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(self._pass_on(reader, there_writer), self._pass_on(there_reader, writer))
        finally:
            writer.close()
            there_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One direction, in order; the end of it is passed on, too."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED)
        sending = asyncio.create_task(_send(queue, writer))
        try:
            while chunk := await reader.read(_CHUNK):
                await queue.put((time.monotonic() + self._hold_seconds(), chunk))
        except OSError:
            pass  # a reset is an end like any other
        await queue.put((0.0, b""))
        await sending

    def _hold_seconds(self) -> float:
        """How long the next chunk is held back; it is counted."""
        lost = self._line.loses(self._chance.random())
        self._passed += 1
        self._lost += lost
        return self._line.hold_seconds(lost=lost)


async def _send(queue: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    broken = False
    while True:
        due, chunk = await queue.get()
        if not chunk:
            break
        if broken:
            continue  # the reader is emptied, so that it meets its own end
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        try:
            writer.write(chunk)
            await writer.drain()
        except OSError:
            broken = True
    if not broken:
        with contextlib.suppress(OSError):
            writer.write_eof()  # the other direction may still have something to say


def parse_routes(arguments: Sequence[str]) -> dict[int, tuple[str, int]]:
    """Read `19091=east-1:19091` and the like. ValueError when one is not that."""
    routes = {}
    for argument in arguments:
        port, _, address = argument.partition("=")
        host, _, there = address.rpartition(":")
        routes[int(port)] = (host, int(there))
    return routes


def main(arguments: Sequence[str]) -> None:
    """Serve until the process is ended."""
    asyncio.run(TcpProxy(ORDERS, TALLY, random.Random()).serve(parse_routes(arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
