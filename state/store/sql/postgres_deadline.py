"""The client's own end to every wait for PostgreSQL.

The server ends a statement that takes too long, and the kernel gives up a peer that no longer acknowledges. A server
whose processes stand still (a paused container, a host that is frozen with its network up) does neither. Its kernel
acknowledges on and on, and the client would wait for ever. Connecting has a limit of its own, ``connect_timeout``,
which psycopg keeps for the whole of it; everything afterwards goes through ``Connection.wait``.
"""

import math
import time
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen

from state.errors import StoreUnavailable

Answer = TypeVar("Answer")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is given up when a call gets no answer: a statement, a commit, a rollback, or a ping."""

    limit = math.inf
    """Seconds that one call may take."""

    def wait(self, gen: PQGen[Answer], *args: Any, **options: Any) -> Answer:
        """Raises ``OperationalError`` at the limit; the connection is closed then, for an answer may come yet."""
        try:
            return super().wait(bounded(gen, self.limit), *args, **options)
        except Silent:
            self.pgconn.finish()
            raise

    def is_notified(self, seconds: float) -> bool:
        """Whether a notification comes within this time on a channel that is listened to. Raises ``StoreUnavailable``.

        Nothing is sent while it waits: only a process that sends a request notices a frozen server.
        """
        try:
            return any(True for _ in self.notifies(timeout=seconds, stop_after=1))
        except psycopg.Error as error:
            raise StoreUnavailable(f"the store no longer reports changes: {error}") from error


class Silent(psycopg.OperationalError):
    """The server holds the connection and says nothing."""


def bounded(gen: PQGen[Answer], limit: float) -> PQGen[Answer]:
    """The same conversation, which raises ``Silent`` where it would wait on after ``limit`` seconds.

    psycopg resumes it ten times a second with nothing while nothing is there. An answer that is there counts, however
    late: a process that was itself asleep reads what arrived in the meantime.
    """
    end = time.monotonic() + limit
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if not ready and time.monotonic() >= end:
                gen.close()
                raise Silent(f"the server has not answered for {limit:g} seconds")
            awaited = gen.send(ready)
    except StopIteration as done:
        answer: Answer = done.value
        return answer
