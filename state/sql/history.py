"""The append-only history."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

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

    def note(self, event: Event, *, term: int | None = None) -> None:
        with self._writing() if term is None else self._leading(term) as connection:
            append(connection, [event])

    def history(
        self, *, query: str | None = None, operation: str | None = None, after: int = 0, limit: int = 200
    ) -> Sequence[Event]:
        asked = {"query": query, "operation": operation}
        narrowed = {name: value for name, value in asked.items() if value is not None}
        return newest_last(self._rows(Event, _newest(*narrowed), {"after": after, "most": limit, **narrowed}))


@cache
def _newest(*narrowed: str) -> sa.Select[Any]:
    """What is asked for again and again by everybody who follows the history, made once."""
    found = sa.select(history).where(history.c.sequence > sa.bindparam("after"))
    for name in narrowed:
        found = found.where(history.c[name] == sa.bindparam(name))
    return found.order_by(history.c.sequence.desc()).limit(sa.bindparam("most", type_=sa.Integer()))
