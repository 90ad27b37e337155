"""The SQL store over SQLite in memory, for tests and the simulation.

The schema is made once a process and copied, and all stores share what was compiled. A store has one connection, so its
threads take turns. What was read is kept until a writer comes to that table: who waits in simulated time polls
thousands of times, and a statement costs 300 us.
"""

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import cache, wraps
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import QueuePool

from state.store.sql.columns import dumps
from state.store.sql.database import Noun, values_of
from state.store.sql.engine import Engines, host_time
from state.store.sql.migrate import build
from state.store.sql.store import SqlStore
from state.store.wakeups import Wakeups

_URL = sa.make_url("sqlite://")
_COMPILED: dict[object, object] = {}
_READS = (
    "acknowledgements", "assignment", "assignments", "cluster_statuses", "disorder", "ends", "formers", "history",
    "intents", "leader", "open_requests", "operation", "operations", "pauses", "pending_intents", "pins", "positions",
    "probe_reports", "query_facts", "readiness", "request", "runners", "steps", "timeline", "timeline_at", "to_clean",
)  # fmt: skip


class MemoryStore(SqlStore):
    """Thread-safe; ``clock`` is the store's own clock and returns aware datetimes in UTC."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._connection = _connect()
        self._connection.deserialize(_empty_store())
        super().__init__(_engines(self._connection, clock))
        self._writes: Counter[str] = Counter()
        self._kept: dict[object, tuple[Mapping[str, int], Any]] = {}
        self._reading = threading.local()
        event.listen(self._engines.write, "before_cursor_execute", self._count)
        event.listen(self._engines.read, "before_cursor_execute", self._note)

    def close(self) -> None:
        """The content stays as long as the store: a person may look at it after the process in question has gone."""

    @property
    def engines(self) -> Engines:
        """Where its statements can be counted."""
        return self._engines

    def wakeups(self) -> Wakeups:
        """None ever come: a waiting thread looks on its own."""
        return Wakeups()

    def force(self, table: sa.Table, row: Noun) -> None:
        """Write a row past the guards: SQLite runs no trigger for a row that is replaced."""
        with self._writing() as connection:
            connection.execute(sa.insert(table).prefix_with("OR REPLACE").values(**values_of(row)))

    def back_up(self) -> Callable[[], None]:
        """Copy the store; what is returned puts the copy back in its place."""
        with self._engines.read.connect():
            kept = self._connection.serialize()

        def put_back() -> None:
            with self._engines.read.connect():
                self._connection.deserialize(kept)
                self._writes.update(self._writes.keys() | {each for found, _ in self._kept.values() for each in found})

        return put_back

    def _count(self, _connection: object, _cursor: object, text: str, *_: object) -> None:
        self._writes.update(_tables_of(text))

    def _note(self, _connection: object, _cursor: object, text: str, *_: object) -> None:
        self._reading.tables = {table: self._writes[table] for table in _tables_of(text)}


def _kept(read: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(read)
    def answer(self: MemoryStore, *args: object, **kwargs: Any) -> object:
        requested = (read.__name__, args, *kwargs.items())
        before, found = self._kept.get(requested, ({"": -1}, None))
        if any(self._writes[table] != writes for table, writes in before.items()):
            found = read(self, *args, **kwargs)
            self._kept[requested] = (self._reading.tables, found)
        return copy(found) if isinstance(found, dict | list | set) else found  # the rest is frozen

    return answer


for _name in _READS:
    setattr(MemoryStore, _name, _kept(getattr(SqlStore, _name)))


@cache
def _tables_of(text: str) -> Sequence[str]:
    """The tables that a statement reads or writes."""
    return re.findall(r"\b(?:INTO|UPDATE|FROM) (\w+)", text)


@cache
def _empty_store() -> bytes:
    connection = _connect()
    build(_engines(connection, host_time))
    return connection.serialize()


@cache
def _dialect() -> sa.Dialect:
    return sa.create_engine(_URL, json_serializer=dumps).dialect


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None, cached_statements=512)
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _engines(connection: sqlite3.Connection, clock: Callable[[], datetime]) -> Engines:
    pool = QueuePool(lambda: connection, pool_size=1, max_overflow=0, reset_on_return=None)  # type: ignore[arg-type] # sqlite3's own connection is one
    write, read = (sa.Engine(pool, _dialect(), _URL, execution_options={"compiled_cache": _COMPILED}) for _ in range(2))

    @event.listens_for(write, "begin")
    def begin_immediate(_: sa.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")

    return Engines(write, read, clock)
