"""Whatever goes wrong before a login is no fault of the cluster's."""

import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest

from state.model.cluster_status import Fault
from streaming.errors import CredentialRefused
from streaming.kafka.errors import trouble_of
from streaming.kafka.login.login_failed import LoginFailed
from streaming.kafka.login.prepared import Settings, prepared
from tests.waiting import until


class Net:
    """A loop that does at once what it is given."""

    def call_soon_threadsafe(self, work: Callable[[], None]) -> None:
        work()


class Failing:
    """A ``Login`` that fails."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def prepare(self, host: str, until: float | None = None) -> Settings:
        raise self._error

    def was_refused(self) -> None:
        """Nothing was prepared."""


def outcome(error: Exception) -> Exception:
    """What a connection gets where its login fails so."""
    waiting = prepared(Net(), Failing(error), "e", None)
    try:
        future: Any = waiting.send(None)
        until(lambda: future.is_done)
        waiting.send(None)
    except (LoginFailed, CredentialRefused) as failed:
        return failed
    raise AssertionError("the login did not fail")


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        RuntimeError("can't start new thread"),
        FileNotFoundError(errno.ENOENT, "No such file", "/keys/secret"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        MemoryError(),
        TimeoutError(),
    ],
)
def test_an_unforeseen_error_is_a_failed_login_that_passes(error: Exception) -> None:
    found = outcome(error)
    assert isinstance(found, LoginFailed)
    trouble = trouble_of(found, "east:9092", answered_before=True)
    assert (trouble.kind, trouble.fault, trouble.retriable) == ("authentication", Fault.HERE, True)
    assert type(error).__name__ in trouble.text


def test_the_words_of_an_unforeseen_error_may_hold_a_secret() -> None:
    assert "correct-horse" not in str(outcome(ValueError("invalid: correct-horse")))


def test_a_foreseen_error_is_handed_on() -> None:
    for error in (LoginFailed("no"), CredentialRefused("the key table is not a file")):
        assert outcome(error) is error


def test_a_host_that_starts_no_thread_is_no_silent_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    found = outcome(ValueError())
    assert trouble_of(found, "east:9092", answered_before=True).fault is Fault.HERE
    assert "can't start new thread" in str(found)
