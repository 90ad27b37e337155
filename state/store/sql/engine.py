"""From a URL to two engines, one that writes and one that only reads, and to who listens for others' writes.

On SQLite the driver would begin a transaction only before the first write, so that a read-modify-write silently loses
updates: the write engine sends ``BEGIN IMMEDIATE`` instead. Reads on that engine would queue behind every writer, so
they have a plain engine of their own, where each statement sees one snapshot. PostgreSQL gets the same pair, so that a
poll costs one round trip and not three.
"""

import contextlib
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry

from state.error_meanings import DATABASE, SQLSTATES, Found, Meaning, meaning_of
from state.errors import Conflict, RowRefused, StoreError, StoreUnavailable
from state.private_files import make_private_file, make_private_folder
from state.store.sql.columns import dumps

GiveUrl = Callable[[], str]
"""Gives the store's URL as it is now."""

PATIENCE = timedelta(seconds=5)
"""How long a call may wait for a lock or a connection: below every lease's time to live."""

_RETRY_SECONDS = 0.02
_SLACK_SECONDS = 1.0
"""What a server may take to say that it ended a statement in time: with less, the client would be the first to go."""
_READ_ONLY = "25006"
"""PostgreSQL's ``read_only_sql_transaction``: this server is a standby, or has become one."""


def host_time() -> datetime:
    """What this host's clock shows."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Engines:
    """The pair; ``dialect`` is ``sqlite`` or ``postgresql``. ``clock`` gives the time of an SQLite store."""

    write: sa.Engine
    read: sa.Engine
    clock: Callable[[], datetime] = host_time

    @property
    def dialect(self) -> str:
        return self.write.dialect.name

    def dispose(self) -> None:
        self.write.dispose()
        self.read.dispose()


def make_engines(url: str | GiveUrl, patience: timedelta = PATIENCE) -> Engines:
    """Make both engines; nothing is connected yet, but for SQLite the folder is made. Raises ``StoreError``.

    The URL is read again for every connection to PostgreSQL; only its user and password count.
    """

    def give_url() -> str:
        return url if isinstance(url, str) else url()

    parsed = _parse(give_url())
    if parsed.drivername in {"sqlite", "sqlite+pysqlite"}:
        return _sqlite_engines(parsed, patience)
    if parsed.drivername in {"postgresql", "postgresql+psycopg"}:
        return _postgresql_engines(parsed, give_url, patience)
    raise StoreError(
        f"{parsed.drivername} is not a database that the store knows",
        hint="write sqlite:///path (one host) or postgresql+psycopg://... (several)",
    )


def _parse(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):  # said without the cause, which may quote a piece of a password
        raise StoreError("the store's URL cannot be read", hint="write sqlite:///path or postgresql://...") from None


def _sqlite_engines(url: sa.URL, patience: timedelta) -> Engines:
    if url.database in {None, "", ":memory:"}:
        raise StoreError("the store needs a file that all processes share", hint="write sqlite:///path/to/file")
    try:
        make_private_folder(Path(str(url.database)).parent)
    except OSError as error:
        raise StoreError(f"the folder of the store cannot be created: {error}", hint="choose another path") from error
    common = {"json_serializer": dumps, "connect_args": {"timeout": patience.total_seconds()}}
    write = sa.create_engine(url, **common)
    read = sa.create_engine(url, isolation_level="AUTOCOMMIT", pool_reset_on_return=None, **common)

    @event.listens_for(write, "do_connect")
    @event.listens_for(read, "do_connect")
    def make_file(*_: object) -> None:
        if not str(url.database).startswith("file:"):  # a URI of SQLite, not a path
            with contextlib.suppress(OSError):  # SQLite reports the reason when it opens the file
                make_private_file(Path(str(url.database)))  # its -wal and -shm get the same mode

    @event.listens_for(write, "connect")
    def prepare_writer(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None
        _set_write_ahead_log(connection, patience)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(write, "begin")
    def begin_immediate(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    @event.listens_for(read, "connect")
    def prepare_reader(connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
        connection.execute("PRAGMA query_only=ON")

    return Engines(write, read)


def _set_write_ahead_log(connection: sqlite3.Connection, patience: timedelta) -> None:
    """The change to WAL takes an exclusive lock without calling the busy handler, so two first openers collide."""
    deadline = time.monotonic() + patience.total_seconds()
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _postgresql_engines(url: sa.URL, give_url: GiveUrl, patience: timedelta) -> Engines:
    wait_ms = max(1, round(patience.total_seconds() * 1000))
    defaults: dict[str, object] = {
        "application_name": "tideover",
        "client_encoding": "utf8",  # a database without an encoding (SQL_ASCII) would answer in bytes
        "connect_timeout": max(2, math.ceil(patience.total_seconds())),
        "tcp_user_timeout": wait_ms,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "options": f"-c lock_timeout={wait_ms} -c statement_timeout={2 * wait_ms}"
        f" -c idle_in_transaction_session_timeout={4 * wait_ms}",
    }
    url = url.set(drivername="postgresql+psycopg")
    common = {
        "json_serializer": dumps,
        "connect_args": {name: value for name, value in defaults.items() if name not in url.query},
        "pool_pre_ping": True,
        "pool_timeout": patience.total_seconds(),
    }
    write = sa.create_engine(url, isolation_level="READ COMMITTED", **common)
    read = sa.create_engine(url, isolation_level="AUTOCOMMIT", pool_reset_on_return=None, **common)
    limit = 2 * patience.total_seconds() + _SLACK_SECONDS
    from state.store.sql.postgres_deadline import BoundedConnection

    def connect(dialect: sa.Dialect, _: ConnectionPoolEntry, given: list[Any], named: dict[str, Any]) -> object:
        _identify(named, dialect, give_url)
        connection = BoundedConnection.connect(*given, **named)
        connection.limit = limit
        return connection

    for engine in (write, read):
        event.listen(engine, "do_connect", connect)
    event.listen(write, "handle_error", _leave_standby)
    return Engines(write, read)


def _identify(named: dict[str, Any], dialect: sa.Dialect, give_url: GiveUrl) -> None:
    """Connect as the user, and with the password, that the URL has now: they may have changed."""
    try:
        _, options = dialect.create_connect_args(_parse(give_url()))
    except StoreError as error:
        raise StoreUnavailable(str(error), hint=error.hint) from error
    for name in ("user", "password"):
        named.pop(name, None)
        if name in options:
            named[name] = options[name]


def _leave_standby(context: sa.ExceptionContext) -> None:
    """A pool would keep its connections to a server that was demoted; a new one may find the primary."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


