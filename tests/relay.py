"""Carries TCP connections from one address to another: ``python -m tests.relay LISTEN=TARGET ...``.

Brokers name themselves by an address of the loopback, and each network namespace has a loopback of its own: one relay
inside listens there and goes out through a cable that a test can pull, one outside takes it on to the brokers. A
connection whose way on is cut stays open and hears nothing, as it would behind a switch that died.
"""

import asyncio
import contextlib
import sys


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way until either side ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def serve(listen: str, target: str) -> asyncio.Server:
    """Take connections from now on."""

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = target.split(":")
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(reader, back), carry(there, writer))

    host, port = listen.split(":")
    return await asyncio.start_server(taken, host, int(port))


async def main() -> None:
    servers = [await serve(*pair.split("=")) for pair in sys.argv[1:]]
    print("ready", flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(main())
