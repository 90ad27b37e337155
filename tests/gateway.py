"""A gateway before real brokers: one address that leads to one of them, and may be turned to another."""

import asyncio
import threading
from typing import Any

from tests.ports import free_port
from tests.waiting import THREAD_SECONDS


class Gateway:
    """One address that leads to a broker, and may be turned to another one."""

    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._target = ""
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        host, port = self.address.split(":")
        self._do(asyncio.start_server(self._taken, host, int(port)))

    def lead_to(self, target: str) -> None:
        """Every connection from now on goes there; those that are open end."""
        self._target = target

        async def hang_up() -> None:
            for each in self._open:
                each.close()
            self._open.clear()

        self._do(hang_up())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(THREAD_SECONDS)

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._target
        host, port = target.split(":")
        there, back = await asyncio.open_connection(host, int(port))
        if target != self._target:  # it was turned in between, and has hung up what was open then
            writer.close()
            back.close()
            return
        self._open |= {writer, back}
        await asyncio.gather(_carry(reader, back), _carry(there, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    writer.close()
