"""Connections to controllers: which one is tried, what is sent again, and what an answer that is lost means."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from state.errors import StoreUnavailable
from state.store.remote import http_connections
from state.store.remote.http_connections import HttpConnections
from tests.waiting import THREAD_SECONDS

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Listener:
    """A server of the loopback that answers each request of a connection with the next of some answers."""

    def __init__(self, *answers: bytes | None) -> None:
        """None: the connection ends in place of an answer."""
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while request := connection.recv(65_536):
                while not request.endswith(b"}"):
                    request += connection.recv(65_536)
                self.requests.append(request)
                answer = self.answers.pop(0) if self.answers else OK
                if answer is None:
                    return
                connection.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(THREAD_SECONDS)


@pytest.fixture
def listening() -> Iterator[Callable[..., Listener]]:
    made: list[Listener] = []

    def listen(*answers: bytes | None) -> Listener:
        made.append(Listener(*answers))
        return made[-1]

    yield listen
    for each in made:
        each.close()


def connected(*urls: str) -> HttpConnections:
    return HttpConnections(urls, lambda: "the-token")


def nowhere() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_connection_is_kept_and_has_the_token_in_its_header_alone(listening: Callable[..., Listener]) -> None:
    one = listening()
    connections = connected(one.url)
    for _ in range(3):
        assert connections.post("/a", b"{}", is_repeatable=True)[:2] == (200, b"{}")
    assert one.connections == 1
    head = one.requests[0].decode()
    assert head.startswith("POST /a HTTP/1.1\r\n")
    assert head.count("the-token") == 1
    assert "Authorization: Bearer the-token\r\n" in head
    connections.close()


def test_the_controller_that_answered_last_is_tried_first(listening: Callable[..., Listener]) -> None:
    one = listening()
    connections = connected(nowhere(), one.url, nowhere())
    for _ in range(2):
        assert connections.post("/a", b"{}", is_repeatable=False).url == one.url
    assert connections._first == 1


def test_a_call_whose_answer_was_lost_is_sent_again_where_that_is_the_same(listening: Callable[..., Listener]) -> None:
    one, two = listening(None), listening()
    assert connected(one.url, two.url).post("/a", b"{}", is_repeatable=True).url == two.url
    assert (len(one.requests), len(two.requests)) == (1, 1)


def test_a_call_that_would_be_done_twice_is_not_sent_again(listening: Callable[..., Listener]) -> None:
    one, two = listening(None), listening()
    with pytest.raises(StoreUnavailable, match="may or may not have been saved"):
        connected(one.url, two.url).post("/a", b"{}", is_repeatable=False)
    assert (len(one.requests), len(two.requests)) == (1, 0)


def test_a_kept_connection_that_was_ended_is_made_again(listening: Callable[..., Listener]) -> None:
    one = listening(OK, None, OK)
    connections = connected(one.url)
    connections.post("/a", b"{}", is_repeatable=True)
    assert connections.post("/a", b"{}", is_repeatable=True).code == 200
    assert (one.connections, len(one.requests)) == (2, 3)


def test_a_call_that_is_not_repeated_gets_a_new_connection(listening: Callable[..., Listener]) -> None:
    """The other side may have ended the one that was kept, and then it is unknown whether the call arrived."""
    one = listening()
    connections = connected(one.url)
    connections.post("/a", b"{}", is_repeatable=True)
    connections.post("/a", b"{}", is_repeatable=False)
    assert one.connections == 2


def test_a_connection_that_was_idle_for_long_is_not_used(listening: Callable[..., Listener]) -> None:
    one, now = listening(), [0.0]
    connections = HttpConnections([one.url], lambda: "t", monotonic=lambda: now[0])
    connections.post("/a", b"{}", is_repeatable=True)
    now[0] += 3.0
    connections.post("/a", b"{}", is_repeatable=True)
    assert one.connections == 2


def test_where_no_controller_answers_the_store_is_away(listening: Callable[..., Listener]) -> None:
    with pytest.raises(StoreUnavailable, match="no controller answers: http") as away:
        connected(nowhere(), nowhere()).post("/a", b"{}", is_repeatable=False)
    assert "that its HTTP is on" in away.value.hint
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connections = connected(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(StoreUnavailable, match="timed out"):
            connections.post("/a", b"{}", is_repeatable=True, seconds=0.05)


AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"


def test_a_controller_without_its_store_passes_the_call_to_the_next(listening: Callable[..., Listener]) -> None:
    one, two = listening(*[AWAY] * 4), listening()
    connections = connected(one.url, two.url)
    for _ in range(3):
        answer = connections.post("/a", b"{}", is_repeatable=True)
        assert (answer.code, answer.url) == (200, two.url)
    assert len(one.requests) == 1


def test_a_call_that_would_be_done_twice_goes_to_the_next_at_its_next_try(listening: Callable[..., Listener]) -> None:
    one, two = listening(AWAY), listening()
    connections = connected(one.url, two.url)
    assert connections.post("/a", b"{}", is_repeatable=False).code == 503
    assert two.requests == []
    assert connections.post("/a", b"{}", is_repeatable=False).code == 200


def test_the_last_answer_counts_where_no_controller_has_its_store(
    listening: Callable[..., Listener],
) -> None:
    one, two = listening(AWAY), listening(AWAY)
    assert connected(one.url, two.url).post("/a", b"{}", is_repeatable=True)[::2] == (503, two.url)
    assert connected(listening(AWAY).url, nowhere()).post("/a", b"{}", is_repeatable=True).code == 503


def test_an_answer_without_end_is_not_read(listening: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "MOST_BYTES", 4)
    one = listening(*[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345"] * 2)
    with pytest.raises(StoreUnavailable, match="more than 4 bytes"):
        connected(one.url).post("/a", b"{}", is_repeatable=True)


def test_a_redirect_is_an_answer_and_the_token_stays_here(listening: Callable[..., Listener]) -> None:
    two = listening()
    one = listening(b"HTTP/1.1 302 Found\r\nLocation: " + two.url.encode() + b"/\r\nContent-Length: 0\r\n\r\n")
    assert connected(one.url).post("/a", b"{}", is_repeatable=True).code == 302
    assert two.requests == []
