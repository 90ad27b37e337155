"""A round trip to a broker, timed by hand."""

import asyncio
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from lab import ping
from lab.access import Access
from lab.tcp_proxy import TcpProxy


@contextmanager
def listening(answer: bytes, held_seconds: float = 0.0, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """An address at which every request gets an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.recv(1, socket.MSG_PEEK)  # the request is there: from now on it waits
                    time.sleep(held_seconds)
                    if tls is not None:
                        tls.wrap_socket(connection, server_side=True).recv(1)
                    elif connection.recv(64):
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(60.0)


def test_a_round_trip_takes_as_long_as_the_answer() -> None:
    with listening(b"yes", 0.2) as address:
        assert 0.2 <= ping.round_trip(address, tls=False) < 5.0
    with listening(b"") as address, pytest.raises(ConnectionError, match="without an answer"):
        ping.round_trip(address, tls=False)


def test_a_tls_listener_is_alive_if_it_answers_the_handshake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Access(tmp_path / "secrets" / "east", "mtls").make()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "secrets" / "east" / "broker.both")
    with listening(b"", 0.2, tls) as address:
        assert ping.main((str(tmp_path), "east", address)) == 0
    assert float(capsys.readouterr().out) > 0.1  # its pause may begin a little before our clock does


def test_no_answer_is_no_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ping.main((str(tmp_path), "east", "127.0.0.1:9")) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err


def test_a_slow_link_is_seen_by_it(tmp_path: Path) -> None:
    orders = tmp_path / "orders"
    orders.write_text("100 0\n")

    async def story(there: str) -> float:
        proxy = TcpProxy(orders, tmp_path / "tally", random.Random(1))
        proxy.look()
        host, _, port = there.rpartition(":")
        server = await asyncio.start_server(partial(proxy.accept, host=host, there=int(port)), "127.0.0.1", 0)
        link = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server:
            return await asyncio.to_thread(ping.round_trip, link, tls=False)

    with listening(b"yes") as address:
        assert asyncio.run(story(address)) >= 0.2