_PASSING = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.InternalError, sa.exc.TimeoutError)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn the library's errors into the store's: broken rule, out of reach, or anything else.

    Out of reach is also what PostgreSQL says during its own failover (read only, a transaction that idled too long),
    which its drivers call internal errors.
    """
    try:
        yield
    except sa.exc.IntegrityError as error:
        raise Conflict(f"the store refused the write: {_first_line(error)}") from error
    except sa.exc.DataError as error:
        raise RowRefused(f"the store cannot keep a value: {_first_line(error)}") from error
    except sa.exc.SQLAlchemyError as error:
        if isinstance(error, _PASSING) or (isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated):
            found = _meaning(error)
            said = _SAID.get(found.meaning if found else None, "the store cannot be reached or is locked")
            raise StoreUnavailable(
                f"{said}: {_first_line(error)}", hint="it is retried" if found is None else found.sentence
            ) from error
        raise StoreError(f"the store failed: {_first_line(error)}") from error


_SAID: Mapping[Meaning | None, str] = {
    Meaning.REFUSED: "the store refuses us",
    Meaning.FULL: "the store has no room",
    Meaning.THROTTLED: "the store has no connection for us",
}


def _meaning(error: sa.exc.SQLAlchemyError) -> Found | None:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else None
    known = SQLSTATES.get(getattr(cause, "sqlstate", None) or "")
    return Found(*known) if known is not None else meaning_of(str(cause), DATABASE)


def _first_line(error: sa.exc.SQLAlchemyError) -> str:
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    return str(cause).strip().partition("\n")[0]


_LOOK_SECONDS = 0.01
"""Between two looks at the counter of an SQLite file; one takes 10 microseconds."""
_CHECK_SECONDS = 0.5
"""How long PostgreSQL is listened to without a look at whether that is still wanted."""


def listen(engines: Engines, over: threading.Event) -> Generator[bool, None, None]:
    """As ``state.store.wakeups.Listen`` says, on a connection that no pool has. Raises ``StoreError``.

    It is a channel of PostgreSQL that is listened to, or the counter in an SQLite file that is looked at.
    """
    with translated(), engines.read.connect() as connection:
        connection.detach()
        yield from _channel(connection, over) if engines.dialect == "postgresql" else _counter(connection, over)


def _channel(connection: sa.Connection, over: threading.Event) -> Generator[bool, None, None]:
    connection.exec_driver_sql("LISTEN tideover")
    driver: Any = connection.connection.dbapi_connection
    yield False
    while not over.is_set():
        yield driver.is_notified(_CHECK_SECONDS)


def _counter(connection: sa.Connection, over: threading.Event) -> Generator[bool, None, None]:
    """SQLite counts the commits of other connections only, and every one of this process is another one."""
    driver: Any = connection.connection.dbapi_connection
    cursor = driver.cursor()
    before = None
    while not over.is_set():
        try:
            (now,) = cursor.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the store no longer reports changes: {error}") from error
        yield before is not None and now != before
        before = now
        over.wait(_LOOK_SECONDS)
