"""What wakes whoever waits for the store: a channel of PostgreSQL, or the counter in an SQLite file."""

import threading
from collections.abc import Generator
from typing import Any

import sqlalchemy as sa

from state.errors import StoreUnavailable
from state.store.sql.engine import Engines, translated

_LOOK_SECONDS = 0.01
"""Between two looks at the counter of an SQLite file; one takes 10 microseconds."""
_CHECK_SECONDS = 0.5
"""How long PostgreSQL is listened to without a look at whether that is still wanted."""


def listen(engines: Engines, over: threading.Event) -> Generator[bool, None, None]:
    """As ``state.store.wakeups.Listen`` says, on a connection that no pool has. Raises ``StoreError``."""
    with translated(), engines.read.connect() as connection:
        connection.detach()
        yield from _channel(connection, over) if engines.dialect == "postgresql" else _counter(connection, over)


def _channel(connection: sa.Connection, over: threading.Event) -> Generator[bool, None, None]:
    """Sends nothing while it waits: a server that stands still is found out by the kernel's own questions."""
    import psycopg

    connection.exec_driver_sql("LISTEN tideover")
    driver: Any = connection.connection.dbapi_connection
    yield False
    while not over.is_set():
        try:
            came = [True for _ in driver.notifies(timeout=_CHECK_SECONDS, stop_after=1)]
        except psycopg.Error as error:
            raise StoreUnavailable(f"the store no longer tells of changes: {error}") from error
        yield bool(came)


def _counter(connection: sa.Connection, over: threading.Event) -> Generator[bool, None, None]:
    """SQLite counts the commits of other connections only, and every one of this process is another one."""
    driver: Any = connection.connection.dbapi_connection
    cursor = driver.cursor()
    before = None
    while not over.is_set():
        (now,) = cursor.execute("PRAGMA data_version").fetchone()
        yield before is not None and now != before
        before = now
        over.wait(_LOOK_SECONDS)
