"""The link between the sites: what it forwards, and how long it holds it back."""

import asyncio
import random
import time
from functools import partial
from pathlib import Path

import pytest

from lab.tcp_proxy import Line, TcpProxy, parse_routes


def test_orders_are_read_as_delay_and_loss() -> None:
    assert Line.parse("200 5\n") == Line(delay_ms=200.0, loss_percent=5.0)
    assert Line.parse("") == Line()
    with pytest.raises(ValueError, match="slow"):
        Line.parse("slow")


def test_a_lost_chunk_is_held_back_for_a_retransmission_and_the_delay_again() -> None:
    line = Line(delay_ms=200.0, loss_percent=5.0)
    assert (line.loses(0.049), line.loses(0.05), Line().loses(0.0)) == (True, False, False)
    assert line.hold_seconds(lost=False) == pytest.approx(0.2)
    assert line.hold_seconds(lost=True) == pytest.approx(0.6)
    assert Line().hold_seconds(lost=False) == 0.0


def test_routes_are_read_from_the_command_line() -> None:
    assert parse_routes(["19091=east-1:19091", "1=a:2"]) == {19091: ("east-1", 19091), 1: ("a", 2)}


def test_the_proxy_passes_bytes_whole_in_order_and_with_the_ordered_delay(tmp_path: Path) -> None:
    orders, tally = tmp_path / "orders", tmp_path / "tally"
    sent = random.Random(5).randbytes(300_000)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(-1))
        await writer.drain()
        writer.close()

    async def through(port: int, data: bytes) -> tuple[bytes, float]:
        begun = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        back = await reader.read(-1)
        writer.close()
        return back, time.monotonic() - begun

    async def story() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        there = server.sockets[0].getsockname()[1]
        proxy = TcpProxy(orders, tally, random.Random(1))
        listening = await asyncio.start_server(partial(proxy.accept, host="127.0.0.1", there=there), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        assert (await through(port, sent))[0] == sent
        proxy.look()
        passed, lost = tally.read_text().split()
        assert int(passed) > 2
        assert lost == "0", "a clear line loses nothing"
        orders.write_text("100 0\n")
        proxy.look()
        back, seconds = await through(port, sent)
        assert back == sent
        assert seconds >= 0.2, "a hundred milliseconds each way"
        proxy.look()
        assert 2 <= int(tally.read_text().split()[0]) < 50, "since the orders changed"
        orders.write_text("100 100\n")
        proxy.look()
        assert tally.read_text() == "0 0\n"
        assert (await through(port, b"x"))[1] >= 0.8, "lost each way"
        proxy.look()
        assert tally.read_text() == "2 2\n"
        orders.write_text("rubbish")
        proxy.look()
        assert (await through(port, b"x"))[1] >= 0.2, "orders that cannot be read change nothing"
        listening.close()
        server.close()

    asyncio.run(story())
