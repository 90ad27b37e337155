"""The append-only history."""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from state.model import Event
from state.sql.database import Part, newest_last, values_of
from state.sql.schema import history

_ORDER_LOCK = sa.text("SELECT pg_advisory_xact_lock(hashtext('tideover.history'))")


def append(connection: sa.Connection, events: Iterable[Event]) -> None:
    """Append within the caller's transaction.

    Writers take turns on PostgreSQL: sequence numbers are drawn before the commit, so a follower that saw 8 could miss
    a 7 that commits later. On SQLite they take turns anyway.
    """
    rows = [values_of(event) for event in events]
    if not rows:
        return
    if connection.dialect.name == "postgresql":
        connection.execute(_ORDER_LOCK)
    for row in rows:
        del row["sequence"]
        connection.execute(sa.insert(history).inline().values(**row))


class History(Part):
    """Events, numbered in the order in which they became visible."""

    def note(self, event: Event) -> None:
        with self._writing() as connection:
            append(connection, [event])

    def history(
        self, *, query: str | None = None, operation: str | None = None, after: int = 0, limit: int = 200
    ) -> Sequence[Event]:
        found = sa.select(history).where(history.c.sequence > after).order_by(history.c.sequence.desc()).limit(limit)
        if query is not None:
            found = found.where(history.c.query == query)
        if operation is not None:
            found = found.where(history.c.operation == operation)
        return newest_last(self._rows(Event, found))
