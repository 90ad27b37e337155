"""The history as server-sent events, over the wire."""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrator.http import events
from state.store.controller_store import ControllerStore
from state.store.sql.migrate import open_store
from tests.contract import samples
from tests.served import VIEWER, Served, received, serving
from tests.waiting import until


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.05)
    with serving(tmp_path) as made:
        yield made


@pytest.fixture
def store(served: Served, tmp_path: Path) -> Iterator[ControllerStore]:
    opened = open_store(f"sqlite:///{tmp_path}/t.db")
    yield opened
    opened.close()


@dataclass
class Follower:
    """A client that reads as it comes."""

    connection: socket.socket
    came: str = field(default="")

    def hears(self, text: str, times: int = 1) -> bool:
        """Reads until the text came so often; each read has a timeout."""
        while self.came.count(text) < times:
            self.came += self.connection.recv(65_536).decode()
        return True

    @property
    def read_events(self) -> list[dict[str, Any]]:
        return [json.loads(line[6:]) for line in self.came.splitlines() if line.startswith('data: {"')]


@contextlib.contextmanager
def following(served: Served, *, after: object = None) -> Iterator[Follower]:
    head = f"GET /events HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {VIEWER}\r\n"
    more = "" if after is None else f"Last-Event-ID: {after}\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as connection:
        connection.sendall(f"{head}{more}\r\n".encode())
        follower = Follower(connection)
        follower.hears("\r\n\r\n")
        yield follower


def note(store: ControllerStore, *texts: str) -> None:
    for text in texts:
        store.note(samples.event(text=text))


def test_each_new_line_is_sent_once_and_in_order(served: Served, store: ControllerStore) -> None:
    note(store, "before")
    with following(served) as follower:
        follower.hears(": ping")
        note(store, "one", "two <b>")
        follower.hears("two ")
        note(store, "three")
        follower.hears("three")
        assert [event["text"] for event in follower.read_events] == ["one", "two <b>", "three"]
        assert "content-type: text/event-stream" in follower.came
        assert "<b>" not in follower.came
        numbers = [event["sequence"] for event in follower.read_events]
        assert [f"id: {number}\nevent: history\n" in follower.came for number in numbers] == [True] * 3


def test_a_client_that_was_away_gets_what_it_missed(served: Served, store: ControllerStore) -> None:
    note(store, *(f"line {index}." for index in range(120)))
    third = store.history()[2].sequence
    with following(served, after=third) as follower:
        follower.hears("line 119.")
        assert [event["text"] for event in follower.read_events] == [f"line {index}." for index in range(3, 120)]
        assert "event: missed" not in follower.came


def test_of_too_many_lines_the_newest_are_sent(
    served: Served, store: ControllerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH", 60)
    note(store, *(f"line {index}." for index in range(120)))
    with following(served, after=0) as follower:
        follower.hears("line 119.")
        assert [event["text"] for event in follower.read_events] == [f"line {index}." for index in range(60, 120)]
        assert follower.came.index("event: missed") < follower.came.index("line 60.")


def test_a_number_from_before_a_restored_store_counts_as_missed(served: Served, store: ControllerStore) -> None:
    note(store, "one")
    with following(served, after=10**30) as follower:
        follower.hears("event: missed")
        note(store, "two")
        follower.hears("two")
        assert [event["text"] for event in follower.read_events] == ["two"]


@pytest.mark.parametrize("after", ["x", "-1", "1.5", "1e3"])
def test_an_id_that_is_none_is_refused(served: Served, after: str) -> None:
    assert served.call("/events", token=VIEWER, headers={"Last-Event-ID": after}).code == 400


def test_a_ping_comes_again_and_again(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PING_SECONDS", 0.1)
    with following(served) as follower:
        assert follower.hears(": ping", times=3)


def test_no_more_clients_follow_than_may_and_places_are_free_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "CLIENTS", 2)
    with following(served) as one, following(served) as two:
        one.hears(": ping")
        two.hears(": ping")
        answer = served.call("/events", token=VIEWER)
        assert (answer.code, answer.kind, answer.headers["Retry-After"]) == (503, "too-many-clients", "15")
        assert served.call("/api/status", token=VIEWER).code == 200
    until(lambda: "200" in head_of(served))


def head_of(served: Served) -> str:
    with following(served) as follower:
        return follower.came.partition("\r\n")[0]


def test_a_stream_ends_when_the_server_does(served: Served) -> None:
    with following(served) as follower:
        follower.hears(": ping")
        served.server.close()
        assert received(follower.connection).endswith(b"0\r\n\r\n")


def test_a_client_that_takes_nothing_is_let_go(
    served: Served, store: ControllerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(events, "PING_SECONDS", 0.2)  # what is sent next finds the lines before it still unsent
    monkeypatch.setattr(events, "CLIENTS", 1)
    note(store, *("x" * 50_000 for _ in range(200)))
    with following(served, after=0):
        until(lambda: "200" in head_of(served))
