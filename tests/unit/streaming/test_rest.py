"""A service whose answer is none: one sentence, whatever arrives."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from streaming.errors import ServiceTrouble
from streaming.rest import Service


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A port that sends these bytes to whatever connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\n\r\nno json",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 200_000,
    ],
    ids=["not HTTP", "nothing", "cut", "not JSON", "nested"],
)
def test_an_answer_that_is_none_of_the_service_is_one_sentence(answer: bytes) -> None:
    with answering(answer) as address, pytest.raises(ServiceTrouble) as trouble:
        Service(address, what="a registry").query("/", timeout=30.0)
    assert str(trouble.value).startswith(f"{address} does not answer as a registry: ")
