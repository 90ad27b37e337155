"""What is fetched before a connection logs in, and how the loop waits for it.

A token endpoint or a KDC may take seconds, or never answer. kafka-python requests a token on the thread that serves all
connections. So it is fetched on another thread here, and only the connection that needs it waits.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from kafka import errors
from kafka.future import Future

from streaming.errors import CredentialRefused
from streaming.kafka.login.login_failed import LoginFailed

Settings = Mapping[str, Any]
"""Keyword arguments for kafka-python's SASL mechanism."""


SILENT = "the service that gives out tokens or tickets does not answer"
UNPREPARED = "this process could not prepare the login"
_SHARE = 0.8
"""Of the time for a connection, what a login may wait for its service."""


class Login(Protocol):
    """One way to log in, for all connections to one cluster."""

    def prepare(self, host: str, until: float | None = None) -> Settings:
        """What the login at a broker needs; may take seconds, from any thread.

        Nothing waits for it after ``until``, on the monotonic clock. So no request is begun then.

        Raises ``LoginFailed`` with the sentence of the service that was requested, and what it means. Raises
        ``CredentialRefused`` where a secret or a file is missing.
        """
        ...

    def was_refused(self) -> None:
        """A broker refused what was prepared."""
        ...


async def prepared(net: Any, login: Login, host: str, timeout_at: float | None) -> Settings:
    """What ``login`` prepares; to be awaited on the loop ``net``.

    Raises ``LoginFailed`` and ``CredentialRefused``, and nothing else: what goes wrong here is not the broker's. Nor is
    a login that takes too long: it is the service's silence. So it is raised before ``timeout_at``, when the caller
    takes no answer for a silent broker. What the thread finds then serves the next login.
    """
    outcome = Future()
    now = time.monotonic()
    until = None if timeout_at is None else now + _SHARE * max(0.0, timeout_at - now)

    def prepare() -> None:
        _prepare(net, outcome, lambda: login.prepare(host, until))

    try:
        threading.Thread(target=prepare, name="kafka login", daemon=True).start()
    except RuntimeError as error:  # a limit on threads
        raise _unprepared(error) from None
    timer = None
    if until is not None:
        timer = net.call_later(until - now, lambda: _time_out(outcome, host))
    try:
        found: Settings = await outcome
    finally:
        if timer is not None:
            net.cancel(timer)
    return found


def _prepare(net: Any, outcome: Any, prepare: Callable[[], Settings]) -> None:
    settings: Settings | None = None
    failure: Exception | None = None
    try:
        settings = prepare()
    except (errors.SaslAuthenticationFailedError, CredentialRefused) as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - the edge of a thread: it is raised again where it is awaited
        failure = _unprepared(error)

    def finish() -> None:
        if outcome.is_done:
            return  # nothing waits for it any more
        if failure is None:
            outcome.success(settings)
        else:
            outcome.failure(failure)

    with contextlib.suppress(RuntimeError):  # the link was closed before it came
        net.call_soon_threadsafe(finish)


def _time_out(outcome: Any, host: str) -> None:
    if not outcome.is_done:
        outcome.failure(silent(host))


def silent(host: str) -> LoginFailed:
    """What a login at this broker raises that takes too long."""
    return LoginFailed(f"{SILENT} (for {host})", judged=SILENT)


def _unprepared(error: Exception) -> LoginFailed:
    """Without the words of most errors: they may quote a secret."""
    words = str(error) if isinstance(error, OSError | RuntimeError) else ""
    text = f"{UNPREPARED}: {type(error).__name__}{f': {words}' if words else ''}"
    return LoginFailed(text, judged=UNPREPARED)


@contextlib.contextmanager
def one_at_a_time(lock: threading.Lock, host: str, left: float | None) -> Iterator[None]:
    """Hold the lock of a service; raises ``LoginFailed`` where others hold it for all the seconds that are left."""
    if not lock.acquire(timeout=-1 if left is None else left):
        raise silent(host)
    try:
        yield
    finally:
        lock.release()
