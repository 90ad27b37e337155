"""A connection that logs in again while it is in use."""

import time
from types import SimpleNamespace
from typing import Any

from streaming.kafka.connections import _IdentityChecked
from streaming.kafka.login.prepared import Settings
from tests.waiting import until

# a loop that never comes to an outcome
NET: Any = SimpleNamespace(call_soon_threadsafe=lambda _: None, call_later=lambda *_: object(), cancel=lambda _: None)


class Noting:
    """A ``Login`` that notes its deadlines."""

    def __init__(self) -> None:
        self.deadlines: list[float | None] = []

    def prepare(self, host: str, until: float | None = None) -> Settings:
        self.deadlines.append(until)
        return {}

    def was_refused(self) -> None:
        """It is not."""


def test_a_later_login_has_the_deadline_of_a_request() -> None:
    connection, login = _IdentityChecked(NET, request_timeout_ms=100_000), Noting()
    connection.login, connection.transport = login, SimpleNamespace(host="e")
    began = time.monotonic()
    later = connection._sasl_authenticate()
    later.send(None)
    until(lambda: login.deadlines)
    later.close()
    (deadline,) = login.deadlines
    assert deadline is not None
    assert began < deadline <= time.monotonic() + 100.0
